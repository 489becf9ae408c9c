// The suite itself: its tables, and that it survives a provider that hangs, throws or blocks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/cancellation_state.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/this_coro.hpp>
#include <filesystem>
#include <future>
#include <map>
#include <set>

#include "kit/conformance/fault.h"
#include "kit/conformance/runner.h"
#include "kit/conformance/task.h"

namespace caisson::kit::conformance {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

TEST(ConformanceTable, NamesAreUniqueAndNoPrefixOfAnother) {
  const auto infos = checks();
  ASSERT_GT(infos.size(), 60U);
  for (const CheckInfo& info : infos) {
    EXPECT_THAT(info.name, testing::MatchesRegex("[a-z]+\\.[a-z0-9_]+"));
    EXPECT_THAT(info.rules, testing::MatchesRegex("S-[0-9]+( S-[0-9]+)*")) << info.name;
    EXPECT_FALSE(info.title.empty()) << info.name;
    for (const CheckInfo& other : infos) {
      EXPECT_TRUE(&info == &other || !other.name.starts_with(info.name))
          << info.name << " and " << other.name;
    }
  }
}

TEST(ConformanceTable, EveryCheckHasOneFault) {
  std::map<std::string_view, int> faults;
  for (const Fault* fault : all_faults()) {
    ++faults[fault->check];
    EXPECT_FALSE(fault->title.empty()) << fault->check;
  }
  for (const CheckInfo& info : checks()) {
    EXPECT_EQ(faults[info.name], 1) << info.name;
    faults.erase(info.name);
  }
  for (const auto& [name, count] : faults) ADD_FAILURE() << "a fault for no check: " << name;
}

/// A provider of which only create_session does anything.
class StubSandbox : public Sandbox {
 public:
  using Create = Awaitable<SessionPtr> (*)();
  explicit StubSandbox(Create create) : create_(create) {}
  Awaitable<SessionPtr> create_session(SandboxSessionSpec) override { return create_(); }
  Awaitable<SessionPtr> get_session(std::string id) override { throw SandboxSessionNotFoundError(id); }
  Awaitable<std::vector<SandboxSessionInfo>> list_sessions() override {
    co_return std::vector<SandboxSessionInfo>();
  }
  Awaitable<void> destroy_session(std::string) override { co_return; }
  Awaitable<std::vector<std::string>> reap() override { co_return std::vector<std::string>(); }
  std::string_view name() const noexcept override { return "stub"; }
  void bind_policy(SandboxPolicy) override {}

 private:
  Create create_;
};

Awaitable<SessionPtr> throws_an_int() {
  throw 1;
  co_return nullptr;
}

Awaitable<SessionPtr> hangs() {
  const boost::asio::any_io_executor executor = co_await boost::asio::this_coro::executor;
  boost::asio::steady_timer timer(executor, 24h);
  co_await timer.async_wait(boost::asio::use_awaitable);
  co_return nullptr;
}

Awaitable<SessionPtr> hangs_for_good() {
  co_await boost::asio::this_coro::reset_cancellation_state(boost::asio::disable_cancellation());
  co_return co_await hangs();
}

// Lets the blocked thread end, so that it is gone before the test program is.
std::promise<void> unblock;
std::promise<void> unblocked;

Awaitable<SessionPtr> blocks() {
  unblock.get_future().wait();
  unblocked.set_value();
  co_return nullptr;
}

ConformanceProfile stub_profile(StubSandbox::Create create) {
  ConformanceProfile profile;
  profile.name = "stub";
  profile.open = [create](const OpenContext&) { return std::make_shared<StubSandbox>(create); };
  profile.spec = [] { return SandboxSessionSpec(); };
  return profile;
}

const Check& check_called(std::string_view name) {
  for (const Check* check : all_checks()) {
    if (check->name == name) return *check;
  }
  throw std::logic_error("no such check");
}

TEST(ConformanceRun, HangIsCancelledAndFailedAfterPatience) {
  const auto results = run(stub_profile(hangs), "session.i", {}, 1s);
  ASSERT_EQ(results.size(), 2U);  // The run goes on to the next check.
  for (const CheckResult& result : results) {
    EXPECT_EQ(result.outcome, Outcome::failed);
    EXPECT_THAT(result.detail, HasSubstr("still running"));
    EXPECT_THAT(result.detail, Not(HasSubstr("did not end")));
    EXPECT_GE(result.took, 1s);
  }
}

TEST(ConformanceRun, WhatCannotBeCancelledIsDropped) {
  const CheckResult result = run_check(check_called("session.ids"), stub_profile(hangs_for_good), 50ms, 50ms);
  EXPECT_EQ(result.outcome, Outcome::failed);
  EXPECT_THAT(result.detail, HasSubstr("did not end when cancelled"));
  EXPECT_THAT(result.detail, Not(HasSubstr("left behind")));
}

TEST(ConformanceRun, WhatBlocksIsLeftBehind) {
  const CheckResult result = run_check(check_called("session.ids"), stub_profile(blocks), 50ms, 50ms);
  EXPECT_EQ(result.outcome, Outcome::failed);
  EXPECT_THAT(result.detail, HasSubstr("left behind"));
  unblock.set_value();
  unblocked.get_future().wait();
}

TEST(ConformanceRun, AnyExceptionIsAFailureOfTheCheck) {
  const auto results = run(stub_profile(throws_an_int), "session.ids");
  ASSERT_EQ(results.size(), 1U);
  EXPECT_EQ(results[0].name, "session.ids");
  EXPECT_EQ(results[0].rules, "S-28");
  EXPECT_EQ(results[0].outcome, Outcome::failed);
  EXPECT_THAT(results[0].detail, HasSubstr("no std::exception"));
}

TEST(ConformanceRun, AProviderThatDoesNotOpenFailsTheCheck) {
  ConformanceProfile profile = stub_profile(hangs);
  profile.open = [](const OpenContext& context) -> std::shared_ptr<Sandbox> {
    throw SandboxError(ErrorCode::root_unusable, "cannot use " + context.root);
  };
  const auto results = run(profile, "session.ids");
  ASSERT_EQ(results.size(), 1U);
  EXPECT_EQ(results[0].outcome, Outcome::failed);
  EXPECT_THAT(results[0].detail, HasSubstr("opening the provider: SandboxError root_unusable: cannot use /"));
}

TEST(ConformanceRun, WhatTheProfileLacksIsNotRunAndSaysWhy) {
  ConformanceProfile profile = stub_profile(hangs);
  profile.persistent = false;
  profile.own_root = true;
  for (const std::string_view name :
       {"reject.not_enforceable", "release.keeps_persistent_workspace", "ttl.wall_clock_step",
        "lifetime.caps_deadline", "timeout.over_maximum", "files.cap_of_put", "peer.shares_workspace",
        "ephemeral.removed_at_every_end"}) {
    const auto results = run(profile, name);
    ASSERT_EQ(results.size(), 1U);
    EXPECT_EQ(results[0].outcome, Outcome::not_run);
    EXPECT_THAT(results[0].detail, testing::AnyOf(HasSubstr("the profile"), HasSubstr("a root of its own")));
  }
}

TEST(ConformanceRun, OneGroupAlone) {
  ASSERT_THAT(groups(), testing::ElementsAre("core", "hardening"));
  const auto results = run(stub_profile(throws_an_int), "session.", {}, default_patience, "hardening");
  ASSERT_FALSE(results.empty());
  for (const CheckResult& result : results) EXPECT_EQ(result.group, "hardening") << result.name;
  EXPECT_EQ(run(stub_profile(throws_an_int), "session.ids", {}, default_patience, "core").size(), 1U);
  EXPECT_TRUE(run(stub_profile(throws_an_int), "session.ids", {}, default_patience, "hardening").empty());
  for (const CheckInfo& info : checks()) EXPECT_FALSE(info.group.empty()) << info.name;
}

TEST(ConformanceRun, ASecondProcessThatDoesNotAnswerFailsTheCheck) {
  const std::map<std::string, std::string> scripts{
      {"exit 0", "gave no answer"},
      {"echo nonsense; cat >/dev/null", "answered \"nonsense\""},
      {R"(echo '{"error":{"code":"not_opened","message":"no root"}}'; cat >/dev/null)", "no root"}};
  for (const auto& [script, said] : scripts) {
    ConformanceProfile profile = stub_profile(hangs);
    profile.peer = [words = std::vector<std::string>{"sh", "-c", script}](const std::string&) {
      return words;
    };
    const auto results = run(profile, "peer.shares_workspace");
    ASSERT_EQ(results.size(), 1U);
    EXPECT_EQ(results[0].outcome, Outcome::failed) << script;
    EXPECT_THAT(results[0].detail, HasSubstr(said)) << script;
  }
}

TEST(ConformanceRun, ReportsEachAndRemovesItsDirectories) {
  std::set<std::string> roots;
  ConformanceProfile profile = stub_profile(throws_an_int);
  profile.open = [&roots](const OpenContext& context) {
    EXPECT_TRUE(std::filesystem::is_empty(context.root));
    EXPECT_EQ(context.policy, permissive_policy());
    roots.insert(context.root);
    // What a careless provider leaves.
    std::filesystem::create_directories(context.root + "/a/b");
    std::filesystem::permissions(context.root + "/a", std::filesystem::perms::none);
    return std::make_shared<StubSandbox>(throws_an_int);
  };
  std::vector<std::string> reported;
  const auto results =
      run(profile, "session.", [&](const CheckResult& result) { reported.push_back(result.name); });
  ASSERT_GT(results.size(), 2U);
  EXPECT_EQ(reported.size(), results.size());
  EXPECT_EQ(reported.back(), results.back().name);
  EXPECT_EQ(roots.size(), results.size());
  for (const std::string& root : roots) EXPECT_FALSE(std::filesystem::exists(root)) << root;
}

TEST(ConformanceRun, AGivenClockRunsOnByItself) {
  std::atomic<std::int64_t> advanced = 0;
  ConformanceProfile profile = stub_profile(hangs);
  profile.advance = [&advanced](std::chrono::nanoseconds by) { advanced += by.count(); };
  const CheckResult result = run_check(check_called("session.ids"), profile, 200ms);
  EXPECT_EQ(result.outcome, Outcome::failed);
  EXPECT_GT(advanced, std::chrono::nanoseconds(50ms).count());
  EXPECT_LE(advanced, result.took.count());
}

TEST(FaultyProvider, UnknownFaultIsTyped) {
  try {
    faulty_provider(std::make_shared<StubSandbox>(hangs), "exec.no_such_check");
    FAIL() << "expected invalid_argument";
  } catch (const SandboxError& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(error.what(), HasSubstr("exec.no_such_check"));
  }
  EXPECT_EQ(faulty_provider(std::make_shared<StubSandbox>(hangs), "")->name(), "stub");
}

// The value of a task's result, run to the end on a loop of the test's.
template <class T>
T run_loop(boost::asio::io_context& loop, Awaitable<T> work) {
  std::optional<T> value;
  std::exception_ptr failure;
  boost::asio::co_spawn(loop, std::move(work), [&](std::exception_ptr error, T result) {
    failure = error;
    value.emplace(std::move(result));
  });
  loop.run();
  if (failure) std::rethrow_exception(failure);
  return std::move(*value);
}

Awaitable<int> seven() { co_return 7; }

Awaitable<int> wrong() {
  throw Failure("wrong");
  co_return 0;
}

Awaitable<std::string> use_tasks(boost::asio::any_io_executor executor) {
  Task<int> value(executor, seven());
  const int seven_got = co_await value.get();
  std::string told = show(seven_got);
  Task<int> error(executor, wrong());
  const Caught thrown = co_await caught(error.get());
  told += " " + describe(thrown.error);
  Task<SessionPtr> waiting(executor, hangs());
  const bool ended = co_await waiting.settled(1ms);
  told += ended ? " ended" : " waits";
  waiting.cancel();
  const Caught cancelled = co_await caught(waiting.get());
  told += was_cancelled(cancelled) ? " cancelled" : " " + describe(cancelled.error);
  co_return told;
}

TEST(ConformanceTask, GivesValuesErrorsAndCancels) {
  boost::asio::io_context loop;
  EXPECT_EQ(run_loop(loop, use_tasks(loop.get_executor())), "7 wrong waits cancelled");
}

TEST(ConformanceExpect, ShowsBytesQuotedAndShort) {
  EXPECT_EQ(show("a\n\"\xff"), R"("a\n\"\xff")");
  EXPECT_EQ(show(std::string(300, 'x')), "\"" + std::string(160, 'x') + "\" (300 bytes)");
  EXPECT_EQ(show(true), "true");
  EXPECT_EQ(show(std::vector<std::string>{"a", "b"}), R"(["a", "b"])");
}

}  // namespace
}  // namespace caisson::kit::conformance
