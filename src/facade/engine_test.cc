// The blocking facade over a fake sandbox: ownership, threads, forks and errors.
#include "facade/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <filesystem>
#include <fstream>
#include <future>

#include "facade/fake_sandbox.h"
#include "tests/support/temporary_directory.h"

namespace caisson::blocking {
namespace {

using namespace std::chrono_literals;
using facade::FakeSandbox;
using facade::FakeState;
using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;

SandboxSessionSpec spec(const std::string& key) {
  SandboxSessionSpec value;
  value.workspace_key = key;
  return value;
}

Sandbox open_fake(std::shared_ptr<FakeState> state, kit::Log log = {}) {
  return Engine::open(
      [state](boost::asio::any_io_executor) {
        Engine::Opened opened;
        opened.sandbox = std::make_shared<FakeSandbox>(state);
        return opened;
      },
      std::move(log));
}

class BlockingFacade : public testing::Test {
 protected:
  std::shared_ptr<FakeState> state_ = std::make_shared<FakeState>();
};

TEST_F(BlockingFacade, CallRunsOnTheLoopsThreadAndReturnsItsValue) {
  auto sandbox = open_fake(state_);
  auto session = sandbox.create_session(spec("a"));
  EXPECT_EQ(session.exec({"hello"}, ExecOptions(1s)).out, "hello");
  EXPECT_NE(state_->loop, std::this_thread::get_id());
  EXPECT_EQ(sandbox.name(), "fake");
  EXPECT_THAT(sandbox.reap(), ElementsAre("reaped"));
}

// A host program's handlers run on its own threads.
TEST_F(BlockingFacade, LoopsThreadTakesNoSignals) {
  std::promise<sigset_t> blocked;
  const auto sandbox = Engine::open(
      [&](boost::asio::any_io_executor executor) {
        boost::asio::post(executor, [&blocked] {
          sigset_t set;
          ::pthread_sigmask(SIG_BLOCK, nullptr, &set);
          blocked.set_value(set);
        });
        Engine::Opened opened;
        opened.sandbox = std::make_shared<FakeSandbox>(state_);
        return opened;
      },
      {});
  const sigset_t set = blocked.get_future().get();
  for (const int number : {SIGTERM, SIGINT, SIGUSR1, SIGCHLD}) EXPECT_TRUE(::sigismember(&set, number));
  EXPECT_FALSE(::sigismember(&set, SIGSEGV));
  sigset_t own;
  ::pthread_sigmask(SIG_BLOCK, nullptr, &own);
  EXPECT_FALSE(::sigismember(&own, SIGTERM)) << "the caller's own mask is as it was";
}

TEST_F(BlockingFacade, ErrorsPassThroughWithTheirType) {
  auto sandbox = open_fake(state_);
  auto session = sandbox.create_session(spec("a"));
  try {
    session.exec({"fail"}, ExecOptions(1s));
    FAIL();
  } catch (const SandboxError& error) {
    EXPECT_EQ(error.code(), ErrorCode::command_not_found);
  }
}

TEST_F(BlockingFacade, OpenFailurePassesThroughAndLeavesNoThread) {
  EXPECT_THROW(Engine::open([](auto) -> Engine::Opened { throw SandboxUnavailableError("none"); }, {}),
               SandboxUnavailableError);
}

// S-32: the owner releases, an onlooker does not.
TEST_F(BlockingFacade, S32_OwnerReleasesItsSession) {
  auto sandbox = open_fake(state_);
  {
    auto owned = sandbox.create_session(spec("owned"));
    auto looked_at = sandbox.get_session("looked_at");
    auto detached = sandbox.create_session(spec("detached"));
    detached.detach();
    EXPECT_THAT(state_->noted(), IsEmpty());
  }
  EXPECT_THAT(state_->noted(), ElementsAre("release owned"));
}

TEST_F(BlockingFacade, MovedFromObjectsAreInert) {
  auto sandbox = open_fake(state_);
  auto first = sandbox.create_session(spec("a"));
  auto second = std::move(first);
  EXPECT_EQ(first.id(), "");  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(second.id(), "a");
  EXPECT_THROW(first.touch(), std::logic_error);
  first.detach();
  auto moved = std::move(sandbox);
  EXPECT_EQ(sandbox.name(), "");  // NOLINT(bugprone-use-after-move)
  EXPECT_THROW(sandbox.reap(), std::logic_error);
  EXPECT_THAT(state_->noted(), IsEmpty());
}

TEST_F(BlockingFacade, MoveAssignmentReleasesWhatWasHeld) {
  auto sandbox = open_fake(state_);
  auto session = sandbox.create_session(spec("a"));
  session = sandbox.create_session(spec("b"));
  EXPECT_THAT(state_->noted(), ElementsAre("release a"));
  auto& same = session;
  session = std::move(same);
  EXPECT_EQ(session.id(), "b");
}

TEST_F(BlockingFacade, SandboxEndsBeforeItsSessionsObjects) {
  auto sandbox = std::make_unique<Sandbox>(open_fake(state_));
  auto session = sandbox->create_session(spec("a"));
  sandbox.reset();
  EXPECT_THAT(state_->noted(), ElementsAre("sandbox ended"));
  session.touch();
  EXPECT_THAT(state_->noted(), Contains("touch"));
}

TEST_F(BlockingFacade, HandleIsDroppedOnTheLoop) {
  auto sandbox = open_fake(state_);
  auto session = sandbox.create_session(spec("a"));
  {
    auto exec = session.exec_start({"x"}, ExecOptions(1s));
    exec.write_stdin("in");
    exec.close_stdin();
    exec.signal(15);
    exec.resize({100, 30});
  }
  EXPECT_THAT(state_->noted(),
              ElementsAre("write in", "close_stdin", "signal 15", "resize 100", "handle dropped"));
}

// S-65: a read that waits in another thread does not keep the exec alive.
TEST_F(BlockingFacade, S65_DroppingAHandleEndsAReadInAnotherThread) {
  auto sandbox = open_fake(state_);
  auto session = sandbox.create_session(spec("a"));
  auto exec = std::make_unique<ExecHandle>(session.exec_start({"x"}, ExecOptions(1s)));
  auto output = exec->output();
  std::optional<SandboxStreamItem> item;
  std::thread reader([&] { item = output.next(); });
  while (state_->reading == 0) std::this_thread::yield();
  exec.reset();
  reader.join();
  ASSERT_TRUE(item.has_value());
  EXPECT_EQ(std::get<SandboxStreamExit>(*item).exit_code, 137);
  EXPECT_THAT(state_->noted(), ElementsAre("kill", "handle dropped"));
  EXPECT_THROW(output.next(), std::logic_error);
}

TEST_F(BlockingFacade, CallOnItsOwnLoopIsAProgrammingErrorOnAnotherLoopItIsNot) {
  boost::asio::any_io_executor loop;
  auto other = open_fake(state_);
  auto sandbox = std::make_shared<Sandbox>(Engine::open(
      [&](boost::asio::any_io_executor executor) {
        loop = executor;
        Engine::Opened value;
        value.sandbox = std::make_shared<FakeSandbox>(state_);
        return value;
      },
      {}));
  std::promise<bool> refused;
  boost::asio::post(loop, [&] {
    try {
      other.reap();
      sandbox->reap();
      refused.set_value(false);
    } catch (const std::logic_error&) {
      refused.set_value(true);
    }
  });
  EXPECT_TRUE(refused.get_future().get());
}

TEST_F(BlockingFacade, CallsRunAtTheSameTimeOnManyThreads) {
  auto sandbox = open_fake(state_);
  auto session = sandbox.create_session(spec("a"));
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&, word = std::to_string(thread)] {
      for (int round = 0; round < 200; ++round) {
        if (session.exec({word}, ExecOptions(1s)).out == word) ++right;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(right, 1600);
}

TEST_F(BlockingFacade, ChildOfAForkIsRefusedAndEndsNothing) {
  auto sandbox = open_fake(state_);
  auto session = sandbox.create_session(spec("a"));
  auto exec = session.exec_start({"x"}, ExecOptions(1s));
  const pid_t child = ::fork();
  if (child == 0) {
    int refused = 0;
    const auto count = [&refused](auto call) {
      try {
        call();
      } catch (const SandboxError& error) {
        if (error.code() == ErrorCode::unavailable) ++refused;
      }
    };
    count([&] { sandbox.reap(); });
    count([&] { session.touch(); });
    count([&] { exec.kill(); });
    count([&] { session.put_file_from("/etc/hostname", "x"); });
    {
      auto ended_handle = std::move(exec);
      auto ended_session = std::move(session);
      auto ended_sandbox = std::move(sandbox);
    }
    ::_exit(refused == 4 && state_->noted().empty() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  session.touch();
  EXPECT_THAT(state_->noted(), ElementsAre("touch"));
}

// S-82, S-31: the reaper runs at the provider's interval, on the injected clock, sleeping first.
TEST_F(BlockingFacade, S82_ReaperSweepsAtTheInterval) {
  auto clock = std::make_shared<kit::ManualClock>();
  auto swept = std::make_shared<std::promise<std::string>>();
  auto sandbox = Engine::open(
      [&](boost::asio::any_io_executor) {
        Engine::Opened value;
        value.sandbox = std::make_shared<FakeSandbox>(state_);
        value.clock = clock;
        value.reap_interval = 60s;
        return value;
      },
      [swept](kit::LogLevel, const std::string& message) { swept->set_value(message); });
  (void)sandbox.list_sessions();
  clock->advance(59s);
  (void)sandbox.list_sessions();
  EXPECT_THAT(state_->noted(), Not(Contains("reap")));
  clock->advance(1s);
  EXPECT_EQ(swept->get_future().get(), "reaped session reaped");
}

class FacadeTransfer : public BlockingFacade {
 protected:
  const test::TemporaryDirectory temporary_;
  const std::filesystem::path directory_ = temporary_.path();
};

// S-72: no size cap, in pieces.
TEST_F(FacadeTransfer, S72_StreamsBothWaysInPieces) {
  std::string bytes;
  for (int i = 0; bytes.size() < (5U << 19); ++i) bytes += std::to_string(i);
  std::ofstream(directory_ / "in", std::ios::binary) << bytes;
  auto sandbox = open_fake(state_);
  auto session = sandbox.create_session(spec("a"));
  session.put_file_from((directory_ / "in").string(), "f");
  const auto calls = state_->noted();
  EXPECT_THAT(calls, ElementsAre("piece of 1048576", "piece of 1048576", testing::_));
  session.get_file_to("f", (directory_ / "out").string());
  std::ifstream out(directory_ / "out", std::ios::binary);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(out), {}), bytes);
}

TEST_F(FacadeTransfer, HostSideFailuresAreTyped) {
  auto sandbox = open_fake(state_);
  auto session = sandbox.create_session(spec("a"));
  session.put_file("there", "x");
  const auto code_of = [](auto call) {
    try {
      call();
    } catch (const SandboxError& error) {
      return std::string(to_string(error.code()));
    }
    return std::string("none");
  };
  EXPECT_EQ(code_of([&] { session.put_file_from((directory_ / "none").string(), "x"); }), "file_missing");
  EXPECT_EQ(code_of([&] { session.put_file_from(directory_.string(), "x"); }), "not_a_regular_file");
  EXPECT_EQ(code_of([&] { session.put_file_from("", "x"); }), "invalid_argument");
  EXPECT_EQ(code_of([&] { session.get_file_to("there", directory_.string()); }), "not_a_regular_file");
  EXPECT_EQ(code_of([&] { session.get_file_to("there", (directory_ / "no/dir").string()); }), "file_missing");
  EXPECT_EQ(code_of([&] { session.get_file_to("there", "/dev/full"); }), "internal");
  EXPECT_EQ(code_of([&] { session.get_file_to("missing", (directory_ / "x").string()); }), "file_missing");
  EXPECT_FALSE(std::filesystem::exists(directory_ / "x")) << "a miss makes no file";
  EXPECT_EQ(code_of([&] { session.get_file_to("there", (directory_ / "x").string()); }), "none");
}

}  // namespace
}  // namespace caisson::blocking
