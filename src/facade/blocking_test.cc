// The facade over the local provider: what a user's program sees.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <filesystem>
#include <mutex>

#include "caisson/caisson.h"
#include "tests/support/async.h"
#include "tests/support/temporary_directory.h"

namespace caisson {
namespace {

using namespace std::chrono_literals;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

// The one header to include has what open() sends its reader to.
static_assert(std::is_function_v<decltype(kit::run_reaper)>);

class LocalFacade : public testing::Test {
 protected:
  OpenOptions options() {
    OpenOptions options;
    options.policy = SandboxPolicy{SandboxNetwork::egress, SandboxIsolation::none, false, true};
    options.settings = [root = root_.path()](std::string_view name) -> std::optional<std::string> {
      if (name == "SANDBOX_LOCAL_ROOT") return root;
      return std::nullopt;
    };
    return options;
  }
  static SandboxSessionSpec spec(SandboxDurability durability = SandboxDurability::ephemeral) {
    SandboxSessionSpec spec;
    spec.image = "host";
    spec.workspace_key = "demo";
    spec.durability = durability;
    spec.network = SandboxNetwork::egress;
    spec.isolation = SandboxIsolation::none;
    spec.ttl_seconds = 300;
    return spec;
  }
  static ErrorCode code_of(const std::function<void()>& call) {
    try {
      call();
    } catch (const SandboxError& error) {
      return error.code();
    }
    ADD_FAILURE() << "nothing was thrown";
    return ErrorCode::internal;
  }

  test::TemporaryDirectory root_;
};

TEST_F(LocalFacade, RunsACommandInASessionOfItsOwn) {
  auto sandbox = blocking::open("local", options());
  EXPECT_EQ(sandbox.name(), "local");
  auto session = sandbox.create_session(spec());
  session.put_file("sum.sh", "echo $((2 + 2))\n");
  EXPECT_EQ(session.exec({"sh", "sum.sh"}, ExecOptions(5s)).out, "4\n");
  EXPECT_EQ(session.get_file("sum.sh"), "echo $((2 + 2))\n");
  EXPECT_EQ(session.info().workspace_key, "demo");
  EXPECT_EQ(sandbox.list_sessions().size(), 1U);
}

// S-32: released as a reap would: a persistent workspace is kept, an ephemeral one is gone.
TEST_F(LocalFacade, S32_OwnerReleases) {
  auto sandbox = blocking::open("local", options());
  std::string ephemeral;
  std::string persistent;
  {
    auto first = sandbox.create_session(spec());
    auto second = sandbox.create_session(spec(SandboxDurability::persistent));
    ephemeral = first.workspace_path();
    persistent = second.workspace_path();
    EXPECT_TRUE(std::filesystem::exists(ephemeral));
  }
  EXPECT_FALSE(std::filesystem::exists(ephemeral));
  EXPECT_TRUE(std::filesystem::exists(persistent));
  EXPECT_THAT(sandbox.list_sessions(), IsEmpty());
}

TEST_F(LocalFacade, DetachedSessionLivesUntilItsSandboxCloses) {
  auto sandbox = std::make_unique<blocking::Sandbox>(blocking::open("local", options()));
  std::string id;
  std::string workspace;
  {
    auto session = sandbox->create_session(spec());
    id = session.id();
    workspace = session.workspace_path();
    session.detach();
  }
  EXPECT_EQ(sandbox->get_session(id).exec({"pwd"}, ExecOptions(5s)).out, workspace + "\n");
  sandbox.reset();
  EXPECT_FALSE(std::filesystem::exists(workspace));
}

TEST_F(LocalFacade, ObjectsOutliveTheSandboxButDoNothing) {
  auto sandbox = std::make_unique<blocking::Sandbox>(blocking::open("local", options()));
  auto session = sandbox->create_session(spec());
  auto exec = session.exec_start({"cat"}, ExecOptions(60s));
  sandbox.reset();
  EXPECT_EQ(code_of([&] { session.exec({"true"}, ExecOptions(5s)); }), ErrorCode::session_destroyed);
  EXPECT_EQ(code_of([&] { exec.output().next(); }), ErrorCode::session_destroyed);
  session.release();
}

TEST_F(LocalFacade, CallUnderWayInAnotherThreadEndsWithTheSandbox) {
  auto sandbox = std::make_unique<blocking::Sandbox>(blocking::open("local", options()));
  auto session = sandbox->create_session(spec());
  ErrorCode code = ErrorCode::internal;
  std::thread runner([&] {
    code = code_of([&] { session.exec({"sh", "-c", "touch started; sleep 60"}, ExecOptions(60s)); });
  });
  while (!std::filesystem::exists(session.workspace_path() + "/started")) std::this_thread::yield();
  sandbox.reset();
  runner.join();
  EXPECT_EQ(code, ErrorCode::session_destroyed);
}

TEST_F(LocalFacade, InteractiveExecTalks) {
  auto sandbox = blocking::open("local", options());
  auto session = sandbox.create_session(spec());
  auto exec = session.exec_start({"cat"}, ExecOptions(60s));
  auto output = exec.output();
  exec.write_stdin("hello\n");
  EXPECT_EQ(std::get<SandboxStreamChunk>(*output.next()).data, "hello\n");
  exec.close_stdin();
  EXPECT_EQ(std::get<SandboxStreamExit>(*output.next()).exit_code, 0);
  EXPECT_FALSE(output.next().has_value());
}

// A child that ends its copies, and its own way out, leave the parent's session and command as they are.
TEST_F(LocalFacade, ForkedChildLeavesTheParentsSessionAlone) {
  auto sandbox = blocking::open("local", options());
  auto session = sandbox.create_session(spec());
  auto exec = std::make_unique<blocking::ExecHandle>(session.exec_start({"cat"}, ExecOptions(60s)));
  const pid_t child = ::fork();
  if (child == 0) {
    int refused = 0;
    try {
      session.exec({"true"}, ExecOptions(5s));
    } catch (const SandboxError& error) {
      refused += error.code() == ErrorCode::unavailable;
    }
    exec.reset();
    {
      auto ended_session = std::move(session);
      auto ended_sandbox = std::move(sandbox);
    }
    ::_exit(refused == 1 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  exec->write_stdin("alive\n");
  EXPECT_EQ(std::get<SandboxStreamChunk>(*exec->output().next()).data, "alive\n");
  EXPECT_EQ(session.exec({"echo", "x"}, ExecOptions(5s)).out, "x\n");
}

TEST_F(LocalFacade, ForkedChildThatDropsAnAsyncSandboxEndsNothing) {
  boost::asio::io_context context;
  auto sandbox = open(context.get_executor(), "local", options());
  auto session = test::run(context, sandbox->create_session(spec()));
  const pid_t child = ::fork();
  if (child == 0) {
    sandbox.reset();
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ExecOptions exec_options(5s);
  EXPECT_EQ(test::run(context, session->exec({"echo", "x"}, std::move(exec_options))).out, "x\n");
  session.reset();
  sandbox.reset();
}

TEST_F(LocalFacade, UnknownProviderIsUnavailableAndTheKnownAreNamed) {
  for (const char* name : {"containers", "", "Local"}) {
    try {
      blocking::open(name, options());
      FAIL();
    } catch (const SandboxUnavailableError& error) {
      EXPECT_THAT(error.what(), HasSubstr("local"));
    }
  }
}

// S-81: without a policy given it is the operator's, whose bad value is an error when opening.
TEST_F(LocalFacade, S81_PolicyComesFromTheSettingsUnlessGiven) {
  auto with = [&](std::string value) {
    OpenOptions changed = options();
    changed.policy.reset();
    changed.settings = [value, root = root_.path()](std::string_view name) -> std::optional<std::string> {
      if (name == "SANDBOX_LOCAL_ROOT") return root;
      if (name == "TAI_MCP_SANDBOX_ISOLATION" && !value.empty()) return value;
      return std::nullopt;
    };
    return changed;
  };
  EXPECT_EQ(code_of([&] { blocking::open("local", with("")).create_session(spec()); }),
            ErrorCode::policy_refused);
  EXPECT_NO_THROW(blocking::open("local", with("none")).create_session(spec()));
  EXPECT_EQ(code_of([&] { blocking::open("local", with("weak")); }), ErrorCode::bad_setting);
}

// D-10: what lowers a tier is logged when it takes effect.
TEST_F(LocalFacade, D10_WeakPolicyIsLogged) {
  std::mutex mutex;
  std::vector<std::string> logged;
  const auto log = [&](kit::LogLevel, const std::string& message) {
    const std::lock_guard lock(mutex);
    logged.push_back(message);
  };
  OpenOptions weak = options();
  weak.log = log;
  blocking::open("local", std::move(weak));
  EXPECT_THAT(logged, Contains(HasSubstr("isolation floor is none")));
  logged.clear();
  OpenOptions strict = options();
  strict.policy = SandboxPolicy{SandboxNetwork::egress, SandboxIsolation::container, false, true};
  strict.log = log;
  blocking::open("local", std::move(strict));
  EXPECT_THAT(logged, testing::Not(Contains(HasSubstr("isolation floor"))));
}

// S-31, S-82: the sandbox's own thread reaps at the provider's interval, on the clock given.
TEST_F(LocalFacade, S82_ExpiredSessionsAreReaped) {
  auto clock = std::make_shared<kit::ManualClock>();
  OpenOptions with_clock = options();
  with_clock.clock = clock;
  auto sandbox = blocking::open("local", std::move(with_clock));
  auto session = sandbox.create_session(spec());
  session.detach();
  const std::string workspace = session.workspace_path();
  clock->advance(299s);
  EXPECT_EQ(sandbox.list_sessions().size(), 1U);
  // The reaper's interval is 300 s, the session's ttl too.
  clock->advance(2s);
  while (!sandbox.list_sessions().empty()) std::this_thread::yield();
  EXPECT_FALSE(std::filesystem::exists(workspace));
}

}  // namespace
}  // namespace caisson
