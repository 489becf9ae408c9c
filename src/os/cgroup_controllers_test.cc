// Tests of caps and counters: on the v1 hierarchies of this machine, and on files as v2 has them.
#include "os/cgroup_controllers.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "tests/support/guests.h"
#include "tests/support/temporary_directory.h"

namespace caisson::os {
namespace {

namespace fs = std::filesystem;
using enum CgroupController;
using testing::ElementsAre;
using testing::HasSubstr;

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// --- where they are

constexpr char hybrid_mounts[] =
    "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
    "34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
    "35 31 0:32 /docker/x /sys/fs/cgroup/mem\\040ory rw - cgroup cgroup rw,memory\n"
    "99 31 0:32 / /elsewhere rw - cgroup cgroup rw,memory\n"
    "40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n"
    "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

TEST(CgroupV1Hierarchies, D4_AreFoundByTheirControllers) {
  const auto found = cgroup_v1_hierarchies(
      hybrid_mounts, "9:name=systemd:/pids\n4:memory:/docker/x/job\n2:cpu,cpuacct:/other\n0::/\n");
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0],
            (CgroupV1Hierarchy{{"/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpu,cpuacct/other"}, {cpu}}));
  EXPECT_EQ(found[1],
            (CgroupV1Hierarchy{{"/sys/fs/cgroup/mem ory", "/sys/fs/cgroup/mem ory/job"}, {memory}}));
  EXPECT_EQ(cgroup_v1_place(found[0]), "/sys/fs/cgroup/cpu,cpuacct/caisson");
}

TEST(CgroupV1Hierarchies, SeveralControllersMayShareOne) {
  const auto found = cgroup_v1_hierarchies("32 31 0:29 / /c rw - cgroup none rw,pids,memory\n",
                                           "5:memory,pids:/a/caisson/b\n");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_THAT(found[0].controllers, ElementsAre(memory, pids));
  EXPECT_TRUE(found[0].has(pids));
  EXPECT_FALSE(found[0].has(cpu));
  EXPECT_EQ(cgroup_v1_place(found[0]), "/c/caisson") << "another's of that name";
}

TEST(CgroupV1Hierarchies, S16_ThePlaceIsWithinACommandOfCaisson) {
  const auto found =
      cgroup_v1_hierarchies("32 31 0:29 / /c rw - cgroup none rw,pids\n", "5:pids:/caisson/7-x/execs\n");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(cgroup_v1_place(found[0]), "/c/caisson/7-x/execs/caisson");
}

TEST(CgroupV1Hierarchies, OfAPureV2HostAreNone) {
  EXPECT_TRUE(
      cgroup_v1_hierarchies("41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "0::/\n").empty());
  EXPECT_TRUE(cgroup_v1_hierarchies("", "").empty());
  EXPECT_TRUE(cgroup_v1_hierarchies("x\n - cgroup\n1 2 3 - cgroup\n", "::\n:\n").empty());
}

// --- v2, on files that are as the kernel's

class V2Caps : public testing::Test {
 protected:
  void fill(const std::map<std::string, std::string>& files) {
    for (const auto& [name, text] : files) std::ofstream(path(name)) << text;
  }
  std::string path(const std::string& name = "") const { return directory_.path() + "/" + name; }
  std::string set(const CgroupCaps& caps) {
    const auto done = set_cgroup_caps(directory_.path(), CgroupVersion::v2, {cpu, memory, pids}, caps);
    return done ? "set" : done.error().text;
  }
  test::TemporaryDirectory directory_;
};

TEST_F(V2Caps, S100_AreWrittenToTheFilesOfV2) {
  fill({{"cpu.max", ""}, {"memory.max", ""}, {"memory.swap.max", ""}, {"pids.max", ""}});
  EXPECT_EQ(set({1.5, 256 << 20, 77}), "set");
  EXPECT_EQ(text_of(path("cpu.max")), "150000 100000");
  EXPECT_EQ(text_of(path("memory.max")), "268435456");
  EXPECT_EQ(text_of(path("memory.swap.max")), "0");
  EXPECT_EQ(text_of(path("pids.max")), "77");
}

TEST_F(V2Caps, OnlyTheGivenOnesAreSet) {
  fill({{"pids.max", ""}});
  EXPECT_EQ(set({{}, {}, 5}), "set");
  EXPECT_EQ(set({}), "set");
  const auto others = set_cgroup_caps(directory_.path(), CgroupVersion::v2, {pids}, {2.0, 1 << 20, 6});
  EXPECT_TRUE(others) << others.error().text;
  EXPECT_EQ(text_of(path("pids.max")), "6");
}

TEST_F(V2Caps, SharesOfAProcessorStayWithinWhatTheKernelTakes) {
  const std::map<double, std::string> shares = {{0.001, "1000 1000000"}, {0.0099, "9900 1000000"},
                                                {0.01, "1000 100000"},   {0.25, "25000 100000"},
                                                {64, "6400000 100000"},  {1e300, "10000000000 100000"}};
  for (const auto& [processors, written] : shares) {
    fill({{"cpu.max", ""}});
    EXPECT_EQ(set({processors, {}, {}}), "set");
    EXPECT_EQ(text_of(path("cpu.max")), written);
  }
  EXPECT_THAT(set({0.0009, {}, {}}), HasSubstr("0.001"));
}

TEST_F(V2Caps, S16_WhatIsMissingIsNamed) {
  EXPECT_THAT(set({1.0, {}, {}}), HasSubstr("CONFIG_CFS_BANDWIDTH"));
  EXPECT_EQ(set({{}, 1 << 20, {}}), "opening " + path("memory.max") + ": No such file or directory");
  EXPECT_EQ(set({{}, {}, 1}), "opening " + path("pids.max") + ": No such file or directory");
}

TEST_F(V2Caps, ControllersAreEnabledWhereTheyAreNot) {
  fill({{"cgroup.controllers", "cpuset cpu io memory pids\n"}, {"cgroup.subtree_control", "cpu pids\n"}});
  EXPECT_THAT(available_controllers(directory_.path()).value(), ElementsAre(cpu, memory, pids));
  ASSERT_TRUE(enable_controllers(directory_.path(), {cpu, pids}));
  EXPECT_EQ(text_of(path("cgroup.subtree_control")), "cpu pids\n") << "nothing to do";
  fill({{"cgroup.subtree_control", "cpuset io\n"}});
  ASSERT_TRUE(enable_controllers(directory_.path(), {cpu, memory}));
  EXPECT_THAT(text_of(path("cgroup.subtree_control")), testing::StartsWith("+cpu +memory"));
  // Not over a process, but for the root's, which has no type.
  fill({{"cgroup.procs", "5\n"}, {"cgroup.subtree_control", "io\n"}});
  EXPECT_TRUE(enable_controllers(directory_.path(), {pids}));
  fill({{"cgroup.type", "domain\n"}, {"cgroup.subtree_control", "io\n"}});
  EXPECT_EQ(enable_controllers(directory_.path(), {pids}).error().number, EBUSY);
  EXPECT_EQ(text_of(path("cgroup.subtree_control")), "io\n");
  fill({{"cgroup.procs", ""}});
  EXPECT_TRUE(enable_controllers(directory_.path(), {pids}));
  fill({{"cgroup.controllers", "cpuset hugetlb\n"}});
  EXPECT_TRUE(available_controllers(directory_.path()).value().empty());
  EXPECT_FALSE(available_controllers(path("none")));
  EXPECT_FALSE(enable_controllers(path("none"), {cpu}));
}

TEST_F(V2Caps, D4_CountersAreReadAnew) {
  fill({{"memory.events.local", "low 1\nhigh 2\nmax 33\noom 4\noom_kill 5\noom_group_kill 6\n"}});
  const Fd file = Fd::adopt(::open(path("memory.events.local").c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(read_counter(file, "oom_kill").value(), 5U);
  EXPECT_EQ(read_counter(file, "oom").value(), 4U);
  EXPECT_EQ(read_counter(file, "low").value(), 1U);
  fill({{"memory.events.local", "oom_kill_disable 0\noom_kill 18446744073709551615"}});
  EXPECT_EQ(read_counter(file, "oom_kill").value(), UINT64_MAX);
  for (const char* bad : {"", "oom_kill", "oom_kill \n", "oom_kill x\n", "oom_kill 1x\n", "oom_kill -1\n"}) {
    fill({{"memory.events.local", bad}});
    EXPECT_EQ(read_counter(file, "oom_kill").error(), error_of(EBADMSG)) << bad;
  }
}

// --- v1, for real

class V1Caps : public testing::TestWithParam<CgroupController> {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root changes a v1 hierarchy";
    for (const CgroupV1Hierarchy& hierarchy : own_cgroup_v1_hierarchies()) {
      if (!hierarchy.has(GetParam())) continue;
      path_ = hierarchy.position.mount + "/" + new_cgroup_name();
      ASSERT_EQ(::mkdir(path_.c_str(), 0755), 0);
      return;
    }
    GTEST_SKIP() << "no v1 hierarchy of " << name_of(GetParam());
  }
  void TearDown() override {
    if (!path_.empty()) {
      EXPECT_TRUE(remove_cgroup_directories(path_, std::chrono::seconds(5)));
    }
  }
  std::string value(const std::string& name) const {
    std::string text = text_of(path_ + "/" + name);
    if (!text.empty() && text.back() == '\n') text.pop_back();
    return text;
  }
  std::string path_;
};

TEST_P(V1Caps, S100_AreTakenByTheKernel) {
  const CgroupCaps caps{0.5, 64 << 20, 33};
  const auto set = set_cgroup_caps(path_, CgroupVersion::v1, {GetParam()}, caps);
  ASSERT_TRUE(set) << set.error().text;
  switch (GetParam()) {
    case cpu:
      EXPECT_EQ(value("cpu.cfs_quota_us") + " " + value("cpu.cfs_period_us"), "50000 100000");
      // The least and more than all.
      for (const double processors : {0.001, 1e300}) {
        EXPECT_TRUE(set_cgroup_caps(path_, CgroupVersion::v1, {cpu}, {processors, {}, {}})) << processors;
      }
      break;
    case memory:
      EXPECT_EQ(value("memory.limit_in_bytes"), "67108864");
      if (fs::exists(path_ + "/memory.memsw.limit_in_bytes")) {
        EXPECT_EQ(value("memory.memsw.limit_in_bytes"), "67108864");
      } else {
        EXPECT_EQ(value("memory.swappiness"), "0");
      }
      EXPECT_EQ(read_counter(Fd::adopt(::open((path_ + "/memory.oom_control").c_str(), O_RDONLY | O_CLOEXEC)),
                             "oom_kill")
                    .value(),
                0U);
      break;
    case pids:
      EXPECT_EQ(value("pids.max"), "33");
      break;
  }
}

TEST_P(V1Caps, RemovalTakesEmptyOnesAndKillsNobody) {
  const std::string inner = path_ + "/inner/most";
  ASSERT_TRUE(fs::create_directories(inner));
  const Fd tasks = Fd::adopt(::open((inner + "/tasks").c_str(), O_WRONLY | O_CLOEXEC));
  const FdRef joined[] = {tasks};
  test::Command command({"/bin/sleep", "1000"});
  SpawnPlan plan = command.plan();
  plan.joined = joined;
  auto process = spawn(plan);
  ASSERT_TRUE(process);
  EXPECT_EQ(remove_cgroup_directories(path_, std::chrono::milliseconds(5)).error(), error_of(EBUSY));
  EXPECT_FALSE(process->try_reap());
  ASSERT_TRUE(process->signal(SIGKILL));
  process->reap();
  EXPECT_TRUE(remove_cgroup_directories(path_, std::chrono::seconds(5)));
  EXPECT_TRUE(remove_cgroup_directories(path_, std::chrono::seconds(5)));
  EXPECT_FALSE(fs::exists(path_));
}

INSTANTIATE_TEST_SUITE_P(All, V1Caps, testing::ValuesIn(all_cgroup_controllers),
                         [](const auto& each) { return std::string(name_of(each.param)); });

}  // namespace
}  // namespace caisson::os
