// Commands that do all they can to outlive, outwait or outwrite their exec, under both ways of tree kill.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <future>

#include "tests/security/local_sandbox.h"
#include "tests/support/async.h"
#include "tests/support/eventually.h"
#include "tests/support/guests.h"
#include "tests/support/ways.h"

namespace caisson::test {
namespace {

using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

class HardExecTest : public LocalSandboxTest {
 protected:
  // Reads a guest_tree's lines until it is ready; what it wrote.
  static std::string read_ready(blocking::ExecHandle& exec) {
    std::string got;
    while (got.find("ready ") == std::string::npos) {
      auto item = exec.output().next();
      auto* chunk = item ? std::get_if<SandboxStreamChunk>(&*item) : nullptr;
      if (!chunk) break;
      got += chunk->data;
    }
    return got;
  }
  // Reads to the end; the exit item, or nothing when an error ended it.
  static std::optional<SandboxStreamExit> read_end(blocking::ExecHandle& exec) {
    while (auto item = exec.output().next()) {
      if (auto* exit = std::get_if<SandboxStreamExit>(&*item)) return *exit;
    }
    return std::nullopt;
  }
};

TEST_P(HardExecTest, S46FloodPastATimeout) {
  const auto start = Steady::now();
  try {
    session_.exec({"sh", "-c", "yes & yes >&2 & exec yes"}, ExecOptions(500ms).output_cap(1 << 16));
    FAIL();
  } catch (const SandboxExecTimeoutError& error) {
    EXPECT_TRUE(error.gone());
    EXPECT_GT(error.stdout_len(), 1U << 16) << "past the cap bytes are counted and dropped";
    EXPECT_GT(error.stderr_len(), 0U);
  }
  EXPECT_LT(Steady::now() - start, 2500ms);
}

TEST_P(HardExecTest, S46TimeoutOfACommandThatNobodyReads) {
  auto exec = session_.exec_start({"yes"}, ExecOptions(300ms));
  // It sits in a full pipe; the deadline strikes all the same, and what was queued is still given.
  EXPECT_TRUE(eventually([this] {
    try {
      return session_.exec({"sh", "-c", "cat /proc/*/comm 2>/dev/null | grep -cx yes"}, ExecOptions(10s))
                 .out == "0\n";
    } catch (const SandboxError&) {
      return false;
    }
  }));
  std::size_t got = 0;
  try {
    while (auto item = exec.output().next()) got += std::get<SandboxStreamChunk>(*item).data.size();
    FAIL();
  } catch (const SandboxExecTimeoutError& error) {
    EXPECT_EQ(error.stdout_len(), got);
  }
}

TEST_P(HardExecTest, S46EveryShapeOfDescendantDiesAtTheDeadline) {
  for (const char* shape : {"plain", "setsid", "double", "deep", "ignore", "stop", "silent"}) {
    SCOPED_TRACE(shape);
    auto exec = session_.exec_start(Argv{guest("guest_tree"), "stay", shape}, ExecOptions(1500ms));
    const auto watched = watch_all(read_ready(exec));
    ASSERT_FALSE(watched.empty());
    EXPECT_FALSE(any_ended(watched)) << "they run until the deadline";
    EXPECT_THROW(read_end(exec), SandboxExecTimeoutError);
    EXPECT_TRUE(all_ended(watched, 0ms)) << "when the timeout is raised the tree is gone";
  }
}

TEST_P(HardExecTest, S45DescendantsGoOnAndDieWithTheSession) {
  std::vector<Watched> watched;
  for (const char* shape : {"plain", "setsid", "double", "deep", "ignore", "stop", "silent", "flood"}) {
    SCOPED_TRACE(shape);
    const auto start = Steady::now();
    auto result =
        session_.exec(Argv{guest("guest_tree"), "leave", shape}, ExecOptions(20s).allow_truncation(true));
    EXPECT_LT(Steady::now() - start, 2s) << "a descendant that holds the pipes does not hold the result";
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_NE(result.out.find("ready 1\n"), std::string::npos) << "what the leader wrote is delivered";
    for (auto& one : watch_all(result.out.substr(0, result.out.find("ready "))))
      watched.push_back(std::move(one));
  }
  ASSERT_GE(watched.size(), 8U);
  EXPECT_FALSE(any_ended(watched)) << "S-45: they may go on";
  session_.release();
  EXPECT_TRUE(all_ended(watched, 0ms)) << "and die with the session, before release returns";
}

TEST_P(HardExecTest, S46AForkingRelayIsCaught) {
  auto exec = session_.exec_start(Argv{guest("guest_tree"), "stay", "relay", "plain"}, ExecOptions(1s));
  const auto watched = watch_all(read_ready(exec));
  EXPECT_THROW(read_end(exec), SandboxExecTimeoutError);
  EXPECT_TRUE(all_ended(watched, 0ms));
}

TEST_P(HardExecTest, S43EightMebibytesToACommandThatNeverReads) {
  const auto result =
      session_.exec({"sh", "-c", "echo done"}, ExecOptions(10s).input(std::string(8 << 20, 'x')));
  EXPECT_EQ(result.out, "done\n");
  EXPECT_THROW(session_.exec({"sleep", "60"}, ExecOptions(300ms).input(std::string(8 << 20, 'x'))),
               SandboxExecTimeoutError);
  // The control: one that reads gets it all.
  EXPECT_EQ(session_.exec({"wc", "-c"}, ExecOptions(10s).input(std::string(8 << 20, 'x'))).out, "8388608\n");
}

TEST_P(HardExecTest, S47SlowReaderLosesNothingAndIsNoTimeout) {
  auto exec = session_.exec_start({"sh", "-c", "head -c 300000 /dev/zero; echo end >&2"}, ExecOptions(2s));
  std::this_thread::sleep_for(2500ms);  // past the deadline; the command has long ended
  std::size_t out = 0;
  std::string err;
  std::optional<SandboxStreamExit> exit;
  while (auto item = exec.output().next()) {
    if (auto* chunk = std::get_if<SandboxStreamChunk>(&*item)) {
      chunk->stream == SandboxStream::out ? void(out += chunk->data.size()) : void(err += chunk->data);
    } else {
      exit = std::get<SandboxStreamExit>(*item);
    }
  }
  EXPECT_EQ(out, 300000U);
  EXPECT_EQ(err, "end\n");
  ASSERT_TRUE(exit);
  EXPECT_EQ(exit->exit_code, 0);
}

TEST_P(HardExecTest, S48SignalsAndExitCodesAreToldApart) {
  auto killed = session_.exec({"sh", "-c", "kill -9 $$"}, ExecOptions(10s));
  EXPECT_EQ(killed.exit_code, 137);
  EXPECT_EQ(killed.ended.how, ExecEnd::signaled);
  EXPECT_EQ(killed.ended.signal, 9);
  auto exited = session_.exec({"sh", "-c", "exit 137"}, ExecOptions(10s));
  EXPECT_EQ(exited.exit_code, 137);
  EXPECT_EQ(exited.ended.how, ExecEnd::exited);
  EXPECT_FALSE(exited.ended.signal);
}

TEST_P(HardExecTest, S40FailuresToStartAreDistinctAndLeaveNothing) {
  auto code_of = [this](Argv argv) {
    try {
      session_.exec(std::move(argv), ExecOptions(10s));
    } catch (const SandboxError& error) {
      return error.code();
    }
    return ErrorCode::internal;
  };
  session_.put_file("plain", "x");
  session_.put_file("garbage", "not a program", 0755);
  session_.put_file("script", "#!/no/such/interpreter\n", 0755);
  EXPECT_EQ(code_of({"no-such-command"}), ErrorCode::command_not_found);
  EXPECT_EQ(code_of({"./script"}), ErrorCode::bad_format) << "its interpreter is missing";
  EXPECT_EQ(code_of({"./plain"}), ErrorCode::not_executable);
  EXPECT_EQ(code_of({"./garbage"}), ErrorCode::bad_format);
  EXPECT_EQ(code_of({"true", std::string(3 << 20, 'x')}), ErrorCode::argument_list_too_long);
  EXPECT_EQ(session_.exec({"true"}, ExecOptions(10s)).exit_code, 0);
}

TEST_P(HardExecTest, S40AProgramJustPutRunsWhateverElseIsStarting) {
  std::atomic<bool> stop = false;
  std::thread others([this, &stop] {
    while (!stop) session_.exec({"true"}, ExecOptions(20s));
  });
  for (int round = 0; round < 100; ++round) {
    const std::string name = "program" + std::to_string(round);
    session_.put_file(name, "#!/bin/sh\necho ran\n", 0755);
    EXPECT_EQ(session_.exec(Argv{"./" + name}, ExecOptions(20s)).out, "ran\n");
  }
  stop = true;
  others.join();
}

// Its parent is its shim, where there is one.
TEST_P(HardExecTest, S46ACommandThatStopsItsParentDiesAtTheDeadline) {
  if (GetParam() == kit::TreeKill::cgroup) return;  // its parent is this test
  auto exec = session_.exec_start({"sh", "-c", "sleep 0.3; kill -STOP $PPID; echo \"pid $$\"; exec sleep 60"},
                                  ExecOptions(1s));
  const auto first = exec.output().next();
  const auto watched = watch_all(std::get<SandboxStreamChunk>(first.value()).data);
  ASSERT_EQ(watched.size(), 1U);
  EXPECT_FALSE(any_ended(watched));
  try {
    read_end(exec);
    FAIL();
  } catch (const SandboxExecTimeoutError& error) {
    EXPECT_TRUE(error.gone());
  }
  EXPECT_TRUE(all_ended(watched, 0ms));
  // At once, often before the shim has told of the start.
  for (int i = 0; i < 10; ++i) {
    EXPECT_THROW(session_.exec({"sh", "-c", "kill -STOP $PPID; exec sleep 60"}, ExecOptions(300ms)),
                 SandboxExecTimeoutError);
  }
}

TEST_P(HardExecTest, S51ADescendantThatKillsItsCgroupHurtsNoLaterCommand) {
  const std::string script =
      "cg=$(grep -o '^0::.*' /proc/self/cgroup | cut -c4-); m=$(grep ' cgroup2 ' /proc/self/mounts | cut -d' "
      "' -f2);"
      "(exec >/dev/null 2>&1 </dev/null; sleep 0.02; echo 1 > $m$cg/cgroup.kill) & exit 0";
  auto other = sandbox_.create_session(local_spec("other"));
  for (int round = 0; round < 12; ++round) {
    if (GetParam() == kit::TreeKill::cgroup) session_.exec({"sh", "-c", script}, ExecOptions(20s));
    EXPECT_EQ(other.exec({"sh", "-c", "sleep 0.03; exit 5"}, ExecOptions(20s)).exit_code, 5);
  }
}

TEST_P(HardExecTest, S64ClosingATerminalsInputInTheMiddleOfALineEndsIt) {
  auto cat = session_.exec_start({"cat"}, ExecOptions(10s).tty({80, 24}));
  cat.write_stdin("no newline");
  cat.close_stdin();
  EXPECT_EQ(read_end(cat).value().exit_code, 0);
}

TEST_P(HardExecTest, S63KillAndS65DropEmptyTheTree) {
  for (const bool drop : {false, true}) {
    SCOPED_TRACE(drop ? "drop" : "kill");
    std::optional<blocking::ExecHandle> exec =
        session_.exec_start(Argv{guest("guest_tree"), "stay", "setsid", "ignore", "stop"}, ExecOptions(60s));
    const auto watched = watch_all(read_ready(*exec));
    ASSERT_EQ(watched.size(), 3U);
    EXPECT_FALSE(any_ended(watched));
    if (drop) {
      exec.reset();
    } else {
      exec->kill();
    }
    EXPECT_TRUE(all_ended(watched, drop ? 2000ms : 0ms));
    if (!drop) {
      EXPECT_EQ(read_end(*exec).value().exit_code, 137);
    }
  }
}

TEST_P(HardExecTest, S64ATerminal) {
  auto exec = session_.exec_start(Argv{guest("guest_state")}, ExecOptions(10s).tty({123, 45}));
  std::string text;
  while (auto item = exec.output().next()) {
    if (auto* chunk = std::get_if<SandboxStreamChunk>(&*item)) text += chunk->data;
  }
  EXPECT_NE(text.find("terminal yes"), std::string::npos) << text;
  EXPECT_NE(text.find("size 123 45"), std::string::npos) << text;
  auto shell = session_.exec_start({"sh", "-c", "read line; stty size; echo got $line"},
                                   ExecOptions(10s).tty({80, 24}));
  shell.resize({100, 50});
  shell.write_stdin("word\n");
  text.clear();
  while (auto item = shell.output().next()) {
    if (auto* chunk = std::get_if<SandboxStreamChunk>(&*item)) text += chunk->data;
  }
  EXPECT_NE(text.find("50 100"), std::string::npos) << text;
  EXPECT_NE(text.find("got word"), std::string::npos) << text;
}

// A call cancelled at each of its suspensions, with a real command: it completes, or it is undone whole.
TEST_P(HardExecTest, S52CancellationAtEverySuspension) {
  boost::asio::io_context loop;
  TemporaryDirectory root;
  auto sandbox = caisson::open(loop.get_executor(), "local", local_options(root.path(), GetParam()));
  auto session = run(loop, sandbox->create_session(local_spec()));
  int completed = 0;
  int cancelled = 0;
  for (std::size_t n = 1; n < 200 && completed < 3; ++n) {
    loop.restart();
    loop.poll();
    boost::asio::cancellation_signal cancel;
    std::optional<std::exception_ptr> outcome;
    ExecResult result;
    Argv argv{"sh", "-c", "cat; (exec sleep 0.01); echo x"};
    boost::asio::co_spawn(
        loop, session->exec(argv, ExecOptions(20s).input("in\n")),
        boost::asio::bind_cancellation_slot(cancel.slot(), [&](std::exception_ptr error, ExecResult got) {
          outcome = error;
          result = std::move(got);
        }));
    bool emitted = false;
    for (std::size_t step = 0; !outcome || (step >= n && !emitted); ++step) {
      if (step == n) {
        boost::asio::post(loop, [&] {
          cancel.emit(boost::asio::cancellation_type::terminal);
          emitted = true;
        });
      }
      loop.restart();
      ASSERT_EQ(loop.run_one_for(10s), 1U) << "hangs, cancelled after " << n << " steps";
    }
    if (*outcome) {
      ++cancelled;
      EXPECT_THROW(std::rethrow_exception(*outcome), boost::system::system_error);
    } else {
      if (!emitted) ++completed;
      EXPECT_EQ(result.out, "in\nx\n");
    }
  }
  EXPECT_GT(cancelled, 3);
  EXPECT_GT(completed, 0) << "the exec never completed";
  run(loop, session->release());
  sandbox.reset();
  loop.restart();
  loop.run_for(5s);
}

INSTANTIATE_TEST_SUITE_P(BothWays, HardExecTest, testing::ValuesIn(ways_here()), name_of_way);

}  // namespace
}  // namespace caisson::test
