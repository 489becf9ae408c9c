// The real program caisson-init in namespaces of its own, and a host that talks to it, for tests.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>

#include <chrono>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "init/channel.h"
#include "init/messages.h"
#include "os/id_map.h"
#include "os/socket.h"
#include "os/spawn.h"

namespace caisson::init {

inline constexpr auto test_patience = std::chrono::seconds(20);

/// One connection's requests and replies, one after another.
class TestHost {
 public:
  struct Answer {
    Reply reply = Done{};
    std::vector<os::Fd> descriptors;
  };

  explicit TestHost(os::Fd socket) : channel_(Channel::over(std::move(socket), Peer::init).value()) {}

  template <class Message>
  Answer ask(const Message& message, std::vector<os::Fd> descriptors = {}) {
    const std::uint64_t request = ++last_;
    auto sent = channel_.send(encode(request, message).value(), std::move(descriptors));
    EXPECT_TRUE(sent && *sent);
    Answer answer{Failed{Step::protocol, 0, "no answer"}, {}};
    take_until([&](std::uint64_t number, Answer& came) {
      if (number == request) answer = std::move(came);
      return number == request;
    });
    return answer;
  }

  /// The next that is said unasked.
  Reply news() {
    if (news_.empty()) take_until([this](std::uint64_t, Answer&) { return !news_.empty(); });
    if (news_.empty()) return Failed{Step::protocol, 0, "no news"};
    Reply next = std::move(news_.front());
    news_.pop_front();
    return next;
  }
  Channel& channel() noexcept { return channel_; }

 private:
  template <class Wanted>
  void take_until(Wanted wanted) {
    const auto deadline = std::chrono::steady_clock::now() + test_patience;
    for (;;) {
      static_cast<void>(channel_.flush());
      auto incoming = channel_.receive();
      if (!incoming) return;
      if (!*incoming) {
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
            deadline - std::chrono::steady_clock::now());
        pollfd ready{channel_.socket().number,
                     static_cast<short>(channel_.has_output() ? POLLIN | POLLOUT : POLLIN), 0};
        if (left.count() <= 0 || ::poll(&ready, 1, static_cast<int>(left.count())) <= 0) return;
        continue;
      }
      const Frame& frame = (*incoming)->frame;
      auto reply = decode_reply(frame);
      if (!reply) return;
      Answer answer{std::move(*reply), std::move((*incoming)->descriptors)};
      if (frame.request == 0) news_.push_back(std::move(answer.reply));
      if (wanted(frame.request, answer)) return;
    }
  }

  Channel channel_;
  std::uint64_t last_ = 0;
  std::deque<Reply> news_;
};

/// A started caisson-init, ended with it.
class InitProcess {
 public:
  /// `control` becomes its descriptor 3. It is born in `cgroup`, where that is given.
  InitProcess(os::FdRef program, os::Fd control, const os::IdMaps& maps, os::FdRef cgroup = {}) {
    const char* const argv[] = {"caisson-init", nullptr};
    const char* const envp[] = {nullptr};
    const os::Fd null = os::open_empty_input().value();
    os::SpawnPlan plan;
    plan.program = program;
    plan.argv = argv;
    plan.envp = envp;
    for (os::FdRef& descriptor : plan.descriptors) descriptor = null;
    plan.extra = control;
    plan.namespaces = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS;
    plan.raise_capabilities = true;
    plan.cgroup = cgroup;
    auto spawned = os::spawn(plan);
    if (!spawned) {
      failure_ = "spawn: " + os::error_of(spawned.error().number).message();
      return;
    }
    process_ = std::move(*spawned);
    const auto mapped = os::write_id_maps(process_, maps);
    if (!mapped) failure_ = mapped.error().text;
  }
  ~InitProcess() {
    if (!process_) return;
    static_cast<void>(process_.signal(SIGKILL));
    process_.reap();
  }
  InitProcess(const InitProcess&) = delete;
  InitProcess& operator=(const InitProcess&) = delete;

  const std::string& failure() const noexcept { return failure_; }
  const os::Process& process() const noexcept { return process_; }
  /// Whether it has ended by itself in time.
  bool ends() const {
    pollfd end{process_.pidfd().number, POLLIN, 0};
    return ::poll(&end, 1, static_cast<int>(std::chrono::milliseconds(test_patience).count())) == 1;
  }

 private:
  os::Process process_;
  std::string failure_;
};

inline os::Fd init_program() { return os::Fd::adopt(::open(CAISSON_INIT_PROGRAM, O_RDONLY | O_CLOEXEC)); }

/// How a command ended, with all that it wrote, in words.
struct Outcome {
  std::string out;
  std::string err;
  std::string end;
};

/// The pipes of a command's streams: the host's ends, and those that ride along.
struct CommandPipes {
  explicit CommandPipes(bool with_input, uid_t owner = 0) {
    auto in = os::make_pipe();
    auto o = os::make_pipe();
    auto e = os::make_pipe();
    // So that the box's user may open them again (D-5).
    for (const os::Fd* end : {&in->read, &o->write, &e->write}) {
      if (owner != 0 && ::fchown(end->number(), owner, owner) != 0) ADD_FAILURE() << "fchown";
    }
    input = std::move(in->write);
    output = std::move(o->read);
    error = std::move(e->read);
    if (with_input) theirs.push_back(std::move(in->read));
    theirs.push_back(std::move(o->write));
    theirs.push_back(std::move(e->write));
  }
  os::Fd input, output, error;
  std::vector<os::Fd> theirs;
};

inline std::string in_words(const Failed& failed) {
  return "failed at step " + std::to_string(int{static_cast<std::uint8_t>(failed.step)}) + ": " +
         os::error_of(static_cast<int>(failed.number)).message() + ": " + failed.detail;
}
inline std::string in_words(const Exited& end) {
  return (end.signaled ? "signal " : "code ") + std::to_string(end.code) + (end.core ? " core" : "") +
         (end.left ? " left" : "");
}
inline std::string in_words(const Reply& reply) {
  if (const auto* failed = std::get_if<Failed>(&reply)) return in_words(*failed);
  if (const auto* end = std::get_if<Exited>(&reply)) return in_words(*end);
  if (std::holds_alternative<TreeEmpty>(reply)) return "empty";
  if (std::holds_alternative<Done>(reply)) return "done";
  return "reply " + std::to_string(reply.index());
}

/// Runs a command to its end.
inline Outcome run(TestHost& host, StartExec request, const std::string& input = {}, uid_t owner = 0) {
  CommandPipes pipes(!input.empty(), owner);
  request.input = !input.empty();
  auto answer = host.ask(request, std::move(pipes.theirs));
  const auto* started = std::get_if<Started>(&answer.reply);
  if (started == nullptr) return {"", "", in_words(answer.reply)};
  if (!input.empty()) static_cast<void>(os::write_all(pipes.input, input));
  pipes.input.reset();
  Outcome outcome;
  outcome.out = os::read_all(pipes.output, 1 << 20).value();
  outcome.err = os::read_all(pipes.error, 1 << 20).value();
  outcome.end = in_words(host.news());
  EXPECT_EQ(in_words(host.ask(AckExit{started->exec}).reply), "done");
  return outcome;
}
inline StartExec shell(const std::string& script) {
  return {{"/bin/sh", "-c", script}, {}, "", {}, false, 0, "", 0};
}

}  // namespace caisson::init
