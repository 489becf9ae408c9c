// Persistent workspaces shared between sessions and processes (S-25).
#include "kit/workspace_lock.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

#include <atomic>
#include <thread>

#include "os/beneath.h"
#include "os/files.h"
#include "tests/support/faults.h"
#include "tests/support/mounted.h"
#include "tests/support/on_disk.h"
#include "tests/support/temporary_directory.h"

namespace caisson::kit {
namespace {

namespace fs = std::filesystem;
using test::Child;
using test::code_of_call;
using test::entries_of;
using test::error_of_call;
using test::Mounted;
using test::put;
using test::text_of;
using testing::HasSubstr;
using testing::IsEmpty;

[[noreturn]] void fail_store(const std::string& path, const std::string& what, const os::Error& error) {
  throw SandboxError(ErrorCode::root_unusable, path + ": " + what + ": " + error.message());
}

// A store in a directory, which is made if it is not there.
struct StoreInDirectory {
  explicit StoreInDirectory(const std::string& path) {
    for (const char* name : {"", "/records", "/keys"}) fs::create_directories(path + name);
    workspaces = os::open_directory(path).value();
    records = os::open_directory(path + "/records").value();
    keys = os::open_directory(path + "/keys").value();
    store = {path, workspaces, records, keys, fail_store};
  }
  os::Fd workspaces;
  os::Fd records;
  os::Fd keys;
  WorkspaceStore store;
};

class WorkspaceLockTest : public testing::Test {
 protected:
  void make_workspace() {
    fs::create_directories(workspace_);
    put(workspace_ + "/file", "kept");
    put(root_ + "/records/key.json", "{}");
  }
  WorkspaceLock take() { return WorkspaceLock::take(store_, "key"); }
  bool workspace_is_there() const { return fs::exists(workspace_ + "/file"); }

  test::TemporaryDirectory directory_;
  const std::string root_ = directory_ / "root";
  const StoreInDirectory directories_ = StoreInDirectory(root_);
  const WorkspaceStore& store_ = directories_.store;
  const std::string workspace_ = root_ + "/key";
};

TEST_F(WorkspaceLockTest, S25_TheOnlySessionRemovesIt) {
  make_workspace();
  WorkspaceLock only = take();
  only.give_up(store_, true);
  EXPECT_FALSE(fs::exists(workspace_));
  EXPECT_FALSE(fs::exists(root_ + "/records/key.json"));
  EXPECT_THAT(entries_of(root_ + "/keys"), IsEmpty());
}

TEST_F(WorkspaceLockTest, S32_WithoutAWishItStays) {
  make_workspace();
  take().give_up(store_, false);
  EXPECT_TRUE(workspace_is_there());
  EXPECT_TRUE(fs::exists(root_ + "/records/key.json"));
  EXPECT_THAT(entries_of(root_ + "/keys"), IsEmpty());
}

TEST_F(WorkspaceLockTest, S24_AWishMayComeAfterItWasLeft) {
  make_workspace();
  WorkspaceLock only = take();
  only.give_up(store_, false);
  EXPECT_TRUE(workspace_is_there()) << "the control";
  only.give_up(store_, true);
  EXPECT_FALSE(fs::exists(workspace_));
  make_workspace();
  only.give_up(store_, true);
  EXPECT_TRUE(workspace_is_there()) << "it wished once; this is another workspace";
  WorkspaceLock::remove_when_unused(store_, "key");
  EXPECT_FALSE(fs::exists(workspace_));
  EXPECT_THAT(entries_of(root_ + "/keys"), IsEmpty());
}

TEST_F(WorkspaceLockTest, S25_AWishThatCannotBeLookedForIsKept) {
  make_workspace();
  WorkspaceLock first = take();
  WorkspaceLock second = take();
  first.give_up(store_, true);
  {
    const test::Faults faults({test::error_at("files.look", EIO)});
    EXPECT_EQ(code_of_call([&] { static_cast<void>(take()); }), ErrorCode::root_unusable);
  }
  {
    const test::Faults faults({test::error_at("files.look", EIO)});
    EXPECT_EQ(code_of_call([&] { static_cast<void>(WorkspaceLock::take(store_, "other")); }),
              ErrorCode::root_unusable);
    EXPECT_FALSE(fs::exists(root_ + "/keys/other.lock")) << "S-27";
  }
  {
    const test::Faults faults({test::error_at("files.look", EIO)});
    EXPECT_EQ(code_of_call([&] { second.give_up(store_, false); }), ErrorCode::removal_failed);
  }
  second.give_up(store_, false);
  EXPECT_FALSE(fs::exists(workspace_));
  EXPECT_THAT(entries_of(root_ + "/keys"), IsEmpty());
}

TEST_F(WorkspaceLockTest, S25_NeverUnderAnotherAndByTheLast) {
  make_workspace();
  WorkspaceLock first = take();
  WorkspaceLock second = take();
  first.give_up(store_, true);
  EXPECT_TRUE(workspace_is_there());
  EXPECT_TRUE(fs::exists(root_ + "/keys/key.remove"));
  const auto error = error_of_call([&] { take(); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::workspace_conflict);
  EXPECT_THAT(error->what(), HasSubstr("key"));
  second.give_up(store_, false);
  EXPECT_FALSE(fs::exists(workspace_));
  EXPECT_THAT(entries_of(root_ + "/keys"), IsEmpty());
  make_workspace();
  take().give_up(store_, false);
  EXPECT_TRUE(workspace_is_there()) << "the wish is spent";
}

TEST_F(WorkspaceLockTest, S25_NeverUnderAnotherProcess) {
  make_workspace();
  Child other([this] { new WorkspaceLock(take()); });
  take().give_up(store_, true);
  EXPECT_TRUE(workspace_is_there());
  EXPECT_EQ(code_of_call([&] { take(); }), ErrorCode::workspace_conflict);
  other.kill();
  WorkspaceLock next = take();
  EXPECT_FALSE(fs::exists(workspace_))
      << "what the dead process kept alive is removed before the key is used again";
  next.give_up(store_, false);
  EXPECT_THAT(entries_of(root_ + "/keys"), IsEmpty());
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
    const auto error = error_of_call([&] { only.give_up(store_, true); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::removal_failed);
    EXPECT_THAT(error->what(), HasSubstr(workspace_));
    EXPECT_EQ(code_of_call([&] { take(); }), ErrorCode::workspace_conflict);
    EXPECT_EQ(code_of_call([&] { only.give_up(store_, true); }), ErrorCode::removal_failed);
  }
  only.give_up(store_, true);
  EXPECT_FALSE(fs::exists(workspace_));
  EXPECT_THAT(entries_of(root_ + "/keys"), IsEmpty());
}

TEST_F(WorkspaceLockTest, S25_ARetryNeverTakesALaterWorkspace) {
  make_workspace();
  WorkspaceLock first = take();
  {
    const Immutable stays(workspace_ + "/file");
    if (!stays.works()) GTEST_SKIP() << "needs CAP_LINUX_IMMUTABLE and a file system with that flag";
    EXPECT_EQ(code_of_call([&] { first.give_up(store_, true); }), ErrorCode::removal_failed);
  }
  WorkspaceLock later = take();
  EXPECT_FALSE(fs::exists(workspace_)) << "the wish was fulfilled by the next create";
  make_workspace();
  first.give_up(store_, true);
  later.give_up(store_, false);
  EXPECT_TRUE(workspace_is_there());
}

TEST_F(WorkspaceLockTest, S24_AFullDiskDoesNotKeepAWorkspace) {
  fs::remove_all(root_);
  const Mounted mounted(root_, "size=1m,nr_inodes=20");
  if (!mounted.works()) GTEST_SKIP() << "needs CAP_SYS_ADMIN";
  const StoreInDirectory directories(root_);
  const WorkspaceStore& store = directories.store;
  make_workspace();
  WorkspaceLock only = WorkspaceLock::take(store, "key");
  for (int i = 0; std::ofstream(workspace_ + "/" + std::to_string(i)); ++i) continue;
  only.give_up(store, true);
  EXPECT_FALSE(fs::exists(workspace_));
  EXPECT_THAT(entries_of(root_ + "/keys"), IsEmpty());
}

TEST_F(WorkspaceLockTest, S27_AFailedCreateTakesBackOnlyItsOwn) {
  WorkspaceLock failed = take();
  fs::create_directory(workspace_);
  put(root_ + "/records/key.json", "{}");
  WorkspaceLock other = take();
  failed.abandon(store_, true, true);
  EXPECT_TRUE(fs::exists(workspace_)) << "another session has come to use it";
  EXPECT_TRUE(fs::exists(root_ + "/records/key.json"));
  put(workspace_ + "/file", "");
  other.give_up(store_, false);
  WorkspaceLock late = take();
  late.abandon(store_, true, true);
  EXPECT_TRUE(workspace_is_there()) << "or had, and left something";
  EXPECT_TRUE(fs::exists(root_ + "/records/key.json"));
  fs::remove(workspace_ + "/file");
  take().abandon(store_, true, true);
  EXPECT_FALSE(fs::exists(workspace_));
  EXPECT_FALSE(fs::exists(root_ + "/records/key.json"));
  EXPECT_THAT(entries_of(root_ + "/keys"), IsEmpty());
}

// Sessions come and go on one key in several threads, half of them removing it: never is a workspace removed
// while a session uses it, and in the end nothing is left.
// Parts that are files: `<key>.open` while it is in use, `<key>.part`.
class FileParts : public WorkspaceParts {
 public:
  explicit FileParts(const std::string& root) : root_(root) {}
  bool is_empty(const std::string& key) const override {
    // As of a file system that is mounted no longer: nothing can be told of it.
    return fs::exists(root_ + "/" + key + ".open") && fs::is_empty(root_ + "/" + key);
  }
  os::Result<void> close(const std::string& key) const override {
    ++closed;
    if (failing) return os::error_of(EBUSY);
    fs::remove(root_ + "/" + key + ".open");
    return {};
  }
  os::Result<void> remove(const std::string& key) const override {
    EXPECT_FALSE(fs::exists(root_ + "/" + key + ".open")) << "it is closed first";
    EXPECT_TRUE(fs::exists(root_ + "/" + key)) << "its directory goes afterwards";
    fs::remove(root_ + "/" + key + ".part");
    return {};
  }
  bool failing = false;
  mutable int closed = 0;

 private:
  std::string root_;
};

class WorkspacePartsTest : public WorkspaceLockTest {
 protected:
  WorkspacePartsTest() { with_parts_.parts = &parts_; }
  void make_with_parts() {
    fs::create_directories(workspace_);
    for (const char* name : {"/key.open", "/key.part", "/records/key.json"}) put(root_ + name, "");
  }
  bool is_open() const { return fs::exists(root_ + "/key.open"); }
  bool has_parts() const { return fs::exists(root_ + "/key.part"); }
  bool is_gone() const {
    return !has_parts() && !fs::exists(workspace_) && !fs::exists(root_ + "/records/key.json");
  }
  FileParts parts_ = FileParts(root_);
  WorkspaceStore with_parts_ = store_;
};

TEST_F(WorkspacePartsTest, S25_TheLastSessionClosesIt) {
  make_with_parts();
  WorkspaceLock first = WorkspaceLock::take(with_parts_, "key");
  WorkspaceLock last = WorkspaceLock::take(with_parts_, "key");
  first.give_up(with_parts_, false);
  EXPECT_TRUE(is_open()) << "another uses it";
  last.give_up(with_parts_, false);
  EXPECT_FALSE(is_open());
  EXPECT_TRUE(has_parts());
  EXPECT_TRUE(fs::exists(workspace_));
}

TEST_F(WorkspacePartsTest, S25_PartsGoWithIt) {
  make_with_parts();
  WorkspaceLock::take(with_parts_, "key").give_up(with_parts_, true);
  EXPECT_TRUE(is_gone());
  make_with_parts();
  {
    const test::Faults faults({test::error_at("wish.write", ENOSPC)});
    WorkspaceLock::take(with_parts_, "key").give_up(with_parts_, true);
  }
  EXPECT_TRUE(is_gone()) << "also where there is no room for a wish";
}

TEST_F(WorkspacePartsTest, S30_WhatCannotBeClosedIsTypedAndTriedAgain) {
  make_with_parts();
  WorkspaceLock only = WorkspaceLock::take(with_parts_, "key");
  parts_.failing = true;
  EXPECT_EQ(code_of_call([&] { only.give_up(with_parts_, true); }), ErrorCode::removal_failed);
  EXPECT_TRUE(has_parts());
  parts_.failing = false;
  only.give_up(with_parts_, true);
  EXPECT_TRUE(is_gone());
}

TEST_F(WorkspacePartsTest, S27_AFailedCreateTakesBackWhatIsEmptyOnly) {
  make_with_parts();
  WorkspaceLock::take(with_parts_, "key").abandon(with_parts_, true, true);
  EXPECT_TRUE(is_gone());
  make_with_parts();
  put(workspace_ + "/file", "of another session");
  WorkspaceLock::take(with_parts_, "key").abandon(with_parts_, true, true);
  EXPECT_FALSE(is_open());
  EXPECT_TRUE(has_parts() && workspace_is_there() && fs::exists(root_ + "/records/key.json"));
  fs::remove(workspace_ + "/file");
  WorkspaceLock::take(with_parts_, "key").abandon(with_parts_, true, true);
  EXPECT_TRUE(has_parts()) << "another session has closed it, full: what is seen of it now tells nothing";
  EXPECT_TRUE(fs::exists(root_ + "/records/key.json"));
}

TEST_F(WorkspaceLockTest, S25_ManySessionsOnOneKey) {
  std::atomic<int> used = 0;
  std::atomic<int> conflicts = 0;
  std::vector<std::thread> threads;
  for (int number = 0; number < 4; ++number) {
    threads.emplace_back([&, number] {
      for (int round = 0; round < 100; ++round) {
        try {
          WorkspaceLock lock = take();
          static_cast<void>(os::make_directory_at(store_.workspaces, "key", 0755));
          const std::string mine = workspace_ + "/" + std::to_string(number);
          put(mine, "x");
          std::this_thread::yield();
          EXPECT_EQ(text_of(mine), "x");
          ++used;
          lock.give_up(store_, (round + number) % 2 == 0);
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
  take().give_up(store_, true);
  EXPECT_FALSE(fs::exists(workspace_));
  EXPECT_THAT(entries_of(root_ + "/keys"), IsEmpty());
}

}  // namespace
}  // namespace caisson::kit
