// A box in its cgroups, with a real caisson-init, for tests.
#pragma once

#include <signal.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "init/host_plan_test.h"
#include "init/init_process_test.h"
#include "providers/container/box_cgroup.h"

namespace caisson::container {

inline constexpr uid_t bed_first_uid = 524288;
inline constexpr std::uint32_t bed_init_id = 65535;

/// How root maps the ids of the box, and who its init is outside.
inline os::IdMaps bed_maps() { return {{{0, bed_first_uid, 65536}}, {{0, bed_first_uid, 65536}}}; }
inline InitOwner bed_owner() { return {bed_first_uid + bed_init_id, bed_first_uid + bed_init_id}; }

/// A started box; ended and removed with it.
class CgroupBed {
 public:
  explicit CgroupBed(std::shared_ptr<BoxCgroup> made, init::BoxPlan plan, const os::IdMaps& maps)
      : cgroup(std::move(made)) {
    auto sockets = os::make_socket_pair();
    init = std::make_unique<init::InitProcess>(init::init_program(), std::move(sockets->second), maps,
                                               cgroup->init_leaf());
    host = std::make_unique<init::TestHost>(std::move(sockets->first));
    std::vector<os::Fd> along;
    cgroup->add_to(plan, along);
    failure = init->failure();
    if (failure.empty()) host->ask(init::Hello{});
    if (failure.empty()) failure = init::in_words(host->ask(init::BuildBox{plan}, std::move(along)).reply);
    if (failure == "done") failure.clear();
    if (failure.empty()) cgroup->complete();
  }

  /// A command that runs.
  struct Running {
    BoxLeaf leaf;
    std::uint64_t exec = 0;
    init::CommandPipes pipes{false};
    std::string failure = {};
  };
  Running start(const std::string& script) {
    auto ready = cgroup->ready_leaf();
    Running running{ready ? std::move(*ready) : cgroup->make_leaf()};
    init::StartExec request = init::shell(script);
    running.leaf.add_to(request, running.pipes.theirs);
    const auto answer = host->ask(request, std::move(running.pipes.theirs));
    const auto* started = std::get_if<init::Started>(&answer.reply);
    if (started != nullptr) running.exec = started->exec;
    if (started == nullptr) running.failure = init::in_words(answer.reply);
    return running;
  }
  /// Whether it has said that it is ready: one line.
  static bool is_ready(Running& running) {
    char byte = 0;
    while (os::read_some(running.pipes.output, &byte, 1).value() == 1) {
      if (byte == '\n') return true;
    }
    return false;
  }
  /// A command's output and end, with its leaf still its own.
  struct Ended {
    Running running;
    std::string out;
    std::string end;
  };
  Ended finish(Running running) {
    if (!running.failure.empty()) return {std::move(running), "", running.failure};
    std::string out = os::read_all(running.pipes.output, 1 << 20).value();
    std::string end = init::in_words(host->news());
    host->ask(init::AckExit{running.exec});
    return {std::move(running), std::move(out), std::move(end)};
  }
  /// What a command writes, and how it ends.
  std::string run(const std::string& script) {
    Ended ended = finish(start(script));
    cgroup->give_back(std::move(ended.running.leaf));
    return ended.out + ended.end;
  }

  std::shared_ptr<BoxCgroup> cgroup;
  std::unique_ptr<init::InitProcess> init;
  std::unique_ptr<init::TestHost> host;
  std::string failure;  ///< Empty: it is built.
};

}  // namespace caisson::container
