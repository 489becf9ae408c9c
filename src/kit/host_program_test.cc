// Tests of a Host in host programs with ways of their own.
#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "caisson/kit/host.h"
#include "kit/host_bed_test.h"
#include "tests/support/ways.h"

namespace caisson::kit {
namespace {

using caisson::test::guest;
using caisson::test::values_of;
using test::HostBed;
using test::plan_of;
using test::Ran;
using testing::ElementsAre;
using testing::HasSubstr;

// In a process of its own from the start: limits are raised once a process.
class InFreshProcess {
 public:
  InFreshProcess() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

class HostProgramDeathTest : public testing::TestWithParam<TreeKill>, InFreshProcess {};
class HostDeathTest : public testing::Test, InFreshProcess {};

INSTANTIATE_TEST_SUITE_P(BothWays, HostProgramDeathTest, testing::ValuesIn(caisson::test::ways_here()),
                         caisson::test::name_of_way);

class SigchldIsIgnored {
 public:
  SigchldIsIgnored() {
    struct sigaction ignore{};
    ignore.sa_handler = SIG_IGN;
    ::sigaction(SIGCHLD, &ignore, &before_);
  }
  ~SigchldIsIgnored() { ::sigaction(SIGCHLD, &before_, nullptr); }
  SigchldIsIgnored(const SigchldIsIgnored&) = delete;
  SigchldIsIgnored& operator=(const SigchldIsIgnored&) = delete;

 private:
  struct sigaction before_;
};

TEST_P(HostProgramDeathTest, S48_IgnoresSigchldIsToldSoAndLosesNoStatusThatCanBeKnown) {
  const SigchldIsIgnored ignored;
  HostBed bed(GetParam());
  EXPECT_THAT(bed.log, HasSubstr("SIGCHLD"));
  const Ran ran = bed.run(plan_of({"sh", "-c", "exit 3"}));
  if (ran.ended.how == ExecEnd::lost) {  // Before Linux 6.15, without a shim.
    EXPECT_EQ(GetParam(), TreeKill::cgroup);
    EXPECT_EQ(ran.ended.exit_code, 255);
    EXPECT_THAT(ran.ended.lost_cause, HasSubstr("SIGCHLD"));
  } else {
    EXPECT_EQ(ran.ended.exit_code, 3);
  }
}

// Each returns 0 when all is well, with nothing left behind.
int run_with_a_low_limit(TreeKill tree_kill) {
  struct rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = 256;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  HostBed bed(tree_kill);
  const Ran ran = bed.run(plan_of({guest("guest_state")}));
  ::getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur != limit.rlim_max) return 1;
  return values_of(ran.out, "descriptor_limit") == std::vector<std::string>{"256"} ? 0 : 2;
}

TEST_P(HostProgramDeathTest, S44_LimitIsRaisedForItAndTheOriginalForCommands) {
  EXPECT_EXIT(_exit(run_with_a_low_limit(GetParam())), testing::ExitedWithCode(0), "");
}

int run_without_standard_streams(TreeKill tree_kill) {
  for (int number = 0; number < 3; ++number) ::close(number);
  HostBed bed(tree_kill);
  ExecPlan plan = plan_of({"sh", "-c", "cat; echo err >&2"});
  plan.input = true;
  StartedExec started = bed.start(std::move(plan));
  boost::asio::write(started.in, boost::asio::buffer("hello", 5));
  started.in.close();
  if (HostBed::read_to_end(started.out) != "hello") return 1;
  if (HostBed::read_to_end(started.err) != "err\n") return 2;
  return HostBed::finish(started) ? 0 : 3;
}

TEST_P(HostProgramDeathTest, S44_HasNoStandardStreams) {
  EXPECT_EXIT(_exit(run_without_standard_streams(GetParam())), testing::ExitedWithCode(0), "");
}

// The user's own tree is out of reach: commands must still run, under a shim.
int run_as_nobody(bool insist_on_cgroup) {
  if (::setgroups(0, nullptr) != 0 || ::setgid(65534) != 0 || ::setuid(65534) != 0) return 2;
  if (insist_on_cgroup) {
    try {
      HostBed bed(TreeKill::cgroup);
    } catch (const SandboxError& error) {
      const bool says_why =
          std::string_view(error.what()).find("may change no cgroup") != std::string_view::npos;
      return error.code() == ErrorCode::unavailable && says_why ? 0 : 3;
    }
    return 4;
  }
  HostBed bed(TreeKill::automatic);
  if (bed.host->tree_kill() != TreeKill::shim) return 5;
  if (bed.log.find("shim") == std::string::npos) return 6;
  const Ran ran = bed.run(plan_of({"id", "-u"}));
  return ran.out == "65534\n" ? 0 : 7;
}

TEST_F(HostDeathTest, D4_AutomaticFallsBackToAShimAndSaysWhy) {
  if (::geteuid() != 0) return;  // An ordinary user who runs this may have a subtree of his own.
  EXPECT_EXIT(_exit(run_as_nobody(false)), testing::ExitedWithCode(0), "");
}

TEST_F(HostDeathTest, D4_CgroupInsistedOnIsUnavailableAndSaysWhy) {
  if (::geteuid() != 0 || caisson::test::writable_cgroup().empty()) GTEST_SKIP() << "needs root, and cgroups";
  EXPECT_EXIT(_exit(run_as_nobody(true)), testing::ExitedWithCode(0), "");
}

// A fork of the host program, which lets its copies of all objects go, ends nothing of the original.
TEST_P(HostProgramDeathTest, ForkTouchesNothing) {
  HostBed bed(GetParam());
  StartedExec started = bed.start(plan_of({guest("guest_tree"), "stay", "plain"}));
  const auto tree = caisson::test::watch_all(HostBed::read_until(started.out, "ready"));
  ASSERT_EQ(tree.size(), 1u);
  const pid_t fork = ::fork();
  if (fork == 0) {
    started.tree.reset();
    bed.box.reset();
    bed.host.reset();
    _exit(0);
  }
  int status = -1;
  ::waitpid(fork, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(started.tree->try_reap());
  EXPECT_FALSE(caisson::test::any_ended(tree));
  started.tree->kill();
  EXPECT_TRUE(caisson::test::all_ended(tree, std::chrono::seconds(10)));
  EXPECT_TRUE(HostBed::finish(started));
}

}  // namespace
}  // namespace caisson::kit
