// The exec pump, on scripted commands.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kit/output_queue.h"
#include "kit/scripted_sandbox_fixture_test.h"

namespace caisson::kit {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class ExecTest : public ScriptedSandboxTest {
 protected:
  void SetUp() override {
    sandbox = open();
    session = create(*sandbox);
  }
  std::future<ExecResult> exec(ExecOptions options = ExecOptions(10s)) {
    Argv argv{"work"};
    return begin(session->exec(argv, std::move(options)));
  }
  std::unique_ptr<SandboxExecHandle> start(ExecOptions options = ExecOptions(10s)) {
    Argv argv{"work"};
    return test::run(loop, session->exec_start(argv, std::move(options)));
  }
  std::optional<SandboxStreamItem> next(SandboxExecHandle& handle) {
    return test::run(loop, handle.output().next());
  }
  // The next item, which must be a chunk.
  std::string chunk(SandboxExecHandle& handle) {
    auto item = next(handle);
    auto* data = item ? std::get_if<SandboxStreamChunk>(&*item) : nullptr;
    return data ? data->data : "<no chunk>";
  }
  void skip_to_exit(SandboxExecHandle& handle) {
    for (auto item = next(handle); item && std::holds_alternative<SandboxStreamChunk>(*item);
         item = next(handle)) {
    }
  }
  std::string read_stdin(std::size_t size) {
    std::string got(size, '\0');
    auto n = os::read_some(script->command().in, got.data(), size);
    got.resize(n ? *n : 0);
    return got;
  }

  std::shared_ptr<ScriptedSandbox> sandbox;
  std::shared_ptr<SandboxSession> session;
};

TEST_F(ExecTest, S41CallEnvGoesOverSpecEnv) {
  auto wanted = spec();
  wanted.env["A"] = "1";
  wanted.env["B"] = "2";
  session = create(*sandbox, std::move(wanted));
  auto result = exec(ExecOptions(10s).env("B", "3"));
  const auto& env = script->command().plan->env;
  EXPECT_EQ(env.at("A").reveal(), "1");
  EXPECT_EQ(env.at("B").reveal(), "3");
  script->command().exit(0);
  finish(result);
}

TEST_F(ExecTest, S43GivenInputIsDeliveredThenClosed) {
  auto result = exec(ExecOptions(10s).input("hello"));
  settle();
  EXPECT_EQ(read_stdin(100), "hello");
  EXPECT_EQ(read_stdin(100), "") << "end-of-file";
  script->command().exit(0);
  finish(result);
}

TEST_F(ExecTest, S43EightMebibytesToACommandThatNeverReadsAreNoError) {
  auto result = exec(ExecOptions(10s).input(std::string(8 << 20, 'x')));
  settle();
  script->command().write("done");
  script->command().exit(0);
  EXPECT_EQ(finish(result).out, "done");
}

TEST_F(ExecTest, S43UnsetInputIsNoPipe) {
  auto result = exec();
  EXPECT_FALSE(script->command().plan->input);
  script->command().exit(0);
  finish(result);
}

TEST_F(ExecTest, S45WhatIsInThePipesIsDeliveredEvenWhenADescendantKeepsThem) {
  auto result = exec();
  script->command().write("out");
  script->command().write_error("err");
  script->command().exit(0, /*descendants=*/true);
  auto got = finish(result);
  EXPECT_EQ(got.out, "out");
  EXPECT_EQ(got.err, "err");
  EXPECT_EQ(script->command().kills, 0);
}

TEST_F(ExecTest, S45WhatASlowReaderHeldUpInThePipesIsDelivered) {
  auto handle = start();
  const std::string piece(64 * 1024, 'x');
  std::size_t written = 0;
  for (; written < OutputQueue::limit; written += piece.size()) {
    script->command().write(piece);
    settle();
  }
  script->command().write("the rest");
  settle();
  script->command().exit(0, /*descendants=*/true);
  settle();
  std::string got;
  for (auto item = next(*handle); item && std::holds_alternative<SandboxStreamChunk>(*item);
       item = next(*handle)) {
    got += std::get<SandboxStreamChunk>(*item).data;
  }
  EXPECT_EQ(got.size(), written + 8);
  EXPECT_TRUE(got.ends_with("xthe rest"));
  script->command().close_streams();
  script->command().empty = true;
  settle();
}

TEST_F(ExecTest, S45LeftoverOutputIsDrainedAndDropped) {
  auto result = exec();
  script->command().exit(0, /*descendants=*/true);
  finish(result);
  const std::string flood(64 * 1024, 'x');
  for (int i = 0; i < 64; ++i) {  // far more than a pipe holds: this would block if nobody drained
    script->command().write(flood);
    settle();
  }
  script->command().close_streams();
  script->command().empty = true;
  settle();
}

TEST_F(ExecTest, S45ADescendantsFloodAfterTheEndDoesNotHoldTheResult) {
  auto result = exec();
  std::atomic<bool> stop = false;
  std::thread flood([this, &stop] {
    const std::string piece(64 * 1024, 'x');
    while (!stop) script->command().write(piece);
  });
  settle();
  script->command().exit(0, /*descendants=*/true);
  EXPECT_EQ(finish(result).exit_code, 0);
  stop = true;
  for (int i = 0; i < 100; ++i) {
    settle();
    std::this_thread::sleep_for(1ms);
  }
  flood.join();
}

TEST_F(ExecTest, S46DeadlineKillsAndCarriesLengths) {
  auto result = exec(ExecOptions(5s));
  script->command().write("12345");
  script->command().write_error("123");
  settle();
  clock->advance(4999ms);
  settle();
  EXPECT_EQ(script->command().kills, 0);
  clock->advance(1ms);
  try {
    finish(result);
    FAIL();
  } catch (const SandboxExecTimeoutError& error) {
    EXPECT_EQ(error.timeout_seconds(), 5.0);
    EXPECT_EQ(error.stdout_len(), 5U);
    EXPECT_EQ(error.stderr_len(), 3U);
    EXPECT_TRUE(error.gone());
    EXPECT_EQ(error.code(), ErrorCode::timeout);
  }
  EXPECT_EQ(script->command().kills, 1);
}

TEST_F(ExecTest, S46ATreeThatWillNotGoIsSaidAfterTwoSeconds) {
  auto result = exec(ExecOptions(5s));
  script->command().dies_of_kill = false;
  clock->advance(5s);
  const auto before = std::chrono::steady_clock::now();
  try {
    finish(result);
    FAIL();
  } catch (const SandboxExecTimeoutError& error) {
    EXPECT_FALSE(error.gone());
    EXPECT_THAT(error.what(), HasSubstr("not gone"));
  }
  EXPECT_GE(std::chrono::steady_clock::now() - before, 1900ms);
  script->command().dies_of_kill = true;
}

TEST_F(ExecTest, S46TheDeadlineEndsWithTheLeader) {
  auto result = exec(ExecOptions(5s));
  script->command().exit(3, /*descendants=*/true);
  settle();
  clock->advance(10s);
  EXPECT_EQ(finish(result).exit_code, 3);
  EXPECT_EQ(script->command().kills, 0);
}

TEST_F(ExecTest, S47ASlowReaderIsNoTimeout) {
  auto handle = start(ExecOptions(5s));
  script->command().write("late");
  script->command().exit(0);
  settle();
  clock->advance(1h);
  settle();
  EXPECT_EQ(chunk(*handle), "late");
  EXPECT_TRUE(std::holds_alternative<SandboxStreamExit>(*next(*handle)));
}

TEST_F(ExecTest, S48HowItEndedIsPassedOn) {
  auto result = exec();
  ExecEnded how;
  how.how = ExecEnd::lost;
  how.exit_code = 255;
  how.lost_cause = "reaped by a stranger";
  script->command().end(how);
  EXPECT_EQ(finish(result).ended, how);
}

TEST_F(ExecTest, S50PastTheCapTheTotalsAreRaised) {
  auto result = exec(ExecOptions(10s).output_cap(4));
  script->command().write("123456");
  script->command().write_error("12");
  script->command().exit(0);
  try {
    finish(result);
    FAIL();
  } catch (const SandboxOutputLimitError& error) {
    EXPECT_EQ(error.limit(), 4U);
    EXPECT_EQ(error.stdout_bytes(), 6U);
    EXPECT_EQ(error.stderr_bytes(), 2U);
  }
}

TEST_F(ExecTest, S50AllowedTruncationGivesThePrefixAndTheTotals) {
  auto result = exec(ExecOptions(10s).output_cap(4).allow_truncation(true));
  script->command().write("123456");
  script->command().write_error("1234");
  script->command().exit(0);
  auto got = finish(result);
  EXPECT_EQ(got.out, "1234");
  EXPECT_EQ(got.err, "1234");
  EXPECT_TRUE(got.truncated);
  EXPECT_EQ(got.stdout_bytes, 6U);
}

TEST_F(ExecTest, S50ExactlyTheCapIsNotTruncated) {
  auto result = exec(ExecOptions(10s).output_cap(4));
  script->command().write("1234");
  script->command().exit(0);
  EXPECT_FALSE(finish(result).truncated);
}

// Every point at which the call can be suspended: the exec either completes or is cancelled whole, its tree
// killed.
TEST_F(ExecTest, S52CancellationAtEverySuspension) {
  for (int n = 1; n < 60; ++n) {
    settle();  // then the first step begins the call: one cancelled before that throws out of run()
               // (Asio 1.26)
    const auto before = script->commands.size();
    boost::asio::cancellation_signal cancel;
    std::optional<std::exception_ptr> outcome;
    Argv argv{"work"};
    boost::asio::co_spawn(
        loop, session->exec(argv, ExecOptions(10s).input(std::string(1 << 20, 'x'))),
        boost::asio::bind_cancellation_slot(
            cancel.slot(), [&outcome](std::exception_ptr error, ExecResult) { outcome = error; }));
    loop.restart();
    bool exited = false;
    for (int step = 0; step < n && !outcome; ++step) {
      if (loop.poll_one() == 0 && !exited && script->commands.size() > before) {
        script->command().exit(0);  // nothing more to do: the command's turn
        exited = true;
      }
    }
    const bool done = outcome.has_value();
    if (!done) emit(cancel);
    const auto until = std::chrono::steady_clock::now() + 5s;
    while (!outcome && std::chrono::steady_clock::now() < until) {
      loop.restart();
      loop.run_one_for(1ms);
    }
    ASSERT_TRUE(outcome) << "hangs when cancelled after " << n << " steps";
    if (done) {
      EXPECT_FALSE(*outcome);
      return;
    }
    if (*outcome) {
      EXPECT_THROW(std::rethrow_exception(*outcome), boost::system::system_error);
    }
    if (script->commands.size() > before) {
      EXPECT_TRUE(script->command().ended) << "still runs, cancelled after " << n << " steps";
    }
  }
  FAIL() << "the exec never completed";
}

TEST_F(ExecTest, S44ExecsWaitForDescriptorsTheirTimeoutCounting) {
  script->starts_without_descriptors = 3;
  auto one = exec();
  auto two = exec();
  const auto until = std::chrono::steady_clock::now() + 5s;
  while (script->commands.size() < 2 && std::chrono::steady_clock::now() < until) {
    loop.restart();
    loop.run_one_for(5ms);
  }
  ASSERT_EQ(script->commands.size(), 2U);
  EXPECT_EQ(script->attempts, 5U);
  for (auto& command : script->commands) command->exit(0);
  finish(one);
  finish(two);
  script->starts_without_descriptors = 1000000;
  auto never = exec(ExecOptions(5s));
  clock->advance(5s);
  try {
    finish(never);
    FAIL();
  } catch (const SandboxExecTimeoutError& error) {
    EXPECT_THAT(error.what(), HasSubstr("never started"));
    EXPECT_THAT(error.what(), HasSubstr("ulimit -n"));
  }
  script->starts_without_descriptors = 0;
}

TEST_F(ExecTest, S44AnExecThatTimesOutInTheQueueIsGone) {
  script->starts_without_descriptors = 1000000;
  auto first = exec(ExecOptions(5s));
  auto queued = exec(ExecOptions(5s));
  clock->advance(5s);
  for (auto* outcome : {&first, &queued}) {
    try {
      finish(*outcome);
      FAIL();
    } catch (const SandboxExecTimeoutError& error) {
      EXPECT_TRUE(error.gone()) << "nothing of it was ever started";
    }
  }
  script->starts_without_descriptors = 0;
}

TEST_F(ExecTest, S46AStartThatIsHeldEndsAtTheDeadline) {
  script->hold_starts = true;
  auto result = exec(ExecOptions(5s));
  clock->advance(5s);
  try {
    finish(result);
    FAIL();
  } catch (const SandboxExecTimeoutError& error) {
    EXPECT_TRUE(error.gone());
  }
  EXPECT_TRUE(script->commands.empty());
}

TEST_F(ExecTest, S26AStartThatIsHeldEndsWithItsSession) {
  script->hold_starts = true;
  auto result = exec(ExecOptions(100s));
  test::run(loop, session->destroy());
  try {
    finish(result);
    FAIL();
  } catch (const SandboxError& error) {
    EXPECT_EQ(error.code(), ErrorCode::session_destroyed);
  }
}

TEST_F(ExecTest, S50ACapBeyondAllMemoryIsNoError) {
  auto result = exec(ExecOptions(10s).output_cap(~std::uint64_t{0}));
  const std::string piece(64 * 1024, 'x');
  for (int i = 0; i < 32; ++i) {
    script->command().write(piece);
    settle();
  }
  script->command().exit(0);
  EXPECT_EQ(finish(result).out.size(), 32 * piece.size());
}

TEST_F(ExecTest, S60ChunksThenOneExitThenNothing) {
  auto handle = start();
  script->command().write("a");
  EXPECT_EQ(chunk(*handle), "a");
  script->command().write("b");
  EXPECT_EQ(chunk(*handle), "b") << "taking the cursor again continues";
  script->command().exit(7);
  auto item = next(*handle);
  ASSERT_TRUE(item);
  EXPECT_EQ(std::get<SandboxStreamExit>(*item).exit_code, 7);
  EXPECT_FALSE(next(*handle));
  EXPECT_FALSE(next(*handle));
}

TEST_F(ExecTest, S60TwoReadersAtOnceIsTyped) {
  auto handle = start();
  auto one = begin(handle->output().next());
  EXPECT_EQ(failure_of(handle->output().next()), ErrorCode::output_busy);
  script->command().write("x");
  EXPECT_TRUE(finish(one));
  script->command().exit(0);
}

TEST_F(ExecTest, S60AfterAnErrorNextRepeatsIt) {
  auto handle = start(ExecOptions(5s));
  script->command().write("partial");
  settle();
  clock->advance(5s);
  settle();
  EXPECT_EQ(chunk(*handle), "partial");
  EXPECT_EQ(failure_of(handle->output().next()), ErrorCode::timeout);
  EXPECT_EQ(failure_of(handle->output().next()), ErrorCode::timeout);
}

TEST_F(ExecTest, S60ACancelledReadLosesNothing) {
  auto handle = start();
  boost::asio::cancellation_signal cancel;
  std::exception_ptr error;
  boost::asio::co_spawn(
      loop, handle->output().next(),
      boost::asio::bind_cancellation_slot(
          cancel.slot(), [&error](std::exception_ptr e, std::optional<SandboxStreamItem>) { error = e; }));
  settle();
  emit(cancel);
  settle();
  ASSERT_TRUE(error);
  script->command().write("kept");
  EXPECT_EQ(chunk(*handle), "kept");
  script->command().exit(0);
}

TEST_F(ExecTest, S61ABoundedBufferThenBackpressureAndNothingIsLost) {
  auto handle = start();
  std::size_t written = 0;
  std::atomic<bool> done = false;
  std::thread writer([&] {
    const std::string piece(1 << 20, 'x');
    for (int i = 0; i < 8; ++i) {
      script->command().write(piece);
      written += piece.size();
    }
    done = true;
  });
  for (int i = 0; i < 200; ++i) {
    settle();
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_FALSE(done) << "the writer was not held up";
  std::size_t got = 0;
  while (got < (8U << 20)) got += chunk(*handle).size();
  writer.join();
  EXPECT_EQ(got, written);
  script->command().exit(0);
  EXPECT_TRUE(std::holds_alternative<SandboxStreamExit>(*next(*handle)));
}

TEST_F(ExecTest, S62WritesAreWholeAndInOrder) {
  auto handle = start();
  const std::string big(1 << 20, 'a');
  auto one = begin(handle->write_stdin(big));
  auto two = begin(handle->write_stdin("b"));
  auto close = begin(handle->close_stdin());
  std::string got;
  for (std::string piece;; got += piece) {
    piece = read_stdin(1 << 16);
    settle();
    if (piece.empty()) break;
  }
  EXPECT_EQ(got.size(), big.size() + 1);
  EXPECT_EQ(got.back(), 'b');
  finish(one);
  finish(two);
  finish(close);
  test::run(loop, handle->close_stdin());
  EXPECT_EQ(failure_of(handle->write_stdin("x")), ErrorCode::stdin_closed);
  script->command().exit(0);
}

TEST_F(ExecTest, S62AfterExitOrKillWritingIsTyped) {
  auto handle = start();
  script->command().exit(0);
  settle();
  EXPECT_EQ(failure_of(handle->write_stdin("x")), ErrorCode::stdin_closed);
  test::run(loop, handle->close_stdin());
  auto other = start();
  test::run(loop, other->kill());
  EXPECT_EQ(failure_of(other->write_stdin("x")), ErrorCode::stdin_closed);
}

TEST_F(ExecTest, S62ACommandThatClosedItsEndIsTyped) {
  auto handle = start();
  script->command().in.reset();
  EXPECT_EQ(failure_of(handle->write_stdin("x")), ErrorCode::stdin_closed);
  script->command().exit(0);
}

TEST_F(ExecTest, S62ACancelledWriteTellsHowMuchWent) {
  auto handle = start();
  boost::asio::cancellation_signal cancel;
  std::exception_ptr error;
  boost::asio::co_spawn(
      loop, handle->write_stdin(std::string(1 << 20, 'x')),
      boost::asio::bind_cancellation_slot(cancel.slot(), [&error](std::exception_ptr e) { error = e; }));
  settle();
  emit(cancel);
  settle();
  ASSERT_TRUE(error);
  try {
    std::rethrow_exception(error);
  } catch (const SandboxWriteCancelled& cancelled) {
    EXPECT_EQ(cancelled.written(), 65536U) << "what the pipe holds";
    EXPECT_EQ(cancelled.code(), boost::asio::error::operation_aborted);
  }
  // The queue behind it goes on.
  read_stdin(1 << 16);
  test::run(loop, handle->write_stdin("y"));
  EXPECT_EQ(read_stdin(10), "y");
  script->command().exit(0);
}

TEST_F(ExecTest, S63KillEndsTheExecWithItsExitItem) {
  auto handle = start();
  script->command().write("before");
  settle();
  test::run(loop, handle->kill());
  EXPECT_EQ(chunk(*handle), "before");
  auto item = next(*handle);
  EXPECT_EQ(std::get<SandboxStreamExit>(*item).exit_code, 137);
  test::run(loop, handle->kill());
}

TEST_F(ExecTest, S63KillAlsoEndsLeftoversOfAnExitedLeader) {
  auto handle = start();
  script->command().exit(0, /*descendants=*/true);
  skip_to_exit(*handle);
  EXPECT_EQ(script->command().kills, 0);
  test::run(loop, handle->kill());
  EXPECT_EQ(script->command().kills, 1);
  EXPECT_TRUE(script->command().empty);
}

TEST_F(ExecTest, S64SignalsReachTheLeaderOnly) {
  auto handle = start();
  test::run(loop, handle->signal(15));
  EXPECT_THAT(script->command().signals, testing::ElementsAre(15));
  EXPECT_EQ(failure_of(handle->signal(0)), ErrorCode::invalid_argument);
  EXPECT_EQ(failure_of(handle->signal(65)), ErrorCode::invalid_argument);
  EXPECT_EQ(failure_of(handle->resize(TtySize{10, 10})), ErrorCode::invalid_argument);
  script->command().exit(0);
  settle();
  test::run(loop, handle->signal(15));
  EXPECT_EQ(script->command().signals.size(), 1U);
}

TEST_F(ExecTest, S65DroppingTheHandleEndsTheExec) {
  auto handle = start();
  handle.reset();
  EXPECT_EQ(script->command().kills, 1);
  settle();
  EXPECT_TRUE(script->command().retired);
}

TEST_F(ExecTest, S65DroppingItAfterTheLeadersEndTouchesNothing) {
  auto handle = start();
  script->command().exit(0, /*descendants=*/true);
  skip_to_exit(*handle);
  handle.reset();
  EXPECT_EQ(script->command().kills, 0);
}

TEST_F(ExecTest, ExecTakesNoTtyAndExecStartNoInput) {
  Argv argv{"work"};
  EXPECT_EQ(failure_of(session->exec(argv, ExecOptions(1s).tty({80, 24}))), ErrorCode::invalid_argument);
  EXPECT_EQ(failure_of(session->exec_start(argv, ExecOptions(1s).input("x"))), ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace caisson::kit
