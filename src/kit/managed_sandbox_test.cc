// Sessions, their ledger and their end, on a scripted provider and an injected clock.
#include "caisson/kit/managed_sandbox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "caisson/kit/reaper.h"
#include "kit/scripted_sandbox_fixture_test.h"

namespace caisson::kit {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

using ManagedSandboxTest = ScriptedSandboxTest;

TEST_F(ManagedSandboxTest, S11CreatingWithoutAPolicyIsAProgrammingError) {
  ManagedOptions options;
  options.executor = loop.get_executor();
  ScriptedSandbox sandbox(options, script);
  EXPECT_THROW(create(sandbox), std::logic_error);
  sandbox.bind_policy({Network::egress, Isolation::none, false, true});
  EXPECT_NO_THROW(create(sandbox));
}

TEST_F(ManagedSandboxTest, S12PolicyComesBeforeTheProvider) {
  auto sandbox = open();
  sandbox->bind_policy({Network::none, Isolation::container, false, false});
  auto wanted = spec();
  wanted.network = Network::egress;
  wanted.cpu = 1;
  wanted.isolation = Isolation::none;
  EXPECT_EQ(failure_of(sandbox->create_session(wanted.clone())), ErrorCode::policy_refused);
  EXPECT_THAT(last_message, StartsWith("policy refused: network"));
  EXPECT_THAT(last_message, HasSubstr("TAI_MCP_SANDBOX_EGRESS"));
  wanted.network = Network::none;
  EXPECT_EQ(failure_of(sandbox->create_session(wanted.clone())), ErrorCode::policy_refused);
  EXPECT_THAT(last_message, HasSubstr("TAI_MCP_SANDBOX_ISOLATION"));
  wanted.isolation = std::nullopt;
  wanted.durability = Durability::persistent;
  EXPECT_EQ(failure_of(sandbox->create_session(wanted.clone())), ErrorCode::policy_refused);
  EXPECT_THAT(last_message, HasSubstr("TAI_MCP_SANDBOX_DURABLE"));
  wanted.durability = Durability::ephemeral;
  wanted.labels = {{"tai42.sandboxed", "x"}, {"tai42.sandbox", "y"}, {"fine", "z"}, {"Tai42.sandbox", "w"}};
  EXPECT_EQ(failure_of(sandbox->create_session(wanted.clone())), ErrorCode::policy_refused);
  EXPECT_THAT(last_message, HasSubstr("tai42.sandbox, tai42.sandboxed"));
  wanted.labels.clear();
  EXPECT_EQ(failure_of(sandbox->create_session(wanted.clone())), ErrorCode::not_enforceable);
  EXPECT_THAT(last_message, StartsWith("provider cannot enforce: cpu"));
  wanted.cpu = std::nullopt;
  EXPECT_TRUE(test::run(loop, sandbox->create_session(std::move(wanted))));
  EXPECT_EQ(script->created.size(), 1U) << "a refused create asked the provider for something";
}

TEST_F(ManagedSandboxTest, S14InfoGivesBackOnlyTheConsumersLabels) {
  auto sandbox = open();
  auto wanted = spec("k_1");
  wanted.labels = {{"team", "blue"}};
  auto session = create(*sandbox, std::move(wanted));
  auto info = test::run(loop, session->info());
  EXPECT_EQ(info.labels, (Labels{{"team", "blue"}}));
  EXPECT_EQ(info.id.size(), 32U);
  EXPECT_EQ(info.id.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_EQ(info.expires_at - info.created_at, 60s);
}

TEST_F(ManagedSandboxTest, S20TouchExecStartAndExecEndMoveTheDeadline) {
  auto sandbox = open();
  auto session = create(*sandbox);
  const auto start = clock->utc();
  clock->advance(10s);
  test::run(loop, session->touch());
  EXPECT_EQ(expiry(*session), start + 70s);
  clock->advance(5s);
  Argv argv{"work"};
  auto result = begin(session->exec(argv, ExecOptions(100s)));
  EXPECT_EQ(expiry(*session), start + 15s + 100s + 60s) << "the latest deadline of a live exec, and the ttl";
  clock->advance(20s);
  script->command().exit(0);
  finish(result);
  EXPECT_EQ(expiry(*session), start + 35s + 60s);
}

TEST_F(ManagedSandboxTest, S20AWallClockStepMovesNoDeadline) {
  auto sandbox = open();
  auto session = create(*sandbox);
  clock->step_utc(1h);
  clock->advance(59s);
  EXPECT_THAT(test::run(loop, sandbox->reap()), IsEmpty());
  clock->step_utc(-2h);
  EXPECT_EQ(expiry(*session), clock->utc() + 1s) << "the deadline, shown in the wall clock's new time";
  clock->advance(1s);
  EXPECT_THAT(test::run(loop, sandbox->reap()), ElementsAre(session->id()));
}

TEST_F(ManagedSandboxTest, S21ReapTakesWhatIsDueInOrderAndGoesOnPastAFailure) {
  auto sandbox = open();
  std::vector<std::string> ids;
  for (int i = 0; i < 4; ++i) {
    ids.push_back(create(*sandbox)->id());
    clock->advance(1s);
  }
  auto late = create(*sandbox);
  clock->advance(59s);
  script->destroy_fails = {ids[1]};
  EXPECT_THAT(test::run(loop, sandbox->reap()), ElementsAre(ids[0], ids[2], ids[3]));
  EXPECT_THAT(logged, ElementsAre(HasSubstr(ids[1])));
  auto listed = test::run(loop, sandbox->list_sessions());
  ASSERT_EQ(listed.size(), 2U);
  EXPECT_EQ(listed[0].id, ids[1]) << "what could not be removed stays listed";
  EXPECT_THROW(test::run(loop, sandbox->get_session(ids[1])), SandboxSessionNotFoundError);
  script->destroy_fails.clear();
  EXPECT_THAT(test::run(loop, sandbox->reap()), ElementsAre(ids[1]));
  for (const auto& [id, disposal] : script->destroyed) EXPECT_EQ(disposal, Disposal::keep_persistent);
}

TEST_F(ManagedSandboxTest, S23ATouchDoesNotKeepASessionWhoseEndHasBegun) {
  auto sandbox = open();
  auto session = create(*sandbox);
  test::run(loop, session->touch());
  script->destroy_fails = {session->id()};
  EXPECT_THROW(test::run(loop, session->destroy()), SandboxError);
  ASSERT_EQ(test::run(loop, sandbox->list_sessions()).size(), 1U) << "it is still there";
  EXPECT_THROW(test::run(loop, session->touch()), SandboxSessionNotFoundError);
  script->destroy_fails.clear();
  EXPECT_THAT(test::run(loop, sandbox->reap()), ElementsAre(session->id()));
}

Awaitable<void> wait_for(const bool* told) {
  while (told != nullptr && !*told) co_await boost::asio::post(boost::asio::use_awaitable);
}

struct SlowTeardowns {
  Awaitable<void> operator()(ScriptedCall call) const {
    if (call.what != "destroy") co_return;
    auto over = std::make_shared<bool>(false);
    auto alarm = clock->alarm(co_await boost::asio::this_coro::executor);
    alarm->set(clock->now() + 10s, [over] { *over = true; });
    while (!*over) co_await boost::asio::post(boost::asio::use_awaitable);
  }
  std::shared_ptr<ManualClock> clock;
};

TEST_F(ManagedSandboxTest, S21ReapedSessionsEndAtOnceEachInItsOwnTime) {
  auto sandbox = open();
  std::vector<std::string> ids;
  for (int i = 0; i < 11; ++i) {
    ids.push_back(create(*sandbox)->id());
    clock->advance(1s);
  }
  clock->advance(60s);
  const std::string stuck = ids[4];
  script->destroy_fails = {stuck};
  script->moment = SlowTeardowns{clock};
  auto reaped = boost::asio::co_spawn(loop, sandbox->reap(), boost::asio::use_future);
  loop.restart();
  for (int step = 0; step < 1000; ++step) loop.poll_one();
  EXPECT_THAT(script->destroyed, IsEmpty()) << "each takes 10 s";
  clock->advance(10s);
  std::erase(ids, stuck);
  EXPECT_EQ(finish(reaped), ids) << "in ledger order, one such time for all ten";
  EXPECT_THAT(logged, ElementsAre(HasSubstr(stuck)));
  EXPECT_EQ(test::run(loop, sandbox->list_sessions()).size(), 1U);
  script->destroy_fails.clear();
  script->moment = nullptr;
  EXPECT_THAT(test::run(loop, sandbox->reap()), ElementsAre(stuck));
}

TEST_F(ManagedSandboxTest, S22TheLimitsThemselvesAreAllowedAndWhatIsOverThemIsRefusedByName) {
  DispatchSettings dispatch;
  dispatch.max_lifetime_seconds = 100;
  dispatch.max_timeout_seconds = 90;
  auto sandbox = open(dispatch);
  auto wanted = spec();
  wanted.ttl_seconds = 100;
  auto session = create(*sandbox, wanted.clone());
  wanted.ttl_seconds = 101;
  try {
    create(*sandbox, wanted.clone());
    FAIL();
  } catch (const SandboxSpecRejectedError& error) {
    EXPECT_EQ(error.field(), "ttl_seconds");
    EXPECT_THAT(error.what(), HasSubstr("MAX_LIFETIME_SECONDS"));
  }
  Argv argv{"work"};
  auto longest = begin(session->exec(argv, ExecOptions(90s)));
  script->command().exit(0);
  finish(longest);
  EXPECT_EQ(failure_of(session->exec(argv, ExecOptions(std::chrono::duration<double>(90.001)))),
            ErrorCode::invalid_argument);
  EXPECT_THAT(last_message, HasSubstr("MAX_TIMEOUT_SECONDS"));
  clock->advance(40s);
  auto last = begin(session->exec(argv, ExecOptions(60s)));  // to the very end of its life
  script->command().exit(0);
  finish(last);
  EXPECT_EQ(failure_of(session->exec(argv, ExecOptions(std::chrono::duration<double>(60.001)))),
            ErrorCode::invalid_argument);
  EXPECT_THAT(last_message, HasSubstr("may live 100 s in all"));
  EXPECT_EQ(script->commands.size(), 2U);
}

TEST_F(ManagedSandboxTest, S20AnHoursStepOfTheWallClockEitherWayMovesNoDeadline) {
  for (const auto by : {std::chrono::hours(1), std::chrono::hours(-1)}) {
    auto sandbox = open();
    auto session = create(*sandbox);
    Argv argv{"work"};
    auto result = begin(session->exec(argv, ExecOptions(5s)));
    clock->step_utc(by);
    EXPECT_EQ(expiry(*session), clock->utc() + 65s);
    clock->advance(4s);
    settle();
    EXPECT_EQ(script->command().kills, 0);
    clock->advance(1s);
    EXPECT_THROW(finish(result), SandboxExecTimeoutError);
    clock->step_utc(-by);
    EXPECT_EQ(expiry(*session), clock->utc() + 60s);
    clock->advance(59s);
    EXPECT_THAT(test::run(loop, sandbox->reap()), IsEmpty());
    clock->advance(1s);
    EXPECT_THAT(test::run(loop, sandbox->reap()), ElementsAre(session->id()));
  }
}

TEST_F(ManagedSandboxTest, S22WhatWouldOutliveTheLimitsIsRejected) {
  DispatchSettings dispatch;
  dispatch.max_lifetime_seconds = 100;
  dispatch.max_timeout_seconds = 90;
  auto sandbox = open(dispatch);
  auto wanted = spec();
  wanted.ttl_seconds = 101;
  EXPECT_EQ(failure_of(sandbox->create_session(std::move(wanted))), ErrorCode::invalid_argument);
  auto session = create(*sandbox);
  clock->advance(50s);
  Argv argv{"work"};
  EXPECT_EQ(failure_of(session->exec(argv, ExecOptions(51s))), ErrorCode::invalid_argument);
  EXPECT_EQ(failure_of(session->exec(argv, ExecOptions(91s))), ErrorCode::invalid_argument);
  EXPECT_THAT(script->commands, IsEmpty());
  test::run(loop, session->touch());
  EXPECT_EQ(expiry(*session), clock->utc() + 50s) << "created_at + max_lifetime_seconds at most";
}

TEST_F(ManagedSandboxTest, S20TheLongestLifeCountsFromCreatedAtHoweverLongTheCreateTakes) {
  DispatchSettings dispatch;
  dispatch.max_lifetime_seconds = 100;
  auto sandbox = open(dispatch);
  script->creating = [this] { clock->advance(30s); };
  auto session = create(*sandbox);
  clock->advance(50s);
  test::run(loop, session->touch());
  const auto info = test::run(loop, session->info());
  EXPECT_EQ(info.expires_at, info.created_at + 100s);
  Argv argv{"work"};
  EXPECT_EQ(failure_of(session->exec(argv, ExecOptions(21s))), ErrorCode::invalid_argument);
}

TEST_F(ManagedSandboxTest, S22ALiveExecKeepsItsSessionFromTheReaper) {
  auto sandbox = open();
  auto session = create(*sandbox);
  Argv argv{"work"};
  auto result = begin(session->exec(argv, ExecOptions(1000s)));
  clock->advance(999s);
  EXPECT_THAT(test::run(loop, sandbox->reap()), IsEmpty());
  script->command().exit(0);
  finish(result);
  clock->advance(60s);
  EXPECT_THAT(test::run(loop, sandbox->reap()), ElementsAre(session->id()));
}

TEST_F(ManagedSandboxTest, S24DestroyRemovesTheWorkspaceAndUnknownIdsAreANoOp) {
  auto sandbox = open();
  auto session = create(*sandbox);
  test::run(loop, sandbox->destroy_session(session->id()));
  test::run(loop, sandbox->destroy_session(session->id()));
  test::run(loop, sandbox->destroy_session("nobody"));
  EXPECT_THAT(script->destroyed, ElementsAre(std::pair(session->id(), Disposal::remove_workspace)));
}

TEST_F(ManagedSandboxTest, S24AFailedDestroyIsCarriedOutByTheNextReap) {
  auto sandbox = open();
  auto session = create(*sandbox);
  script->destroy_fails = {session->id()};
  EXPECT_EQ(failure_of(session->destroy()), ErrorCode::removal_failed);
  script->destroy_fails.clear();
  EXPECT_THAT(test::run(loop, sandbox->reap()), ElementsAre(session->id()));
  EXPECT_THAT(script->destroyed, ElementsAre(std::pair(session->id(), Disposal::remove_workspace)));
}

TEST_F(ManagedSandboxTest, ACallOutlivesItsCallersSession) {
  auto sandbox = open();
  auto session = create(*sandbox);
  Argv argv{"work"};
  auto result = boost::asio::co_spawn(loop, session->exec(argv, ExecOptions(10s)), boost::asio::use_future);
  session.reset();
  settle();
  script->command().exit(0);
  EXPECT_EQ(finish(result).exit_code, 0);
}

TEST_F(ManagedSandboxTest, S24ConcurrentEndsTearDownOnce) {
  auto sandbox = open();
  auto session = create(*sandbox);
  clock->advance(60s);
  auto one = begin(session->destroy());
  auto two = begin(sandbox->destroy_session(session->id()));
  auto three = begin(session->release());
  finish(one);
  finish(two);
  finish(three);
  EXPECT_EQ(script->destroyed.size(), 1U);
}

TEST_F(ManagedSandboxTest, S26DestroyEndsRunningExecsTypedAndTheObjectRefusesCalls) {
  auto sandbox = open();
  auto session = create(*sandbox);
  Argv argv{"work"};
  auto result = begin(session->exec(argv, ExecOptions(100s)));
  test::run(loop, session->destroy());
  EXPECT_EQ(script->command().kills, 1);
  try {
    finish(result);
    FAIL();
  } catch (const SandboxError& error) {
    EXPECT_EQ(error.code(), ErrorCode::session_destroyed);
  }
  EXPECT_EQ(failure_of(session->exec(argv, ExecOptions(1s))), ErrorCode::session_destroyed);
  EXPECT_EQ(failure_of(session->get_file("x")), ErrorCode::session_destroyed);
  EXPECT_EQ(failure_of(session->info()), ErrorCode::session_not_found);
  EXPECT_EQ(failure_of(session->touch()), ErrorCode::session_not_found);
  test::run(loop, session->destroy());
  test::run(loop, session->release());
  EXPECT_EQ(script->commands.size(), 1U);
}

TEST_F(ManagedSandboxTest, S26TeardownKillsLeftoversFirst) {
  auto sandbox = open();
  auto session = create(*sandbox);
  Argv argv{"work"};
  auto result = begin(session->exec(argv, ExecOptions(100s)));
  script->command().exit(0, /*descendants=*/true);
  finish(result);
  EXPECT_EQ(script->command().kills, 0) << "S-45: descendants may go on";
  test::run(loop, session->release());
  EXPECT_EQ(script->command().kills, 1);
  EXPECT_TRUE(script->command().retired);
}

TEST_F(ManagedSandboxTest, S27AFailedCreateIsNotListed) {
  auto sandbox = open();
  script->create_fails = true;
  EXPECT_EQ(failure_of(sandbox->create_session(spec())), ErrorCode::internal);
  EXPECT_THAT(test::run(loop, sandbox->list_sessions()), IsEmpty());
}

TEST_F(ManagedSandboxTest, S28UnknownIdsAreNotFoundCarryingTheId) {
  auto sandbox = open();
  try {
    test::run(loop, sandbox->get_session("nobody"));
    FAIL();
  } catch (const SandboxSessionNotFoundError& error) {
    EXPECT_EQ(error.session_id(), "nobody");
  }
}

TEST_F(ManagedSandboxTest, S46AProcessThatWillNotDieFailsTheTeardownAndIsTriedAgain) {
  auto sandbox = open();
  auto session = create(*sandbox);
  Argv argv{"work"};
  auto result = begin(session->exec(argv, ExecOptions(100s)));
  script->command().dies_of_kill = false;
  EXPECT_EQ(failure_of(session->destroy()), ErrorCode::removal_failed);
  EXPECT_THROW(finish(result), SandboxError);
  EXPECT_THAT(script->destroyed, IsEmpty()) << "files go only after processes";
  script->command().dies_of_kill = true;
  test::run(loop, session->destroy());
  EXPECT_EQ(script->destroyed.size(), 1U);
}

TEST_F(ManagedSandboxTest, S24ADestroyThatMeetsAReleaseStillRemovesTheWorkspace) {
  auto sandbox = open();
  auto session = create(*sandbox);
  bool destroyed = false;
  script->moment = [&](ScriptedCall call) { return wait_for(call.what == "destroy" ? &destroyed : nullptr); };
  auto release = boost::asio::co_spawn(loop, session->release(), boost::asio::use_future);
  auto destroy = boost::asio::co_spawn(loop, session->destroy(), boost::asio::use_future);
  loop.restart();
  for (int step = 0; step < 100; ++step) loop.run_one();  // both are on the session, the second waits
  destroyed = true;
  finish(release);
  finish(destroy);
  EXPECT_THAT(script->destroyed, ElementsAre(std::pair(session->id(), Disposal::keep_persistent),
                                             std::pair(session->id(), Disposal::remove_workspace)));
}

TEST_F(ManagedSandboxTest, S52ACancelledExecWhoseCommandWillNotDieIsLetGo) {
  auto sandbox = open();
  auto session = create(*sandbox);
  Argv argv{"work"};
  boost::asio::cancellation_signal cancel;
  auto result =
      boost::asio::co_spawn(loop, session->exec(argv, ExecOptions(1h)),
                            boost::asio::bind_cancellation_slot(cancel.slot(), boost::asio::use_future));
  settle();
  script->command().dies_of_kill = false;
  boost::asio::post(loop, [&] { cancel.emit(boost::asio::cancellation_type::terminal); });
  EXPECT_THROW(finish(result), boost::system::system_error);
  EXPECT_GT(script->command().kills, 0);
  script->command().dies_of_kill = true;
  test::run(loop, session->destroy());
}

TEST_F(ManagedSandboxTest, S63AReaderIsToldOfACommandThatAKillDoesNotEnd) {
  auto sandbox = open();
  auto session = create(*sandbox);
  Argv argv{"work"};
  auto handle = test::run(loop, session->exec_start(argv, ExecOptions(1h)));
  auto item = begin(handle->output().next());
  script->command().dies_of_kill = false;
  EXPECT_EQ(failure_of(handle->kill()), ErrorCode::internal);
  EXPECT_THROW(finish(item), SandboxError);
  script->command().dies_of_kill = true;
  test::run(loop, session->destroy());
}

TEST_F(ManagedSandboxTest, CancelledCreateLeavesNothing) {
  auto sandbox = open();
  for (int n = 0; n < 20; ++n) {
    const auto created = script->created.size();
    boost::asio::cancellation_signal cancel;
    std::optional<std::exception_ptr> outcome;
    boost::asio::co_spawn(
        loop, sandbox->create_session(spec()),
        boost::asio::bind_cancellation_slot(
            cancel.slot(),
            [&outcome](std::exception_ptr error, std::shared_ptr<SandboxSession>) { outcome = error; }));
    loop.restart();
    for (int step = 0; step < n && !outcome; ++step) loop.poll_one();
    const bool done = outcome.has_value();
    if (!done) emit(cancel);
    settle();
    ASSERT_TRUE(outcome);
    if (*outcome) {
      EXPECT_EQ(script->created.size() - created, script->destroyed.size())
          << "cancelled after " << n << " steps";
      for (const auto& [id, disposal] : script->destroyed) EXPECT_EQ(disposal, Disposal::undo);
      script->destroyed.clear();
    } else if (done) {
      return;
    } else {  // it had been made when the cancellation arrived; the caller has it
      script->destroyed.clear();
    }
  }
  FAIL() << "the create never completed";
}

TEST_F(ManagedSandboxTest, S82ReaperSleepsFirstLogsAndSurvivesAFailingSweep) {
  auto sandbox = open();
  auto session = create(*sandbox);
  clock->advance(100s);
  boost::asio::cancellation_signal stop;
  bool stopped = false;
  boost::asio::co_spawn(
      loop,
      run_reaper(sandbox, clock, std::chrono::duration<double>(30),
                 [this](LogLevel, const std::string& line) { logged.push_back(line); }),
      boost::asio::bind_cancellation_slot(stop.slot(), [&stopped](std::exception_ptr) { stopped = true; }));
  settle();
  EXPECT_THAT(script->destroyed, IsEmpty()) << "it sleeps first";
  script->destroy_fails = {session->id()};
  clock->advance(30s);
  settle();
  EXPECT_THAT(logged, ElementsAre(HasSubstr("will not go")));
  script->destroy_fails.clear();
  clock->advance(29s);
  settle();
  EXPECT_THAT(script->destroyed, IsEmpty());
  clock->advance(1s);
  settle();
  EXPECT_THAT(logged, testing::Contains("reaped session " + session->id()));
  emit(stop);
  settle();
  EXPECT_TRUE(stopped);
}

TEST_F(ManagedSandboxTest, S26_ABoxThatEndsAllItsProcessesEndsWhatATreesOwnKillDoesNot) {
  auto sandbox = open();
  auto session = create(*sandbox);
  auto other = create(*sandbox);
  Argv argv{"work"};
  auto result = begin(session->exec(argv, ExecOptions(100s)));
  script->command().dies_of_kill = false;
  script->command().dies_with_box = true;
  auto others = begin(other->exec(argv, ExecOptions(100s)));
  script->command().dies_with_box = true;
  test::run(loop, session->release());
  EXPECT_THROW(finish(result), SandboxError);
  EXPECT_GE(script->commands.front()->kills, 1);
  EXPECT_FALSE(script->command().ended) << "another session's box";
  script->command().exit(0);
  EXPECT_EQ(finish(others).exit_code, 0);
}

}  // namespace
}  // namespace caisson::kit
