// Commands in a box that take all they can get (S-46, S-48, S-101, S-102): they get what they are allowed,
// and nobody else notices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <filesystem>
#include <optional>
#include <thread>

#include "tests/security/container_sandbox.h"
#include "tests/support/time_scale.h"

namespace caisson::test {
namespace {

using namespace std::chrono_literals;
using testing::ContainsRegex;
using testing::EndsWith;
using testing::HasSubstr;
namespace fs = std::filesystem;

class ContainerLimitsTest : public ContainerSandboxTest {
 protected:
  ContainerLimitsTest() { put_guests(session_); }
};

TEST_F(ContainerLimitsTest, S101_AForkBombStopsAtTheCap) {
  const std::string said = run({"./guest_exhaust", "processes"});
  EXPECT_THAT(said, EndsWith(" EAGAIN"));
  const int count = std::stoi(said);
  EXPECT_GT(count, 500);
  EXPECT_LE(count, 1024);
  EXPECT_EQ(run({"echo", "alive"}), "alive");
}

TEST_F(ContainerLimitsTest, S101_DescriptorsRunOutForTheirOwnerAlone) {
  EXPECT_THAT(run({"sh", "-c", "ulimit -n 500; ./guest_exhaust descriptors"}), HasSubstr("EMFILE"));
  EXPECT_EQ(run({"echo", "alive"}), "alive");
}

// They come out of numbers for the whole machine, or for a user.
TEST_F(ContainerLimitsTest, S101_TerminalsAndPendingSignalsRunOutForTheirOwnerAlone) {
  const std::string terminals = run({"./guest_exhaust", "terminals"});
  EXPECT_LE(std::stol(terminals), 256) << terminals;
  EXPECT_GT(std::stol(terminals), 100) << "the control: " << terminals;
  const std::string signals = run({"./guest_exhaust", "signals"});
  EXPECT_THAT(signals, EndsWith(" EAGAIN"));
  EXPECT_LE(std::stol(signals), 4096);
  EXPECT_GT(std::stol(signals), 100) << "the control";
  EXPECT_THAT(run({"grep", "pending", "/proc/self/limits"}), ContainsRegex(" 4096 +4096 "));
}

TEST_F(ContainerLimitsTest, S101_EverythingWritableIsBounded) {
  for (const char* directory : {"/workspace", "/tmp", "/dev/shm", "/run", "/root", "/var/tmp"}) {
    const std::string file = std::string(directory) + "/fill";
    const ExecResult result =
        session_.exec({"dd", "if=/dev/zero", "of=" + file, "bs=1M", "count=512"}, ExecOptions(60s));
    EXPECT_NE(result.exit_code, 0) << directory;
    EXPECT_THAT(result.err, HasSubstr("No space left")) << directory;
    run({"rm", file});
    EXPECT_EQ(run({"sh", "-c", "echo room > " + file + " && cat " + file}), "room") << "the control";
  }
  for (const char* path : {"/fill", "/usr/fill", "/etc/fill"}) {
    const ExecResult touched = session_.exec({"touch", path}, ExecOptions(60s));
    EXPECT_NE(touched.exit_code, 0) << path;
    EXPECT_THAT(touched.err, HasSubstr("Read-only file system")) << path;
  }
  // Files without bytes, too.
  const ExecResult many = session_.exec(
      {"sh", "-c", "mkdir /tmp/many && cd /tmp/many && seq 1 200000 | xargs touch"}, ExecOptions(120s));
  EXPECT_NE(many.exit_code, 0);
  EXPECT_THAT(many.err, HasSubstr("No space left"));
  run({"rm", "-r", "/tmp/many"});
  run({"sh", "-c", "mkdir /tmp/many && cd /tmp/many && seq 1 500 | xargs touch"});
}

TEST_F(ContainerLimitsTest, S46_ATimeoutIsKeptAgainstACommandThatStopsAllOthers) {
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THROW(session_.exec({"./guest_exhaust", "stopped"}, ExecOptions(700ms)), SandboxExecTimeoutError);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, scaled(std::chrono::milliseconds(2700)));
  EXPECT_EQ(run({"echo", "alive"}), "alive");
}

// Of two commands at once each hears of its own end, and of the other's nothing.
TEST_F(ContainerLimitsTest, S48_OutOfMemoryAndATimeoutAreToldApart) {
  SandboxSessionSpec spec = container_spec("capped");
  spec.memory_mb = 64;
  std::optional<blocking::Session> capped;
  try {
    capped.emplace(sandbox_.create_session(std::move(spec)));
  } catch (const SandboxSpecRejectedError& error) {
    GTEST_SKIP() << error.what();
  }
  std::atomic<bool> timed_out = false;
  auto other = capped->exec_start({"sleep", "1000"}, ExecOptions(600s));
  std::thread sleeper([&] {
    try {
      capped->exec({"sleep", "1000"}, ExecOptions(scaled(std::chrono::milliseconds(4000))));
    } catch (const SandboxExecTimeoutError&) {
      timed_out = true;
    }
  });
  const ExecResult eater =
      capped->exec({"python3", "-c", "x = bytearray(200 << 20)"}, ExecOptions(scaled(60s)));
  EXPECT_EQ(eater.ended.how, ExecEnd::out_of_memory) << eater.err;
  EXPECT_THAT(eater.ended.limits_hit, testing::ElementsAre(SandboxLimit::memory));
  EXPECT_FALSE(timed_out) << "the control: both ran at once";
  sleeper.join();
  EXPECT_TRUE(timed_out);
  other.signal(SIGKILL);
  ExecEnded killed;
  blocking::Output output = other.output();
  while (const auto item = output.next()) {
    if (const auto* exit = std::get_if<SandboxStreamExit>(&*item)) killed = exit->ended;
  }
  EXPECT_EQ(killed.how, ExecEnd::signaled);
  EXPECT_EQ(killed.signal, SIGKILL);
  EXPECT_THAT(killed.limits_hit, testing::IsEmpty());
}

TEST_F(ContainerLimitsTest, S70_ASymlinkThatTurnsLeadsNowhereOutside) {
  const std::string victim = directory_.path() + "/victim";
  fs::create_directory(victim);
  auto swapper = session_.exec_start({"sh", "-c",
                                      "mkdir -p real; while :; do ln -sfn real turning; ln -sfn " + victim +
                                          " turning; ln -sfn /proc/1/root turning; done"},
                                     ExecOptions(60s));
  int through = 0;
  for (int i = 0; i < 200; ++i) {
    try {
      session_.put_file("turning/file", "x");
      ++through;
    } catch (const SandboxError&) {
    }
    try {
      session_.get_file("turning/file");
    } catch (const SandboxError&) {
    }
  }
  swapper.kill();
  EXPECT_GT(through, 0) << "the control: some land inside";
  EXPECT_TRUE(fs::is_empty(victim));
  EXPECT_FALSE(fs::exists("/file"));
}

}  // namespace
}  // namespace caisson::test
