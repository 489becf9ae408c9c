// The calls of this test program that a FakeUnified hears of, and boxes in such a hierarchy.
#include "providers/container/fake_unified_test.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "caisson/contract/errors.h"
#include "providers/container/box_cgroup.h"
#include "tests/support/eventually.h"

// The sanitizers have calls of their own in these places.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define CAISSON_WITHOUT_FAKE_CALLS
#endif
#endif

#ifndef CAISSON_WITHOUT_FAKE_CALLS
namespace {

using caisson::container::FakeUnified;

// The tree, if this path is in it.
FakeUnified* fake_of(const std::string& path) {
  FakeUnified* const fake = FakeUnified::present;
  return fake != nullptr && fake->holds(path) ? fake : nullptr;
}

std::string path_of(int descriptor) {
  char path[4096];
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  const auto size = ::readlink(link.c_str(), path, sizeof path);
  return size > 0 ? std::string(path, static_cast<std::size_t>(size)) : std::string();
}

}  // namespace

extern "C" int mkdir(const char* path, mode_t mode) noexcept {
  const auto made = static_cast<int>(::syscall(SYS_mkdir, path, mode));
  if (FakeUnified* const fake = made == 0 ? fake_of(path) : nullptr) fake->fill(path);
  return made;
}

extern "C" int rmdir(const char* path) noexcept {
  if (fake_of(path) != nullptr && std::filesystem::is_directory(path)) FakeUnified::empty(path);
  return static_cast<int>(::syscall(SYS_rmdir, path));
}

extern "C" int unlinkat(int directory, const char* name, int flags) noexcept {
  if (FakeUnified::present != nullptr && (flags & AT_REMOVEDIR) != 0) {
    const std::string path = name[0] == '/' ? name : path_of(directory) + "/" + name;
    if (fake_of(path) != nullptr && std::filesystem::is_directory(path)) FakeUnified::empty(path);
  }
  return static_cast<int>(::syscall(SYS_unlinkat, directory, name, flags));
}

extern "C" ssize_t write(int descriptor, const void* data, std::size_t size) {
  if (FakeUnified::present != nullptr && !FakeUnified::writes_itself) {
    const std::filesystem::path path = path_of(descriptor);
    FakeUnified* const fake = path.filename() == "cgroup.subtree_control" ? fake_of(path) : nullptr;
    if (fake != nullptr) {
      const int error = fake->control(path.parent_path(), std::string(static_cast<const char*>(data), size));
      if (error == 0) return static_cast<ssize_t>(size);
      errno = error;
      return -1;
    }
    // A new value is all of the file.
    if (fake_of(path) != nullptr) static_cast<void>(::ftruncate(descriptor, 0));
  }
  return ::syscall(SYS_write, descriptor, data, size);
}

namespace caisson::container {
namespace {

namespace fs = std::filesystem;
using enum os::CgroupController;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

constexpr InitOwner owner{524288, 524288};
constexpr std::uint64_t mebibyte = 1U << 20U;

class UnifiedBoxCgroupTest : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  }
  std::unique_ptr<BoxCgroups> open() {
    return BoxCgroups::open_at({fake_.root() + "/caisson", "made up"}, {}, workers_);
  }
  static std::string text(const std::string& path) { return FakeUnified::text(path); }

  kit::Workers workers_{1};
  FakeUnified fake_{"cpuset cpu io memory pids"};
};

TEST_F(UnifiedBoxCgroupTest, D4_CapsAreSetBelowAProcesslessCgroup) {
  const auto cgroups = open();
  for (const auto controller : os::all_cgroup_controllers) EXPECT_EQ(cgroups->obstacle(controller), "");
  EXPECT_THAT(cgroups->description(), HasSubstr("memory: there"));
  const std::string name = os::new_cgroup_name();
  const auto cgroup = cgroups->make(name, {2.0, 64 * mebibyte, 50}, owner);
  const std::string whole = cgroup->paths().unified;
  EXPECT_EQ(whole, fake_.root() + "/caisson/boxes/" + name);
  EXPECT_THAT(cgroup->paths().v1, IsEmpty());
  // init makes the namespace as a member of the whole, which takes that no controller is enabled in it.
  EXPECT_EQ(text(whole + "/cgroup.subtree_control"), "");
  FakeUnified::put(whole + "/init/cgroup.procs", "77\n");
  cgroup->complete();
  EXPECT_EQ(text(fake_.root() + "/cgroup.subtree_control"), "cpu memory pids ");
  EXPECT_EQ(text(whole + "/cgroup.subtree_control"), "cpu memory pids ");
  EXPECT_EQ(text(whole + "/execs/cgroup.subtree_control"), "memory pids ");
  EXPECT_EQ(text(whole + "/cpu.max"), "210000 100000");
  EXPECT_EQ(text(whole + "/memory.max"), "134217728");
  EXPECT_EQ(text(whole + "/pids.max"), "66");
  EXPECT_EQ(text(whole + "/execs/cpu.max"), "200000 100000");
  EXPECT_EQ(text(whole + "/execs/memory.max"), "67108864");
  EXPECT_EQ(text(whole + "/execs/memory.swap.max"), "0");
  EXPECT_EQ(text(whole + "/execs/pids.max"), "50");
  EXPECT_THAT(text(whole + "/init/memory.max"), StartsWith("max"));
}

TEST_F(UnifiedBoxCgroupTest, D4_NothingIsEnabledForABoxWithoutCaps) {
  const auto cgroups = open();
  const auto cgroup = cgroups->make(os::new_cgroup_name(), {}, owner);
  cgroup->complete();
  EXPECT_EQ(text(cgroup->paths().unified + "/cgroup.subtree_control"), "");
  const BoxLeaf leaf = cgroup->make_leaf();
  EXPECT_FALSE(fs::exists(leaf.path() + "/memory.max"));
  EXPECT_EQ(leaf.oom_kills(), 0U);
  EXPECT_THAT(leaf.limits_hit(), IsEmpty());
}

TEST_F(UnifiedBoxCgroupTest, S48_CountsAreTheLeafsAndSinceItWasAcquired) {
  const auto cgroups = open();
  const auto cgroup = cgroups->make(os::new_cgroup_name(), {{}, 64 * mebibyte, 50}, owner);
  cgroup->complete();
  BoxLeaf one = cgroup->make_leaf();
  const BoxLeaf other = cgroup->make_leaf();
  FakeUnified::put(one.path() + "/memory.events.local", "max 9\noom 3\noom_kill 2\noom_group_kill 0\n");
  EXPECT_EQ(one.oom_kills(), 2U);
  EXPECT_THAT(one.limits_hit(), ElementsAre(SandboxLimit::memory));
  EXPECT_THAT(other.limits_hit(), IsEmpty());
  // Before Linux 6.11 a fork that is refused counts in its leaf, since then where the cap is.
  FakeUnified::put(other.path() + "/pids.events", "max 1\n");
  EXPECT_THAT(other.limits_hit(), ElementsAre(SandboxLimit::pids));
  FakeUnified::put(cgroup->paths().unified + "/execs/pids.events", "max 4\n");
  EXPECT_THAT(one.limits_hit(), ElementsAre(SandboxLimit::memory, SandboxLimit::pids));
  const BoxLeaf later = cgroup->make_leaf();
  EXPECT_THAT(later.limits_hit(), IsEmpty());
}

TEST_F(UnifiedBoxCgroupTest, S16_AProcessInTheDelegatedCgroupIsSaid) {
  fs::create_directory(fake_.root() + "/scope");
  fake_.fill(fake_.root() + "/scope");
  FakeUnified::put(fake_.root() + "/scope/cgroup.controllers", "memory pids");
  FakeUnified::put(fake_.root() + "/scope/cgroup.procs", "5\n");
  const auto cgroups = BoxCgroups::open_at({fake_.root() + "/scope/caisson", "delegated"}, {}, workers_);
  EXPECT_THAT(cgroups->obstacle(memory), HasSubstr("DelegateSubgroup="));
  EXPECT_THAT(cgroups->obstacle(pids), HasSubstr("DelegateSubgroup="));
  // With pids enabled nothing could be started beneath it any more, caps or none.
  EXPECT_EQ(text(fake_.root() + "/scope/cgroup.subtree_control"), "");
  EXPECT_THAT(cgroups->obstacle(cpu), HasSubstr("neither in the v2 cgroup"));
  EXPECT_THROW(cgroups->make(os::new_cgroup_name(), {{}, mebibyte, {}}, owner), SandboxError);
  // The control: out of it there are caps, and without them there is a cgroup all the same.
  EXPECT_NO_THROW(cgroups->make(os::new_cgroup_name(), {}, owner));
  FakeUnified::put(fake_.root() + "/scope/cgroup.procs", "");
  EXPECT_EQ(
      BoxCgroups::open_at({fake_.root() + "/scope/caisson", "delegated"}, {}, workers_)->obstacle(memory),
      "");
}

TEST_F(UnifiedBoxCgroupTest, S26_RemoveLeavesNothing) {
  const auto cgroups = open();
  const auto cgroup = cgroups->make(os::new_cgroup_name(), {{}, 64 * mebibyte, 50}, owner);
  cgroup->complete();
  const BoxLeaf leaf = cgroup->make_leaf();
  EXPECT_TRUE(fs::exists(leaf.path()));
  const auto removed = cgroup->remove();
  EXPECT_TRUE(removed) << removed.error().text;
  EXPECT_FALSE(fs::exists(fake_.root() + "/caisson"));
}

// Others remove the directories above when they find them empty: they are made anew, and let the controllers
// down.
TEST_F(UnifiedBoxCgroupTest, D4_WhatIsAboveIsMadeAnew) {
  const auto cgroups = open();
  EXPECT_FALSE(fs::exists(fake_.root() + "/caisson"));
  for (int i = 0; i < 2; ++i) {
    const auto cgroup = cgroups->make(os::new_cgroup_name(), {{}, {}, 50}, owner);
    cgroup->complete();
    EXPECT_EQ(text(cgroup->paths().unified + "/execs/pids.max"), "50");
  }
}

}  // namespace
}  // namespace caisson::container
#endif
