// Persistent workspaces shared between sessions and processes (S-25).
#include "providers/local/workspace_lock.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

#include <atomic>
#include <thread>

#include "os/files.h"
#include "providers/local/root_for_test.h"
#include "tests/support/faults.h"

namespace caisson::local {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class WorkspaceLockTest : public testing::Test {
 protected:
  void make_workspace() {
    fs::create_directories(workspace_);
    put(workspace_ + "/file", "kept");
    put(root_ + "/.tai-sandbox/key.json", "{}");
  }
  WorkspaceLock take() { return WorkspaceLock::take(layout_, "key"); }
  bool workspace_is_there() const { return fs::exists(workspace_ + "/file"); }

  test::TemporaryDirectory directory_;
  const std::string root_ = directory_ / "root";
  const Layout layout_ = Layout::open(root_);
  const std::string workspace_ = root_ + "/key";
};

TEST_F(WorkspaceLockTest, S25_TheOnlySessionRemovesIt) {
  make_workspace();
  WorkspaceLock only = take();
  only.give_up(layout_, true);
  EXPECT_FALSE(fs::exists(workspace_));
  EXPECT_FALSE(fs::exists(root_ + "/.tai-sandbox/key.json"));
  EXPECT_THAT(traces_of_sessions(root_), IsEmpty());
}

TEST_F(WorkspaceLockTest, S32_WithoutAWishItStays) {
  make_workspace();
  take().give_up(layout_, false);
  EXPECT_TRUE(workspace_is_there());
  EXPECT_TRUE(fs::exists(root_ + "/.tai-sandbox/key.json"));
  EXPECT_THAT(traces_of_sessions(root_), IsEmpty());
}

TEST_F(WorkspaceLockTest, S24_AWishMayComeAfterItWasLeft) {
  make_workspace();
  WorkspaceLock only = take();
  only.give_up(layout_, false);
  EXPECT_TRUE(workspace_is_there()) << "the control";
  only.give_up(layout_, true);
  EXPECT_FALSE(fs::exists(workspace_));
  make_workspace();
  only.give_up(layout_, true);
  EXPECT_TRUE(workspace_is_there()) << "it wished once; this is another workspace";
  WorkspaceLock::remove_when_unused(layout_, "key");
  EXPECT_FALSE(fs::exists(workspace_));
  EXPECT_THAT(traces_of_sessions(root_), IsEmpty());
}

TEST_F(WorkspaceLockTest, S25_AWishThatCannotBeLookedForIsKept) {
  make_workspace();
  WorkspaceLock first = take();
  WorkspaceLock second = take();
  first.give_up(layout_, true);
  {
    const test::Faults faults({test::error_at("files.look", EIO)});
    EXPECT_EQ(code_of_call([&] { static_cast<void>(take()); }), ErrorCode::root_unusable);
  }
  {
    const test::Faults faults({test::error_at("files.look", EIO)});
    EXPECT_EQ(code_of_call([&] { static_cast<void>(WorkspaceLock::take(layout_, "other")); }),
              ErrorCode::root_unusable);
    EXPECT_FALSE(fs::exists(root_ + "/.tai-sandbox/.caisson/keys/other.lock")) << "S-27";
  }
  {
    const test::Faults faults({test::error_at("files.look", EIO)});
    EXPECT_EQ(code_of_call([&] { second.give_up(layout_, false); }), ErrorCode::removal_failed);
  }
  second.give_up(layout_, false);
  EXPECT_FALSE(fs::exists(workspace_));
  EXPECT_THAT(traces_of_sessions(root_), IsEmpty());
}

TEST_F(WorkspaceLockTest, S25_NeverUnderAnotherAndByTheLast) {
  make_workspace();
  WorkspaceLock first = take();
  WorkspaceLock second = take();
  first.give_up(layout_, true);
  EXPECT_TRUE(workspace_is_there());
  EXPECT_TRUE(fs::exists(root_ + "/.tai-sandbox/.caisson/keys/key.remove"));
  const auto error = error_of_call([&] { take(); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::workspace_conflict);
  EXPECT_THAT(error->what(), HasSubstr("key"));
  second.give_up(layout_, false);
  EXPECT_FALSE(fs::exists(workspace_));
  EXPECT_THAT(traces_of_sessions(root_), IsEmpty());
  make_workspace();
  take().give_up(layout_, false);
  EXPECT_TRUE(workspace_is_there()) << "the wish is spent";
}

TEST_F(WorkspaceLockTest, S25_NeverUnderAnotherProcess) {
  make_workspace();
  Child other([this] { new WorkspaceLock(take()); });
  take().give_up(layout_, true);
  EXPECT_TRUE(workspace_is_there());
  EXPECT_EQ(code_of_call([&] { take(); }), ErrorCode::workspace_conflict);
  other.kill();
  WorkspaceLock next = take();
  EXPECT_FALSE(fs::exists(workspace_))
      << "what the dead process kept alive is removed before the key is used again";
  next.give_up(layout_, false);
  EXPECT_THAT(traces_of_sessions(root_), IsEmpty());
}

// A file that nobody can remove, until it is destroyed.
class Immutable {
 public:
  explicit Immutable(const std::string& path)
      : file_(os::Fd::adopt(::open(path.c_str(), O_RDONLY | O_CLOEXEC))) {
    works_ = set(FS_IMMUTABLE_FL);
  }
  ~Immutable() { set(0); }
  bool works() const noexcept { return works_; }

 private:
  bool set(int flag) const { return ::ioctl(file_.number(), FS_IOC_SETFLAGS, &flag) == 0; }
  os::Fd file_;
  bool works_ = false;
};

TEST_F(WorkspaceLockTest, S30_WhatCannotBeRemovedIsTypedAndTriedAgain) {
  make_workspace();
  WorkspaceLock only = take();
  {
    const Immutable stays(workspace_ + "/file");
    if (!stays.works()) GTEST_SKIP() << "needs CAP_LINUX_IMMUTABLE and a file system with that flag";
    const auto error = error_of_call([&] { only.give_up(layout_, true); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::removal_failed);
    EXPECT_THAT(error->what(), HasSubstr(workspace_));
    EXPECT_EQ(code_of_call([&] { take(); }), ErrorCode::workspace_conflict);
    EXPECT_EQ(code_of_call([&] { only.give_up(layout_, true); }), ErrorCode::removal_failed);
  }
  only.give_up(layout_, true);
  EXPECT_FALSE(fs::exists(workspace_));
  EXPECT_THAT(traces_of_sessions(root_), IsEmpty());
}

TEST_F(WorkspaceLockTest, S25_ARetryNeverTakesALaterWorkspace) {
  make_workspace();
  WorkspaceLock first = take();
  {
    const Immutable stays(workspace_ + "/file");
    if (!stays.works()) GTEST_SKIP() << "needs CAP_LINUX_IMMUTABLE and a file system with that flag";
    EXPECT_EQ(code_of_call([&] { first.give_up(layout_, true); }), ErrorCode::removal_failed);
  }
  WorkspaceLock later = take();
  EXPECT_FALSE(fs::exists(workspace_)) << "the wish was fulfilled by the next create";
  make_workspace();
  first.give_up(layout_, true);
  later.give_up(layout_, false);
  EXPECT_TRUE(workspace_is_there());
}

TEST_F(WorkspaceLockTest, S24_AFullDiskDoesNotKeepAWorkspace) {
  fs::remove_all(root_);
  const Mounted mounted(root_, "size=1m,nr_inodes=20");
  if (!mounted.works()) GTEST_SKIP() << "needs CAP_SYS_ADMIN";
  const Layout layout = Layout::open(root_);
  make_workspace();
  WorkspaceLock only = WorkspaceLock::take(layout, "key");
  for (int i = 0; std::ofstream(workspace_ + "/" + std::to_string(i)); ++i) continue;
  only.give_up(layout, true);
  EXPECT_FALSE(fs::exists(workspace_));
  EXPECT_THAT(traces_of_sessions(root_), IsEmpty());
}

TEST_F(WorkspaceLockTest, S27_AFailedCreateTakesBackOnlyItsOwn) {
  WorkspaceLock failed = take();
  fs::create_directory(workspace_);
  put(root_ + "/.tai-sandbox/key.json", "{}");
  WorkspaceLock other = take();
  failed.abandon(layout_, true, true);
  EXPECT_TRUE(fs::exists(workspace_)) << "another session has come to use it";
  EXPECT_TRUE(fs::exists(root_ + "/.tai-sandbox/key.json"));
  put(workspace_ + "/file", "");
  other.give_up(layout_, false);
  WorkspaceLock late = take();
  late.abandon(layout_, true, true);
  EXPECT_TRUE(workspace_is_there()) << "or had, and left something";
  EXPECT_TRUE(fs::exists(root_ + "/.tai-sandbox/key.json"));
  fs::remove(workspace_ + "/file");
  take().abandon(layout_, true, true);
  EXPECT_FALSE(fs::exists(workspace_));
  EXPECT_FALSE(fs::exists(root_ + "/.tai-sandbox/key.json"));
  EXPECT_THAT(traces_of_sessions(root_), IsEmpty());
}

// Sessions come and go on one key in several threads, half of them removing it: never is a workspace removed
// while a session uses it, and in the end nothing is left.
TEST_F(WorkspaceLockTest, S25_ManySessionsOnOneKey) {
  std::atomic<int> used = 0;
  std::atomic<int> conflicts = 0;
  std::vector<std::thread> threads;
  for (int number = 0; number < 4; ++number) {
    threads.emplace_back([&, number] {
      for (int round = 0; round < 100; ++round) {
        try {
          WorkspaceLock lock = take();
          static_cast<void>(os::make_directory_at(layout_.workspaces, "key", 0755));
          const std::string mine = workspace_ + "/" + std::to_string(number);
          put(mine, "x");
          std::this_thread::yield();
          EXPECT_EQ(text_of(mine), "x");
          ++used;
          lock.give_up(layout_, (round + number) % 2 == 0);
        } catch (const SandboxError& error) {
          ASSERT_EQ(error.code(), ErrorCode::workspace_conflict) << error.what();
          ++conflicts;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(used, 0);
  RecordProperty("conflicts", conflicts);
  take().give_up(layout_, true);
  EXPECT_FALSE(fs::exists(workspace_));
  EXPECT_THAT(traces_of_sessions(root_), IsEmpty());
}

}  // namespace
}  // namespace caisson::local
