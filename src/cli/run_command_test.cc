// One run over a sandbox that fails in ways of its own.
#include "cli/run_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/steady_timer.hpp>

#include "facade/fake_sandbox.h"

namespace caisson::cli {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

std::string message_of(const std::exception_ptr& failure) {
  try {
    if (failure) std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    return error.what();
  } catch (int number) {
    return std::to_string(number);
  }
  return "";
}

// Whose execs fail, and whose release throws what no contract knows.
class BadSession final : public facade::FakeSession {
 public:
  BadSession(std::shared_ptr<facade::FakeState> state, bool standard)
      : FakeSession(std::move(state), "bad"), standard_(standard) {}
  Awaitable<std::unique_ptr<SandboxExecHandle>> exec_start(Argv, ExecOptions) override {
    throw SandboxError(ErrorCode::command_not_found, "no such command");
  }
  Awaitable<void> release() override {
    if (standard_) throw std::runtime_error("release is broken");
    throw 42;
  }

 private:
  bool standard_;
};

class BadSandbox final : public facade::FakeSandbox {
 public:
  BadSandbox(std::shared_ptr<facade::FakeState> state, bool standard)
      : FakeSandbox(state), state_(std::move(state)), standard_(standard) {}
  Awaitable<std::shared_ptr<SandboxSession>> create_session(SandboxSessionSpec) override {
    co_return std::make_shared<BadSession>(state_, standard_);
  }

 private:
  std::shared_ptr<facade::FakeState> state_;
  bool standard_;
};

class RunCommandFailure : public testing::TestWithParam<bool> {};

TEST_P(RunCommandFailure, OfTheReleaseEndsTheLoopAndIsTold) {
  boost::asio::io_context context(1);
  boost::asio::steady_timer too_late(context, 10s);
  bool stuck = false;
  too_late.async_wait([&](boost::system::error_code error) {
    if (error) return;
    stuck = true;
    context.stop();
  });
  RunCommand command(context);
  RunRequest request{.spec = {},
                     .argv = Argv({"x"}),
                     .exec = ExecOptions(1s),
                     .put = {},
                     .get = {},
                     .input = false,
                     .tty = false,
                     .capture = true};
  const RunOutcome outcome = command.run(
      std::make_shared<BadSandbox>(std::make_shared<facade::FakeState>(), GetParam()), std::move(request));
  EXPECT_FALSE(stuck);
  EXPECT_FALSE(outcome.held_up);
  EXPECT_EQ(message_of(outcome.failure), "no such command");
  ASSERT_EQ(outcome.later_failures.size(), 1U);
  EXPECT_THAT(message_of(outcome.later_failures[0]), HasSubstr(GetParam() ? "release is broken" : "42"));
}

INSTANTIATE_TEST_SUITE_P(Thrown, RunCommandFailure, testing::Bool());

}  // namespace
}  // namespace caisson::cli
