// The provider's directories on disk.
#include "providers/container/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "os/files.h"
#include "os/self.h"
#include "tests/support/forked.h"
#include "tests/support/mounted.h"
#include "tests/support/on_disk.h"
#include "tests/support/temporary_directory.h"

namespace caisson::container {
namespace {

namespace fs = std::filesystem;
using test::code_of_call;
using test::entries_of;
using test::error_of_call;
using test::mode_of;
using test::Mounted;
using test::put;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr uid_t somebody_else = 65534;

class ContainerLayoutTest : public testing::Test {
 protected:
  Layout open() const { return Layout::open(root_, run_); }
  void expect_unusable(const std::string& root, const std::string& run, const std::string& named) const {
    const auto error = error_of_call([&] { Layout::open(root, run); });
    ASSERT_TRUE(error) << named;
    EXPECT_EQ(error->code(), ErrorCode::root_unusable) << named;
    EXPECT_THAT(error->what(), HasSubstr('"' + named + '"'));
  }

  test::TemporaryDirectory directory_;
  const std::string root_ = directory_ / "root";
  const std::string run_ = directory_ / "run";
};

TEST_F(ContainerLayoutTest, MakesWhatIsMissing) {
  const mode_t before = ::umask(0077);
  const std::string root = directory_ / "a/root";
  const std::string run = directory_ / "b/run";
  const Layout layout = Layout::open(root, run + "//");
  ::umask(before);
  EXPECT_EQ(layout.root, root);
  EXPECT_EQ(layout.runtime_directory, run);
  EXPECT_EQ(layout.volume_path("key"), root + "/volumes/key");
  for (const std::string& path : {directory_ / "a", root, directory_ / "b"}) {
    EXPECT_EQ(mode_of(path), 0755U) << path;
  }
  for (const std::string& path :
       {root + "/volumes", root + "/volumes/.keys", root + "/ids", run + "/sessions"}) {
    EXPECT_EQ(mode_of(path), 0700U) << path;
  }
  EXPECT_EQ(mode_of(run), os::is_root() ? 0755U : 0700U);
  for (const std::string& path : {root + "/volumes/.keys", root + "/ids", run + "/sessions"}) {
    EXPECT_THAT(entries_of(path), IsEmpty()) << "what it tries it takes away: " << path;
  }
  EXPECT_NO_THROW(Layout::open(root, run)) << "and once more";
}

TEST_F(ContainerLayoutTest, ARootThatIsALinkIsResolvedOnce) {
  fs::create_directory(root_);
  fs::create_directory_symlink(root_, directory_ / "link");
  const Layout layout = Layout::open(directory_ / "link", run_);
  EXPECT_EQ(layout.root, root_);
  fs::remove(directory_ / "link");
  fs::create_directory_symlink("/", directory_ / "link");
  ASSERT_TRUE(os::make_directory_at(layout.volumes, "key", 0755));
  EXPECT_TRUE(fs::exists(root_ + "/volumes/key"));
}

TEST_F(ContainerLayoutTest, S93_AnUnusableDirectoryIsTypedAndNamed) {
  put(directory_ / "file", "");
  fs::create_symlink("nowhere/at/all", directory_ / "dangling");
  for (const std::string& path : {directory_ / "file", directory_ / "file/below", directory_ / "dangling",
                                  std::string("relative/path"), std::string()}) {
    expect_unusable(path, run_, path);
    expect_unusable(root_, path, path);
  }
  expect_unusable(root_, "/", "/");
  EXPECT_FALSE(fs::exists("relative"));
  for (const char* name : {"volumes", "ids"}) {
    const std::string taken = directory_ / ("taken-" + std::string(name));
    fs::create_directory(taken);
    fs::create_directory_symlink("/", taken + "/" + name);
    expect_unusable(taken, run_, taken + "/" + name);
  }
  EXPECT_NO_THROW(open()) << "the control";
}

TEST_F(ContainerLayoutTest, S102_ARuntimeDirectoryWhereAnybodyMakesEntriesIsOursOrRefused) {
  open();
  fs::create_directory_symlink(run_, directory_ / "link");
  expect_unusable(root_, directory_ / "link", directory_ / "link");
  fs::permissions(run_, fs::perms(0777));
  expect_unusable(root_, run_, run_);
  fs::permissions(run_, fs::perms(0755));
  EXPECT_NO_THROW(open()) << "the control";
  if (!os::is_root()) return;
  ASSERT_EQ(::chown(run_.c_str(), somebody_else, 0), 0);
  expect_unusable(root_, run_, run_);
}

TEST_F(ContainerLayoutTest, S102_WhatOthersMayWriteOrLookIntoIsRefused) {
  open();
  fs::permissions(root_, fs::perms(0775));
  expect_unusable(root_, run_, root_);
  fs::permissions(root_, fs::perms(0755));
  for (const std::string& path :
       {root_ + "/volumes", root_ + "/volumes/.keys", root_ + "/ids", run_ + "/sessions"}) {
    fs::permissions(path, fs::perms(0750));
    expect_unusable(root_, run_, path);
    fs::permissions(path, fs::perms(0700));
    EXPECT_NO_THROW(open()) << "the control";
    if (!os::is_root()) continue;
    ASSERT_EQ(::chown(path.c_str(), somebody_else, 0), 0);
    expect_unusable(root_, run_, path);
    ASSERT_EQ(::chown(path.c_str(), 0, 0), 0);
  }
}

TEST_F(ContainerLayoutTest, S93_AReadOnlyOrFullDirectoryIsTyped) {
  const std::string place = directory_ / "place";
  const Mounted mounted(place, "size=1m,nr_inodes=16,mode=0755");
  if (!mounted.works()) GTEST_SKIP() << "needs CAP_SYS_ADMIN";
  EXPECT_NO_THROW(Layout::open(place, run_)) << "the control";
  EXPECT_NO_THROW(Layout::open(root_, place)) << "the control";
  ASSERT_TRUE(mounted.set_read_only(true));
  expect_unusable(place, run_, place);
  expect_unusable(root_, place, place);
  ASSERT_TRUE(mounted.set_read_only(false));
  put(place + "/ids/.probe", "a process died here");
  for (int i = 0; std::ofstream(place + "/" + std::to_string(i)); ++i) continue;
  EXPECT_NO_THROW(Layout::open(place, run_)) << "its place is enough";
  std::ofstream(place + "/last");
  expect_unusable(place, run_, place);
  expect_unusable(root_, place, place);
  const auto full = error_of_call([&] { Layout::open(place, run_); });
  ASSERT_TRUE(full);
  EXPECT_THAT(full->what(), HasSubstr("space"));
}

TEST_F(ContainerLayoutTest, S93_ARootWithoutPermissionIsTyped) {
  fs::create_directory(root_);
  if (!os::is_root()) {
    fs::permissions(root_, fs::perms(0555));
    return expect_unusable(root_, run_, root_);
  }
  // Root passes permission checks: tried as somebody else.
  fs::permissions(directory_.path(), fs::perms(0711));
  const std::string outcome = test::in_child([&]() -> std::string {
    if (::setresuid(somebody_else, somebody_else, somebody_else) != 0) return "no other user";
    try {
      open();
    } catch (const SandboxError& error) {
      return std::string(to_string(error.code()));
    }
    return "it opened";
  });
  EXPECT_EQ(outcome, "root_unusable");
}

TEST_F(ContainerLayoutTest, ManyOpenItAtOnce) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this] {
      for (int round = 0; round < 50; ++round) EXPECT_NO_THROW(open());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(entries_of(root_ + "/ids"), IsEmpty());
  EXPECT_THAT(entries_of(run_ + "/sessions"), IsEmpty());
}

}  // namespace
}  // namespace caisson::container
