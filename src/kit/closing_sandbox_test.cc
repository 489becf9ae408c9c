// A sandbox that closes, whatever else is under way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>

#include "caisson/kit/managed_sandbox.h"
#include "kit/scripted_sandbox_fixture_test.h"
#include "tests/support/eventually.h"

namespace caisson::kit {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

using ClosingSandboxTest = ScriptedSandboxTest;

TEST_F(ClosingSandboxTest, ClosingReleasesEverySessionWithoutTheLoop) {
  auto sandbox = open();
  auto one = create(*sandbox);
  auto two = create(*sandbox);
  Argv argv{"work"};
  auto result = begin(two->exec(argv, ExecOptions(100s)));
  sandbox.reset();
  EXPECT_THAT(script->destroyed, UnorderedElementsAre(std::pair(one->id(), Disposal::keep_persistent),
                                                      std::pair(two->id(), Disposal::keep_persistent)));
  EXPECT_GE(script->command().kills, 1);
  EXPECT_EQ(failure_of(one->exec(argv, ExecOptions(1s))), ErrorCode::session_destroyed);
}

TEST_F(ClosingSandboxTest, S26_ABoxEndsItsProcessesWithoutTheLoop) {
  auto sandbox = open();
  auto session = create(*sandbox);
  Argv argv{"work"};
  auto result = begin(session->exec(argv, ExecOptions(100s)));
  script->command().dies_of_kill = false;
  script->command().dies_with_box = true;
  sandbox.reset();
  EXPECT_TRUE(script->command().ended);
  EXPECT_THAT(script->destroyed, ElementsAre(std::pair(session->id(), Disposal::keep_persistent)));
}

// The session's last exec goes between the end of the provider's call and the rest of the teardown: a close
// may get that far meanwhile.
TEST_F(ClosingSandboxTest, S24ACloseThatMeetsATeardownDoesNotRepeatIt) {
  auto sandbox = open();
  auto session = create(*sandbox);
  Argv argv{"work"};
  auto result = begin(session->exec(argv, ExecOptions(100s)));
  script->command().exit(0, /*descendants=*/true);
  script->command().close_streams();
  finish(result);
  settle();
  std::atomic<bool> closing = false;
  std::atomic<bool> closed = false;
  bool met = false;
  script->command().held_to_the_end =
      std::shared_ptr<void>(nullptr, [&](void*) { met = test::eventually([&] { return closed.load(); }); });
  script->commands.clear();
  std::optional<std::thread> closer;
  script->moment = [&](ScriptedCall call) {
    if (call.what == "destroy" && !closer) {
      closer.emplace([&] {
        closing = true;
        sandbox.reset();
        closed = true;
      });
      test::eventually([&] { return closing.load(); });
    }
    return pass_moment(std::make_shared<Script>(), std::move(call));
  };
  test::run(loop, session->release());
  ASSERT_TRUE(closer);
  closer->join();
  EXPECT_TRUE(met) << "the test's own wait";
  EXPECT_EQ(script->destroyed.size(), 1U);
}

Awaitable<void> fail_once_told(std::shared_ptr<bool> told, std::shared_ptr<bool> failed) {
  while (!*told) co_await boost::asio::post(boost::asio::use_awaitable);
  *failed = true;
  throw SandboxError(ErrorCode::removal_failed, "will not go");
}

TEST_F(ClosingSandboxTest, S21AReapNamesNoSessionThatACloseHasTakenOver) {
  auto sandbox = open();
  auto session = create(*sandbox);
  clock->advance(60s);
  auto told = std::make_shared<bool>(false);
  auto failed = std::make_shared<bool>(false);
  script->moment = [&](ScriptedCall) { return fail_once_told(told, failed); };
  auto one = boost::asio::co_spawn(loop, sandbox->reap(), boost::asio::use_future);
  auto two = boost::asio::co_spawn(loop, sandbox->reap(), boost::asio::use_future);
  loop.restart();
  for (int step = 0; step < 100; ++step) loop.run_one();  // both are on the session, the second waits
  *told = true;
  while (!*failed) loop.run_one();
  sandbox.reset();
  EXPECT_THAT(finish(one), IsEmpty());
  EXPECT_THAT(finish(two), IsEmpty()) << "it is still there, for the next recovery";
  EXPECT_THAT(script->destroyed, IsEmpty());
}

TEST_F(ClosingSandboxTest, S26ACloseWaitsForTheStartOfACommandBeforeItRemovesFiles) {
  auto sandbox = open();
  auto session = create(*sandbox);
  bool destroyed_beside_a_process = false;
  script->moment = [&](ScriptedCall call) {
    if (call.what == "destroy") {
      for (const auto& command : script->commands) destroyed_beside_a_process |= !command->ended;
    }
    return pass_moment(std::make_shared<Script>(), std::move(call));
  };
  Argv argv{"work"};
  auto result = boost::asio::co_spawn(loop, session->exec(argv, ExecOptions(100s)), boost::asio::use_future);
  loop.restart();
  while (script->commands.empty()) loop.run_one();  // it runs, and its exec has yet to hear of it
  std::thread closer([&] { sandbox.reset(); });
  EXPECT_THROW(finish(result), SandboxError);
  closer.join();
  EXPECT_FALSE(destroyed_beside_a_process);
  EXPECT_EQ(script->destroyed.size(), 1U);
}

TEST_F(ClosingSandboxTest, S26ACloseWithoutALoopRemovesNoFilesUnderACommandThatStarts) {
  auto sandbox = open();
  auto session = create(*sandbox);
  Argv argv{"work"};
  auto result = boost::asio::co_spawn(loop, session->exec(argv, ExecOptions(100s)), boost::asio::use_future);
  loop.restart();
  while (script->commands.empty()) loop.run_one();  // it runs, and its exec has yet to hear of it
  sandbox.reset();
  EXPECT_FALSE(script->command().ended);
  EXPECT_THAT(script->destroyed, IsEmpty());
  EXPECT_THAT(logged, ElementsAre(HasSubstr("left for the next recovery")));
  EXPECT_THROW(finish(result), SandboxError);
  EXPECT_EQ(script->command().kills, 1);
}

TEST_F(ClosingSandboxTest, S27ACreateThatBeginsAfterTheCloseAsksTheProviderForNothing) {
  auto sandbox = open();
  auto wanted = spec();
  wanted.cpu = 1;  // the provider would refuse this
  auto work = sandbox->create_session(std::move(wanted));
  sandbox.reset();
  EXPECT_EQ(failure_of(std::move(work)), ErrorCode::session_destroyed);
}

}  // namespace
}  // namespace caisson::kit
