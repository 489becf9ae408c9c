// Tests of spawn's namespaces, ids, capabilities and limits: what the program has, beside what it has
// without.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "os/cgroup.h"
#include "os/seccomp_policy.h"
#include "os/shim.h"
#include "os/spawn.h"
#include "tests/support/cgroups.h"
#include "tests/support/forked.h"
#include "tests/support/guests.h"

namespace caisson::os {
namespace {

namespace fs = std::filesystem;
using test::Command;
using test::guest;
using test::values_of;
using testing::ElementsAre;
using testing::Not;

// The standard output of the plan's program, or what its start failed with.
std::string output_of(SpawnPlan plan) {
  auto pipe = make_pipe();
  plan.descriptors[1] = pipe->write;
  auto process = spawn(plan);
  pipe->write.reset();
  if (!process) {
    return "failure at step " + std::to_string(int{static_cast<std::uint8_t>(process.error().step)}) + ": " +
           error_of(process.error().number).message();
  }
  std::string output = read_all(pipe->read, 1 << 20).value();
  process->reap();
  return output;
}

std::string failure_at(SpawnStep step, int number) {
  return "failure at step " + std::to_string(int{static_cast<std::uint8_t>(step)}) + ": " +
         error_of(number).message();
}

std::string hexadecimal(CapabilityMask mask) {
  char text[32];
  std::snprintf(text, sizeof text, "%llx", static_cast<unsigned long long>(mask));
  return text;
}

class SpawnPrivileges : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root changes ids and makes every kind of namespace";
  }
  std::vector<std::string> state(const SpawnPlan& plan, const char* key) {
    const std::string output = output_of(plan);
    auto values = values_of(output, key);
    return values.empty() ? std::vector<std::string>{output} : values;
  }
  Command command_{{guest("guest_state")}};
  SpawnPlan plan_ = command_.plan();
};

TEST_F(SpawnPrivileges, S101_ProgramIsInNewNamespaces) {
  EXPECT_THAT(state(plan_, "process"), Not(ElementsAre("1")));
  plan_.namespaces = CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS |
                     CLONE_NEWCGROUP | CLONE_NEWNET;
  EXPECT_THAT(state(plan_, "process"), ElementsAre("1"));
  EXPECT_THAT(state(plan_, "users"), ElementsAre("65534 65534 65534"));
  // Each kind, told by the links of a child that a pipe holds: a new PID namespace has no /proc of its own
  // yet.
  for (const char* name : {"user", "pid", "mnt", "ipc", "uts", "cgroup", "net"}) {
    Command waiting({"/bin/cat"});
    SpawnPlan plan = waiting.plan();
    auto pipe = make_pipe();
    plan.descriptors[0] = pipe->read;
    plan.namespaces = plan_.namespaces;
    auto process = spawn(plan);
    ASSERT_TRUE(process);
    const std::string link = std::string("/ns/") + name;
    EXPECT_NE(fs::read_symlink("/proc/" + std::to_string(process->pid()) + link),
              fs::read_symlink("/proc/self" + link));
    pipe->write.reset();
    process->reap();
  }
}

// D-5: where no ids are mapped yet, an execve keeps ambient capabilities only.
TEST_F(SpawnPrivileges, D5_RaisedCapabilitiesSurviveTheExecveBeforeTheIdMap) {
  plan_.namespaces = CLONE_NEWUSER;
  EXPECT_THAT(state(plan_, "effective"), ElementsAre("0"));
  plan_.raise_capabilities = true;
  const CapabilityMask all = (CapabilityMask{2} << CAP_LAST_CAP) - 1;
  EXPECT_EQ(std::stoull(state(plan_, "effective").front(), nullptr, 16) & all, all);
  EXPECT_EQ(state(plan_, "ambient"), state(plan_, "effective"));
}

TEST_F(SpawnPrivileges, D5_OrdinaryUserRaisesThoseOfItsOwnNamespace) {
  const std::string effective = test::in_child([&] {
    if (::setresgid(54321, 54321, 54321) != 0 || ::setresuid(54321, 54321, 54321) != 0)
      return std::string("ids");
    // The guest may lie where this user cannot go.
    Command command({"/bin/grep", "CapEff", "/proc/self/status"});
    SpawnPlan plan = command.plan();
    if (output_of(plan) != "CapEff:\t0000000000000000\n") return std::string("some before");
    plan.namespaces = CLONE_NEWUSER;
    plan.raise_capabilities = true;
    return output_of(plan);
  });
  EXPECT_THAT(effective, testing::HasSubstr("CapEff:\t000001ffffffffff"));
}

TEST_F(SpawnPrivileges, IdsAreThePlansAndTheCapabilitiesGo) {
  EXPECT_THAT(state(plan_, "users"), ElementsAre("0 0 0"));
  EXPECT_THAT(state(plan_, "effective"), ElementsAre(hexadecimal(own_capabilities()->permitted)));
  const gid_t groups[] = {7, 8};
  plan_.ids = SpawnIds{54321, 54322, groups};
  const std::string output = output_of(plan_);
  EXPECT_THAT(values_of(output, "users"), ElementsAre("54321 54321 54321"));
  EXPECT_THAT(values_of(output, "groups"), ElementsAre("54322 54322 54322"));
  EXPECT_THAT(values_of(output, "supplementary"), ElementsAre("7", "8"));
  EXPECT_THAT(values_of(output, "effective"), ElementsAre("0"));
  plan_.ids->groups = std::span<const gid_t>();
  EXPECT_THAT(values_of(output_of(plan_), "supplementary"), ElementsAre());
  // Our own are as they were, and so is what debuggers and /proc may see of us.
  EXPECT_EQ(::getuid(), 0U);
  EXPECT_EQ(::getgid(), 0U);
  EXPECT_EQ(::prctl(PR_GET_DUMPABLE), 1);
}

TEST_F(SpawnPrivileges, D5_JoinsACgroupByItsFileWithTheRightsOfWhoOpenedIt) {
  const std::string mount = test::writable_cgroup();
  if (mount.empty()) GTEST_SKIP() << "no cgroups";
  const std::string name = new_cgroup_name();
  ASSERT_EQ(::mkdir((mount + "/" + name).c_str(), 0755), 0);
  const Fd procs = Fd::adopt(::open((mount + "/" + name + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC));
  Command command({"/bin/cat", "/proc/self/cgroup"});
  SpawnPlan plan = command.plan();
  EXPECT_THAT(output_of(plan), Not(testing::HasSubstr(name)));
  const FdRef joined[] = {procs};
  plan.joined = joined;
  plan.ids = SpawnIds{54321, 54322, std::nullopt};
  plan.namespaces = CLONE_NEWUTS;
  EXPECT_THAT(output_of(plan), testing::HasSubstr("0::/" + name + "\n"));
  const Fd no_cgroup = open_empty_input().value();
  const FdRef refused[] = {procs, no_cgroup};
  plan.joined = refused;
  EXPECT_EQ(output_of(plan), failure_at(SpawnStep::cgroup, EBADF));
  EXPECT_EQ(::rmdir((mount + "/" + name).c_str()), 0);
}

TEST_F(SpawnPrivileges, GroupsStayWhereNoneAreGiven) {
  const gid_t ours[] = {9};
  const std::string output = test::in_child([&] {
    if (::setgroups(1, ours) != 0) return std::string("setgroups");
    plan_.ids = SpawnIds{54321, 54322, std::nullopt};
    return output_of(plan_);
  });
  EXPECT_THAT(values_of(output, "supplementary"), ElementsAre("9"));
}

TEST_F(SpawnPrivileges, IdsThatMayNotBeTakenAreAFailure) {
  const std::string said = test::in_child([&] {
    if (::setresuid(54321, 54321, 54321) != 0) return std::string("ids");
    Command command({"/bin/true"});
    SpawnPlan plan = command.plan();
    plan.ids = SpawnIds{0, 0, std::nullopt};
    return output_of(plan);
  });
  EXPECT_EQ(said, failure_at(SpawnStep::credentials, EPERM));
}

TEST_F(SpawnPrivileges, CapabilityMaskBindsRootToo) {
  const CapabilityMask mask = capability(CAP_CHOWN) | capability(CAP_KILL);
  plan_.capability_mask = mask;
  const std::string output = output_of(plan_);
  for (const char* set : {"effective", "bounding", "inheritable"}) {
    EXPECT_LE(std::stoull(values_of(output, set).front(), nullptr, 16) & ~mask, 0U) << set;
  }
  EXPECT_THAT(values_of(output, "effective"), ElementsAre(hexadecimal(mask)));
  plan_.capability_mask = 0;
  EXPECT_THAT(state(plan_, "bounding"), ElementsAre("0"));
  EXPECT_THAT(state(plan_, "effective"), ElementsAre("0"));
  // With an id that is not root's, the bounding set is as tight.
  plan_.capability_mask = mask;
  plan_.ids = SpawnIds{54321, 54322, std::span<const gid_t>()};
  const std::string user = output_of(plan_);
  EXPECT_THAT(values_of(user, "bounding"), ElementsAre(hexadecimal(mask)));
  EXPECT_THAT(values_of(user, "effective"), ElementsAre("0"));
  EXPECT_THAT(values_of(user, "users"), ElementsAre("54321 54321 54321"));
}

TEST_F(SpawnPrivileges, AmbientCapabilitiesOutsideTheMaskGo) {
  plan_.raise_capabilities = true;
  plan_.capability_mask = capability(CAP_KILL);
  EXPECT_THAT(state(plan_, "ambient"), ElementsAre(hexadecimal(capability(CAP_KILL))));
}

TEST_F(SpawnPrivileges, S101_NoNewPrivilegesIsSet) {
  EXPECT_THAT(state(plan_, "no_new_privileges"), ElementsAre("0"));
  plan_.no_new_privileges = true;
  EXPECT_THAT(state(plan_, "no_new_privileges"), ElementsAre("1"));
}

TEST_F(SpawnPrivileges, ParentDeathSignalSurvivesTheChangeOfIds) {
  plan_.parent_death_signal = SIGKILL;
  plan_.ids = SpawnIds{54321, 54322, std::span<const gid_t>()};
  EXPECT_THAT(state(plan_, "parent_death_signal"), ElementsAre(std::to_string(SIGKILL)));
}

TEST_F(SpawnPrivileges, LimitsAreThePlansWhoeverTheUserIs) {
  const ResourceLimit limits[] = {{RLIMIT_CORE, 1, 1}, {RLIMIT_STACK, 1 << 20, 2 << 20}};
  plan_.limits = limits;
  plan_.ids = SpawnIds{54321, 54322, std::span<const gid_t>()};
  plan_.capability_mask = 0;
  EXPECT_THAT(state(plan_, "limit"), ElementsAre(std::to_string(RLIMIT_CORE) + " 1 1",
                                                 std::to_string(RLIMIT_STACK) + " 1048576 2097152"));
  const ResourceLimit wrong[] = {{RLIMIT_CORE, 2, 1}};
  plan_.limits = wrong;
  EXPECT_EQ(output_of(plan_), failure_at(SpawnStep::limits, EINVAL));
}

TEST_F(SpawnPrivileges, S101_FilterBindsTheProgramAndNotItsParent) {
  const std::string policy = compile_seccomp_policy();
  EXPECT_THAT(state(plan_, "seccomp"), ElementsAre("0"));
  plan_.seccomp = policy;
  plan_.no_new_privileges = true;
  plan_.ids = SpawnIds{54321, 54322, std::span<const gid_t>()};
  EXPECT_THAT(state(plan_, "seccomp"), ElementsAre("2"));
  EXPECT_EQ(::prctl(PR_GET_SECCOMP), 0);
  // With neither privilege nor the renunciation of more, the kernel takes none.
  plan_.no_new_privileges = false;
  EXPECT_EQ(output_of(plan_), failure_at(SpawnStep::credentials, EACCES));
  plan_.seccomp = "seven..";
  EXPECT_EQ(output_of(plan_), failure_at(SpawnStep::credentials, EINVAL));
}

// What a shim would not do is no plan for it.
TEST_F(SpawnPrivileges, ShimRefusesWhatItWouldNotDo) {
  const auto refused = [](const SpawnPlan& plan) {
    auto tree = spawn_under_shim(plan);
    return !tree && tree.error().step == SpawnStep::shim && tree.error().number == EINVAL;
  };
  const ResourceLimit limits[] = {{RLIMIT_CORE, 1, 1}};
  SpawnPlan plan = plan_;
  plan.limits = limits;
  EXPECT_TRUE(refused(plan));
  plan = plan_;
  plan.namespaces = CLONE_NEWUTS;
  EXPECT_TRUE(refused(plan));
  plan = plan_;
  plan.ids = SpawnIds{1, 1, std::nullopt};
  EXPECT_TRUE(refused(plan));
  plan = plan_;
  plan.capability_mask = 0;
  EXPECT_TRUE(refused(plan));
  plan = plan_;
  plan.no_new_privileges = true;
  EXPECT_TRUE(refused(plan));
  plan = plan_;
  plan.raise_capabilities = true;
  EXPECT_TRUE(refused(plan));
  plan = plan_;
  plan.seccomp = "12345678";
  EXPECT_TRUE(refused(plan));
}

}  // namespace
}  // namespace caisson::os
