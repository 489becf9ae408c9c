// Tests of the cgroups of boxes, with real boxes in them.
#include "providers/container/box_cgroup.h"

#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "caisson/contract/errors.h"
#include "caisson/kit/provider.h"
#include "providers/container/box_cgroup_bed_test.h"
#include "tests/support/async.h"
#include "tests/support/cgroups.h"
#include "tests/support/eventually.h"
#include "tests/support/forked.h"
#include "tests/support/sanitizers.h"

namespace caisson::container {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using enum os::CgroupController;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

constexpr std::uint64_t mebibyte = 1U << 20U;

class BoxCgroupTest : public test::CgroupTest {
 protected:
  void SetUp() override {
    test::CgroupTest::SetUp();
    if (IsSkipped()) return;
    if (::geteuid() != 0) GTEST_SKIP() << "only root maps a range of ids";
    auto opened = BoxCgroups::open(workers_);
    ASSERT_TRUE(opened) << opened.error();
    cgroups_ = std::move(*opened);
    plan_ = init::host_plan();
    plan_.ids = {bed_init_id, bed_init_id};
    plan_.directories = {{"/workspace", 0755, 0, 0}};
  }
  // Whether those caps can be had here: a machine without the controllers has no such tests.
  bool can(std::initializer_list<os::CgroupController> controllers) const {
    return std::all_of(controllers.begin(), controllers.end(),
                       [this](auto each) { return cgroups_->obstacle(each).empty(); });
  }
  std::shared_ptr<BoxCgroup> make(const os::CgroupCaps& caps = {}) {
    return cgroups_->make(os::new_cgroup_name(), caps, bed_owner());
  }
  CgroupBed box(const os::CgroupCaps& caps = {}) {
    CgroupBed bed(make(caps), plan_, bed_maps());
    EXPECT_EQ(bed.failure, "");
    return bed;
  }
  // Whether anything of it is there.
  static bool any_of(const BoxCgroupPaths& paths) {
    return fs::exists(paths.unified) ||
           std::any_of(paths.v1.begin(), paths.v1.end(), [](const auto& path) { return fs::exists(path); });
  }

  boost::asio::io_context context_;  // Outlives the workers, who post to it.
  kit::Workers workers_{1};
  std::unique_ptr<BoxCgroups> cgroups_;
  init::BoxPlan plan_;
};

std::string name_of(const BoxLeaf& leaf) { return fs::path(leaf.path()).filename(); }

// --- what a box sees of its cgroups

TEST_F(BoxCgroupTest, D4_ExecsAreBornInLeavesOfTheirOwn) {
  CgroupBed bed = box();
  auto one = bed.start("echo; exec sleep 1000");
  auto other = bed.start("cat /proc/self/cgroup; exit 3");
  ASSERT_TRUE(CgroupBed::is_ready(one)) << one.failure;
  EXPECT_NE(one.leaf.path(), other.leaf.path());
  auto ended = bed.finish(std::move(other));
  EXPECT_THAT(ended.out, HasSubstr("0::/execs/" + name_of(ended.running.leaf) + "\n"));
  EXPECT_EQ(ended.end, "code 3");
  EXPECT_FALSE(*ended.running.leaf.populated());
  EXPECT_TRUE(*one.leaf.populated());
  EXPECT_TRUE(*bed.cgroup->populated());
  EXPECT_THAT(
      init::text_of("/proc/" + std::to_string(bed.init->process().pid()) + "/cgroup"),
      HasSubstr("0::" + bed.cgroup->paths().unified.substr(test::writable_cgroup().size()) + "/init\n"));
}

TEST_F(BoxCgroupTest, S101_NoOtherCgroupIsToBeSeenInProc) {
  os::CgroupCaps caps;
  if (can({cpu})) caps.cpu = 1.0;
  if (can({memory})) caps.memory = 64 * mebibyte;
  if (can({pids})) caps.pids = 64;
  CgroupBed bed = box(caps);
  const std::string inside = bed.run("cat /proc/self/cgroup /proc/1/cgroup");
  EXPECT_THAT(inside, HasSubstr("0::/init\n"));
  EXPECT_THAT(inside, Not(HasSubstr("caisson")));
  EXPECT_THAT(inside, Not(HasSubstr("..")));
  EXPECT_THAT(inside, Not(HasSubstr(std::to_string(::getpid()) + "-")));
  // The control: from outside it is seen.
  EXPECT_THAT(init::text_of("/proc/" + std::to_string(bed.init->process().pid()) + "/cgroup"),
              HasSubstr("caisson/"));
}

constexpr char mount_cgroups[] = "mkdir -p /tmp/c && mount -t cgroup2 none /tmp/c && ls /tmp/c/cgroup.procs";

TEST_F(BoxCgroupTest, S102_ABoxCannotLeaveItsCgroup) {
  plan_.capabilities = 0;
  CgroupBed bed = box();
  // There are no files of cgroups, and init's descriptors are not to be had; the control is its own.
  EXPECT_EQ(
      bed.run("find / -name cgroup.procs 2>/dev/null; cd /proc/self/root && echo own; "
              "for d in /proc/1/fd/* /proc/1/root /proc/1/cwd; do cd $d 2>/dev/null && echo $d; done; true"),
      "own\ncode 0");
  EXPECT_THAT(bed.run(mount_cgroups), Not(StartsWith("/tmp/c/cgroup.procs")));
  EXPECT_THAT(bed.run(std::string("unshare -Urm sh -c '") + mount_cgroups + "'"),
              Not(StartsWith("/tmp/c/cgroup.procs")));
  // The control: in a user namespace without a box around it both can be had.
  const std::string said = test::in_child(
      [] {
        const std::string at = "/tmp/caisson-cgroups-" + std::to_string(::getpid());
        const bool made = ::mkdir(at.c_str(), 0755) == 0 || errno == EEXIST;
        const bool mounted = made && ::mount("none", at.c_str(), "cgroup2", 0, nullptr) == 0;
        const std::string there =
            mounted && ::access((at + "/cgroup.procs").c_str(), F_OK) == 0 ? "there" : "no";
        if (mounted) ::umount2(at.c_str(), MNT_DETACH);
        ::rmdir(at.c_str());
        return there;
      },
      CLONE_NEWNS);
  EXPECT_EQ(said, "there");
}

// --- caps

TEST_F(BoxCgroupTest, S48_OnlyTheExecThatPassesMemoryIsOutOfMemory) {
  if (!can({memory})) GTEST_SKIP() << cgroups_->obstacle(memory);
  CgroupBed bed = box({{}, 48 * mebibyte, {}});
  auto other = bed.start("echo; exec sleep 1000");
  ASSERT_TRUE(CgroupBed::is_ready(other)) << other.failure;
  auto hungry = bed.finish(bed.start("exec tail /dev/zero"));
  EXPECT_EQ(hungry.end, "signal 9");
  EXPECT_EQ(hungry.running.leaf.oom_kills(), 1U);
  EXPECT_THAT(hungry.running.leaf.limits_hit(), ElementsAre(SandboxLimit::memory));
  EXPECT_EQ(init::in_words(bed.host->ask(init::SignalExec{other.exec, SIGKILL}).reply), "done");
  auto killed = bed.finish(std::move(other));
  EXPECT_EQ(killed.end, "signal 9");
  EXPECT_EQ(killed.running.leaf.oom_kills(), 0U);
  EXPECT_THAT(killed.running.leaf.limits_hit(), IsEmpty());
  // A leaf that serves again has nothing of what was.
  bed.cgroup->give_back(std::move(hungry.running.leaf));
  bed.cgroup->give_back(std::move(killed.running.leaf));
  for (int i = 0; i < 3; ++i) {
    auto after = bed.finish(bed.start("exit 0"));
    EXPECT_EQ(after.end, "code 0");
    EXPECT_THAT(after.running.leaf.limits_hit(), IsEmpty());
    bed.cgroup->discard(std::move(after.running.leaf));
  }
}

TEST_F(BoxCgroupTest, S48_ADescendantOutOfMemoryIsALimitThatWasHit) {
  if (!can({memory})) GTEST_SKIP() << cgroups_->obstacle(memory);
  CgroupBed bed = box({{}, 48 * mebibyte, {}});
  auto ended = bed.finish(bed.start("tail /dev/zero; exit 7"));
  EXPECT_EQ(ended.end, "code 7");
  EXPECT_EQ(ended.running.leaf.oom_kills(), 1U);
  EXPECT_THAT(ended.running.leaf.limits_hit(), ElementsAre(SandboxLimit::memory));
}

TEST_F(BoxCgroupTest, S101_TmpfsCountsAndInitOutlivesABoxFullOfIt) {
  if (!can({memory})) GTEST_SKIP() << cgroups_->obstacle(memory);
  plan_.mounts.emplace_back(init::Tmpfs{"/tmp", 256 * mebibyte, 1024, 01777, {}});
  // The control: as much fits where there is no cap.
  CgroupBed free = box();
  EXPECT_EQ(free.run("head -c 64M /dev/zero > /tmp/file && echo fits"), "fits\ncode 0");
  CgroupBed bed = box({{}, 32 * mebibyte, {}});
  auto ended = bed.finish(bed.start("exec head -c 64M /dev/zero > /tmp/file"));
  EXPECT_EQ(ended.end, "signal 9");
  EXPECT_EQ(ended.running.leaf.oom_kills(), 1U);
  EXPECT_EQ(init::in_words(bed.host->ask(init::Ping{}).reply), "done");
}

TEST_F(BoxCgroupTest, S101_PidsThatRunOutAreALimitThatWasHit) {
  if (!can({pids})) GTEST_SKIP() << cgroups_->obstacle(pids);
  CgroupBed bed = box({{}, {}, 12});
  auto ended =
      bed.finish(bed.start("for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 1000 >/dev/null 2>&1 & done"));
  EXPECT_THAT(ended.end, StartsWith("code 2"));
  EXPECT_THAT(ended.running.leaf.limits_hit(), ElementsAre(SandboxLimit::pids));
  ASSERT_TRUE(ended.running.leaf.kill());
  EXPECT_TRUE(test::eventually([&] { return !ended.running.leaf.populated().value(); }));
  // Zombies count too: the first answer comes before init has looked for them, maybe.
  for (int i = 0; i < 2; ++i) EXPECT_EQ(init::in_words(bed.host->ask(init::Ping{}).reply), "done");
  bed.cgroup->give_back(std::move(ended.running.leaf));
  // The control: fewer are no limit that was hit.
  auto after = bed.finish(bed.start("for i in 1 2 3 4; do sleep 0 & done; wait"));
  EXPECT_EQ(after.end, "code 0");
  EXPECT_THAT(after.running.leaf.limits_hit(), IsEmpty());
}

TEST_F(BoxCgroupTest, S100_AShareOfTheProcessorsIsKept) {
  if (!can({cpu})) GTEST_SKIP() << cgroups_->obstacle(cpu);
  CgroupBed bed = box({0.1, {}, {}});
  auto running = bed.start("while :; do :; done");
  ASSERT_EQ(running.failure, "");
  std::vector<std::string> directories = bed.cgroup->paths().v1;
  directories.push_back(bed.cgroup->paths().unified);
  // In three periods of a tenth of a second it was made to wait.
  EXPECT_TRUE(test::eventually([&] {
    std::uint64_t throttled = 0;
    for (const std::string& directory : directories) {
      std::ifstream file(directory + "/execs/cpu.stat");
      std::string key;
      for (std::uint64_t value = 0; file >> key >> value;) throttled += key == "nr_throttled" ? value : 0;
    }
    return throttled >= 3;
  }));
  EXPECT_TRUE(running.leaf.kill());
}

// A box's init is bounded too, whatever became of it: but not by what its execs use.
TEST_F(BoxCgroupTest, S102_TheBoxAsAWholeHasItsCaps) {
  if (!can({cpu, memory, pids})) GTEST_SKIP() << "not every controller is here";
  const auto cgroup = make({1.5, 64 * mebibyte, 100});
  cgroup->complete();
  std::vector<std::string> whole, execs;
  std::vector<std::string> directories = cgroup->paths().v1;
  directories.push_back(cgroup->paths().unified);
  for (const char* file :
       {"cpu.cfs_quota_us", "cpu.max", "memory.limit_in_bytes", "memory.max", "pids.max"}) {
    for (const std::string& directory : directories) {
      std::string value;
      if (std::ifstream(directory + "/" + file) >> value) whole.push_back(value);
      if (std::ifstream(directory + "/execs/" + file) >> value) execs.push_back(value);
    }
  }
  EXPECT_THAT(whole, ElementsAre("160000", "134217728", "116"));
  EXPECT_THAT(execs, ElementsAre("150000", "67108864", "100"));
}

// --- killing and removing

TEST_F(BoxCgroupTest, S63_KillEndsOneExecsTreeAlone) {
  CgroupBed bed = box();
  auto one = bed.start("setsid sleep 1000 & (trap '' TERM; sleep 1000) & echo; wait");
  auto other = bed.start("echo; exec sleep 1000");
  ASSERT_TRUE(CgroupBed::is_ready(one) && CgroupBed::is_ready(other));
  ASSERT_TRUE(one.leaf.kill());
  EXPECT_TRUE(test::eventually([&] { return !*one.leaf.populated(); }));
  EXPECT_TRUE(*other.leaf.populated());
  EXPECT_EQ(init::in_words(bed.host->ask(init::Ping{}).reply), "done");
}

TEST_F(BoxCgroupTest, S26_KillEndsTheBoxAndRemoveLeavesNothing) {
  os::CgroupCaps caps;
  if (can({memory})) caps.memory = 64 * mebibyte;
  if (can({pids})) caps.pids = 64;
  CgroupBed bed = box(caps);
  const BoxCgroupPaths paths = bed.cgroup->paths();
  auto running = bed.start("setsid sleep 1000 & echo; exec sleep 1000");
  ASSERT_TRUE(CgroupBed::is_ready(running)) << running.failure;
  EXPECT_TRUE(any_of(paths)) << "the control";
  ASSERT_TRUE(bed.cgroup->kill());
  EXPECT_TRUE(bed.init->ends());
  EXPECT_TRUE(test::eventually([&] { return !*bed.cgroup->populated(); }));
  const auto removed = bed.cgroup->remove();
  EXPECT_TRUE(removed) << removed.error().text;
  EXPECT_FALSE(any_of(paths));
  EXPECT_TRUE(bed.cgroup->remove()) << "again";
  EXPECT_THROW(bed.cgroup->make_leaf(), SandboxError);
  EXPECT_FALSE(any_of(paths)) << "recreates nothing";
}

TEST_F(BoxCgroupTest, S26_DestroyingItKillsAndRemovesWhatIsLeft) {
  CgroupBed bed = box();
  const BoxCgroupPaths paths = bed.cgroup->paths();
  auto running = bed.start("echo; exec sleep 1000");
  ASSERT_TRUE(CgroupBed::is_ready(running)) << running.failure;
  bed.cgroup.reset();
  EXPECT_TRUE(bed.init->ends());
  EXPECT_FALSE(any_of(paths));
}

TEST_F(BoxCgroupTest, S29_WhatADeadOwnerLeftIsRemovedByItsPaths) {
  const std::string name = os::new_cgroup_name();
  os::CgroupCaps caps;
  if (can({pids})) caps.pids = 64;
  const BoxCgroupPaths paths = cgroups_->paths(name);
  EXPECT_FALSE(any_of(paths)) << "chosen before anything is made";
  const pid_t child = ::fork();
  if (child == 0) {
    const auto cgroup = cgroups_->make(name, caps, bed_owner());
    const bool same = cgroup->paths() == paths;
    ::kill(::getpid(), same ? SIGKILL : SIGTERM);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
  EXPECT_TRUE(any_of(paths));
  EXPECT_TRUE(os::remove_cgroup_tree(paths.unified, 2s));
  for (const std::string& path : paths.v1) EXPECT_TRUE(os::remove_cgroup_directories(path, 2s));
  EXPECT_FALSE(any_of(paths));
}

TEST_F(BoxCgroupTest, AForkOfItsProcessTouchesNothing) {
  auto cgroup = make();
  const pid_t child = ::fork();
  if (child == 0) {
    cgroup.reset();
    ::_exit(0);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(fs::exists(cgroup->paths().unified));
}

TEST_F(BoxCgroupTest, S27_OneThatCannotBeMadeLeavesTheOtherAlone) {
  const std::string name = os::new_cgroup_name();
  const auto first = cgroups_->make(name, {}, bed_owner());
  EXPECT_THROW(cgroups_->make(name, {}, bed_owner()), SandboxError);
  EXPECT_TRUE(fs::exists(first->paths().unified + "/init"));
  EXPECT_THROW(static_cast<void>(cgroups_->paths("../x")), std::logic_error);
}

// --- leaves

TEST_F(BoxCgroupTest, D4_CleanLeafServesAgainAndKilledOneNever) {
  if (!can({memory})) GTEST_SKIP() << cgroups_->obstacle(memory);
  auto cgroup = make({{}, 64 * mebibyte, {}});
  cgroup->complete();
  BoxLeaf leaf = cgroup->make_leaf();
  const std::string clean = leaf.path();
  cgroup->give_back(std::move(leaf));
  std::vector<std::string> seen;
  std::vector<BoxLeaf> taken;
  while (auto ready = cgroup->ready_leaf()) {
    seen.push_back(ready->path());
    taken.push_back(std::move(*ready));
    if (seen.size() > 5) break;
  }
  EXPECT_THAT(seen, testing::Contains(clean));
  for (BoxLeaf& each : taken) {
    ASSERT_TRUE(each.kill());
    cgroup->give_back(std::move(each));
  }
  EXPECT_TRUE(test::eventually([&] { return !fs::exists(clean); }));
  const auto again = cgroup->ready_leaf();
  if (again) {
    EXPECT_THAT(seen, Not(testing::Contains(again->path())));
  }
  const std::string execs = cgroup->paths().unified + "/execs";
  const auto kept = [&execs] {
    return std::count_if(fs::directory_iterator(execs), {},
                         [](const auto& each) { return each.is_directory(); });
  };
  EXPECT_TRUE(test::eventually([&] { return kept() <= 2; }));
}

Awaitable<std::string> path_of_one(std::shared_ptr<BoxCgroup> cgroup) {
  const BoxLeaf leaf = co_await BoxCgroup::acquire_leaf(cgroup);
  co_return leaf.path();
}

TEST_F(BoxCgroupTest, D4_ALeafIsMadeAhead) {
  auto cgroup = make();
  EXPECT_FALSE(cgroup->ready_leaf()) << "none before it is complete";
  cgroup->complete();
  std::optional<BoxLeaf> leaf;
  EXPECT_TRUE(test::eventually([&] { return (leaf = cgroup->ready_leaf()).has_value(); }));
  EXPECT_NE(test::run(context_, path_of_one(cgroup)), leaf->path());
}

#ifndef CAISSON_UBSAN
TEST_F(BoxCgroupTest, S44_WithoutDescriptorsALeafIsToBeTriedAgain) {
  auto cgroup = make();
  cgroup->complete();
  EXPECT_TRUE(test::eventually([&] { return cgroup->ready_leaf().has_value(); }));
  struct rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const struct rlimit none{8, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  EXPECT_THROW(cgroup->make_leaf(), kit::DescriptorsExhausted);
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_NO_THROW(cgroup->make_leaf()) << "the control";
}
#endif

// --- ordinary users

// What an ordinary user sees of boxes in a subtree that was delegated to him, where he is in a leaf of it.
std::string as_a_user(const std::string& subtree) {
  std::ofstream(subtree + "/self/cgroup.procs") << "0" << std::flush;
  for (const char* file : {"", "/cgroup.procs", "/cgroup.subtree_control", "/self", "/self/cgroup.procs"}) {
    if (::chown((subtree + file).c_str(), 65534, 65534) != 0) return "chown";
  }
  if (::setgroups(0, nullptr) != 0 || ::setgid(65534) != 0 || ::setuid(65534) != 0) return "ids";
  ::prctl(PR_SET_DUMPABLE, 1);  // As a user's own program is.
  kit::Workers workers(1);
  const auto opened = BoxCgroups::open(workers);
  if (!opened) return opened.error();
  BoxCgroups& cgroups = **opened;
  os::CgroupCaps caps;
  const std::string& why = cgroups.obstacle(memory);
  if (why.empty()) {
    caps.memory = 48 * mebibyte;
  } else {
    if (why.find("run as root") == std::string::npos) return why;
    try {
      cgroups.make(os::new_cgroup_name(), {{}, 64 * mebibyte, {}}, {65534, 65534});
      return "a cap that cannot be kept";
    } catch (const SandboxError& error) {
      if (error.code() != ErrorCode::not_enforceable) return error.what();
      const std::string said = error.what();
      if (!said.starts_with("provider cannot enforce: a cap of memory")) return said;
    }
  }
  CgroupBed bed(cgroups.make(os::new_cgroup_name(), caps, {65534, 65534}), init::host_plan(),
                os::single_id_maps(0, 0));
  if (!bed.failure.empty()) return bed.failure;
  auto ended = bed.finish(bed.start("grep 0:: /proc/self/cgroup"));
  if (ended.out != "0::/../execs/" + name_of(ended.running.leaf) + "\n") return ended.out + ended.end;
  if (caps.memory) {
    ended = bed.finish(bed.start("exec tail /dev/zero"));
    if (ended.end != "signal 9" || ended.running.leaf.oom_kills() != 1) return "no cap: " + ended.end;
  }
  auto running = bed.start("setsid sleep 1000 & echo; wait");
  if (!CgroupBed::is_ready(running) || !*running.leaf.populated()) return running.failure + "not ready";
  if (!running.leaf.kill() || !test::eventually([&] { return !*running.leaf.populated(); })) return "alive";
  const std::string path = bed.cgroup->paths().unified;
  bed.cgroup.reset();
  return fs::exists(path) ? "left" : "fine";
}

[[noreturn]] void say_as_a_user(const std::string& subtree) {
  std::cerr << as_a_user(subtree) << std::endl;
  ::_exit(0);
}

using BoxCgroupDeathTest = BoxCgroupTest;
TEST_F(BoxCgroupDeathTest, D4_AnOrdinaryUsersExecsJoinLeavesOfASubtreeOfHis) {
  const std::string mount = test::writable_cgroup();
  const std::string subtree = mount + "/" + os::new_cgroup_name();
  ASSERT_TRUE(fs::create_directories(subtree + "/self"));
  ASSERT_EQ(::setxattr(subtree.c_str(), "user.delegate", "1", 1, 0), 0);
  // With controllers, where v2 has any.
  const auto available = os::available_controllers(mount);
  if (available) {
    EXPECT_TRUE(os::enable_controllers(mount, *available));
  }
  EXPECT_EXIT(say_as_a_user(subtree), testing::ExitedWithCode(0), "^fine\n$");
  EXPECT_TRUE(os::remove_cgroup_tree(subtree, 5s));
}

TEST_F(BoxCgroupTest, S16_TheDescriptionNamesEachCap) {
  const std::string text = cgroups_->description();
  for (const char* name : {"cpu: ", "memory: ", "pids: "}) EXPECT_THAT(text, HasSubstr(name));
  EXPECT_THAT(text, HasSubstr("/boxes"));
  // A machine without any controller says so of each.
  const auto bare = BoxCgroups::open_at(*os::find_cgroup_place(), {}, workers_);
  if (!os::own_cgroup_v1_hierarchies().empty()) {
    EXPECT_THAT(bare->obstacle(pids), HasSubstr("the pids controller is neither in the v2 cgroup"));
    EXPECT_THROW(bare->make(os::new_cgroup_name(), {{}, {}, 5}, bed_owner()), SandboxError);
  }
}

}  // namespace
}  // namespace caisson::container
