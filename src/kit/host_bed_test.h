// A Host over temporary directories, and what its tests do with it.
#pragma once

#include <unistd.h>

#include <boost/asio.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "caisson/kit/host.h"
#include "os/fd.h"
#include "tests/support/async.h"
#include "tests/support/eventually.h"
#include "tests/support/guests.h"
#include "tests/support/temporary_directory.h"

namespace caisson::kit::test {

namespace asio = boost::asio;

inline constexpr char base_path[] = "/usr/local/bin:/usr/bin:/bin";

struct Ran {
  std::string out;
  std::string err;
  ExecEnded ended;
};

// co_spawn returns only what has a default constructor.
inline Awaitable<void> start_into(std::shared_ptr<SessionBox> box, std::shared_ptr<const ExecPlan> plan,
                                  std::optional<StartedExec>* started) {
  const auto executor = co_await asio::this_coro::executor;
  started->emplace(co_await box->start(plan, executor));
}

inline ExecPlan plan_of(std::vector<std::string> argv) {
  ExecPlan plan;
  plan.argv = std::move(argv);
  return plan;
}

/// All that one Host needs. A death test makes its own, in the process that is to die.
class HostBed {
 public:
  explicit HostBed(TreeKill tree_kill) {
    std::filesystem::create_directory(workspace);
    std::filesystem::create_directory(scratch);
    std::filesystem::permissions(temporary.path(), std::filesystem::perms::all);
    HostOptions options;
    options.tree_kill = tree_kill;
    options.log = [this](LogLevel, const std::string& message) { log += message + "\n"; };
    host = Host::open(std::move(options));
    HostBoxOptions box_options;
    box_options.workspace_path = workspace;
    box_options.temporary_directory = scratch;
    box_options.base_path = base_path;
    box = host->make_box(std::move(box_options));
  }

  StartedExec start(ExecPlan plan) {
    auto shared = std::make_shared<const ExecPlan>(std::move(plan));
    std::optional<StartedExec> started;
    caisson::test::run(context, start_into(box, std::move(shared), &started));
    return std::move(*started);
  }

  /// To its end, its output with it.
  Ran run(ExecPlan plan) {
    StartedExec started = start(std::move(plan));
    Ran ran;
    ran.out = read_to_end(started.out);
    if (started.err.is_open()) ran.err = read_to_end(started.err);
    ran.ended = wait_for(*started.tree);
    finish(started);
    return ran;
  }

  /// An ended leader's end; ExecEnd::lost without a cause when there is none.
  static ExecEnded wait_for(ExecTree& tree) {
    std::optional<ExecEnded> ended;
    caisson::test::eventually([&] { return (ended = tree.try_reap()).has_value(); });
    if (ended) return *ended;
    ExecEnded none;
    none.how = ExecEnd::lost;
    return none;
  }

  static std::string read_to_end(asio::posix::stream_descriptor& stream) {
    // EIO is how a terminal's master says the end.
    std::string text;
    char buffer[4096];
    stream.native_non_blocking(false);
    for (;;) {
      const auto count = os::read_some(os::FdRef{stream.native_handle()}, buffer, sizeof buffer);
      if (!count || *count == 0) return text;
      text.append(buffer, *count);
    }
  }
  static std::string read_until(asio::posix::stream_descriptor& stream, std::string_view word) {
    stream.native_non_blocking(false);
    return caisson::test::read_until(os::FdRef{stream.native_handle()}, word);
  }

  /// Whether it was seen empty in time; it is retired then.
  static bool finish(StartedExec& started) {
    const bool empty =
        caisson::test::eventually([&] { return started.tree->try_reap() && started.tree->empty(); });
    if (empty) started.tree->retire();
    started.tree.reset();
    return empty;
  }

  caisson::test::TemporaryDirectory temporary;
  std::string workspace = temporary / "workspace";
  std::string scratch = temporary / "scratch";
  std::string log;
  asio::io_context context;
  std::shared_ptr<Host> host;
  std::shared_ptr<SessionBox> box;
};

}  // namespace caisson::kit::test
