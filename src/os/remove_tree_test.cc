// Removing trees that somebody else filled (S-30).
#include "os/remove_tree.h"

#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include "os/beneath.h"
#include "os/files.h"
#include "os/self.h"
#include "tests/support/temporary_directory.h"

namespace caisson::os {
namespace {

namespace fs = std::filesystem;

void put(const std::string& path) { std::ofstream(path) << "x"; }

class RemoveTreeTest : public testing::Test {
 protected:
  Result<void> remove(const std::string& name = "tree") const { return remove_tree(at_, name); }
  bool exists(const std::string& name = "tree") const {
    return ::faccessat(at_.number(), name.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
  }

  test::TemporaryDirectory directory_;
  const std::string tree_ = directory_ / "tree";
  const Fd at_ = open_directory(directory_.path()).value();
};

// Runs `body` in a child process as an ordinary user, for root passes every permission check.
bool as_ordinary_user(const std::string& directory, const std::function<bool()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (is_root()) {
      constexpr uid_t nobody = 65534;
      fs::permissions(fs::path(directory).parent_path(), fs::perms(0711));
      if (::chown(directory.c_str(), nobody, nobody) != 0 || ::setgroups(0, nullptr) != 0 ||
          ::setresgid(nobody, nobody, nobody) != 0 || ::setresuid(nobody, nobody, nobody) != 0) {
        ::_exit(2);
      }
    }
    ::_exit(body() ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST_F(RemoveTreeTest, S30_RemovesFilesLinksAndDirectories) {
  fs::create_directories(tree_ + "/a/b/c");
  fs::create_directories(tree_ + "/empty");
  put(tree_ + "/a/b/file");
  put(tree_ + "/a/\xff new\nline");
  fs::create_symlink("nowhere", tree_ + "/a/dangling");
  ASSERT_EQ(::mkfifo((tree_ + "/fifo").c_str(), 0600), 0);
  put(directory_ / "beside");
  EXPECT_TRUE(remove());
  EXPECT_FALSE(exists());
  EXPECT_TRUE(exists("beside"));
}

TEST_F(RemoveTreeTest, WhatIsGoneIsRemoved) {
  EXPECT_TRUE(remove());
  EXPECT_TRUE(remove("no/such"));
}

TEST_F(RemoveTreeTest, AFileOrALinkInItsPlaceGoes) {
  put(tree_);
  EXPECT_TRUE(remove());
  EXPECT_FALSE(exists());
  fs::create_directory(directory_ / "kept");
  put(directory_ / "kept/file");
  fs::create_directory_symlink("kept", tree_);
  EXPECT_TRUE(remove());
  EXPECT_FALSE(exists());
  EXPECT_TRUE(exists("kept/file"));
}

TEST_F(RemoveTreeTest, S30_NeverFollowsALink) {
  fs::create_directories(directory_ / "outside/sub");
  put(directory_ / "outside/file");
  fs::create_directories(tree_ + "/a");
  fs::create_directory_symlink(directory_ / "outside", tree_ + "/a/out");
  fs::create_directory_symlink("../../outside/sub", tree_ + "/a/relative");
  EXPECT_TRUE(remove());
  EXPECT_FALSE(exists());
  EXPECT_TRUE(exists("outside/file"));
  EXPECT_TRUE(exists("outside/sub"));
}

TEST_F(RemoveTreeTest, S30_RemovesDirectoriesWithoutPermission) {
  ASSERT_TRUE(as_ordinary_user(directory_.path(), [this] {
    for (const mode_t mode : {0000U, 0100U, 0200U, 0400U, 0500U, 0600U}) {
      const std::string at = tree_ + "/m" + std::to_string(mode);
      fs::create_directories(at + "/inner/deep");
      put(at + "/file");
      put(at + "/inner/deep/file");
      if (::chmod((at + "/inner/deep").c_str(), 0) != 0 || ::chmod(at.c_str(), mode) != 0) return false;
    }
    if (::chmod(tree_.c_str(), 0) != 0) return false;
    // The control: they are in the way.
    if (::access((tree_ + "/m0/file").c_str(), F_OK) == 0) return false;
    return remove().has_value() && !exists();
  }));
}

TEST_F(RemoveTreeTest, S30_RemovesATreeDeeperThanAPathAndAStack) {
  constexpr int depth = 5000;
  ASSERT_EQ(::mkdir(tree_.c_str(), 0755), 0);
  Fd at = open_directory(tree_).value();
  for (int i = 0; i < depth; ++i) {
    ASSERT_TRUE(make_directory_at(at, "d", 0755));
    ASSERT_TRUE(open_at(at, "file", O_WRONLY | O_CREAT, 0600));
    at = open_at(at, "d", O_PATH | O_DIRECTORY).value();
  }
  at.reset();
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few = {100, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  const Result<void> removed = remove();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(removed) << removed.error().message();
  EXPECT_FALSE(exists());
}

TEST_F(RemoveTreeTest, S30_RemovesManyAndWideDirectories) {
  for (int i = 0; i < 40; ++i) {
    const std::string at = tree_ + "/directory-with-a-name-of-some-length-" + std::to_string(i);
    fs::create_directories(at);
    for (int j = 0; j < 40; ++j) put(at + "/" + std::to_string(j));
  }
  for (int i = 0; i < 1500; ++i) fs::create_directory(tree_ + "/" + std::to_string(i));
  EXPECT_TRUE(remove());
  EXPECT_FALSE(exists());
}

// A file that even its owner cannot remove, until it is destroyed.
class Immutable {
 public:
  explicit Immutable(const std::string& path) : file_(Fd::adopt(::open(path.c_str(), O_RDONLY | O_CLOEXEC))) {
    set(FS_IMMUTABLE_FL);
  }
  ~Immutable() { set(0); }
  bool works() const noexcept { return works_; }

 private:
  void set(unsigned flag) {
    unsigned flags = 0;
    works_ = ::ioctl(file_.number(), FS_IOC_GETFLAGS, &flags) == 0;
    flags = (flags & ~static_cast<unsigned>(FS_IMMUTABLE_FL)) | flag;
    works_ = works_ && ::ioctl(file_.number(), FS_IOC_SETFLAGS, &flags) == 0;
  }
  Fd file_;
  bool works_ = false;
};

TEST_F(RemoveTreeTest, S30_SaysWhatStopsItAndRemovesTheRest) {
  // Deep, so that the levels above are closed and opened again on the way back.
  std::string deep = tree_;
  for (int i = 0; i < 60; ++i) deep += "/d";
  fs::create_directories(deep + "/other");
  fs::create_directories(tree_ + "/more");
  put(deep + "/stays");
  put(tree_ + "/more/file");
  {
    const Immutable stays(deep + "/stays");
    if (!stays.works()) GTEST_SKIP() << "needs CAP_LINUX_IMMUTABLE and a file system with that flag";
    const Result<void> removed = remove();
    ASSERT_FALSE(removed);
    EXPECT_EQ(removed.error().value(), EPERM);
    EXPECT_TRUE(fs::exists(deep + "/stays"));
    EXPECT_FALSE(fs::exists(deep + "/other"));
    EXPECT_FALSE(fs::exists(tree_ + "/more"));
  }
  EXPECT_TRUE(remove()) << "the control: the file alone was in the way";
  EXPECT_FALSE(exists());
}

TEST_F(RemoveTreeTest, S30_NeverCrossesIntoAnotherMount) {
  fs::create_directories(tree_ + "/a/mount");
  put(tree_ + "/a/file");
  if (::mount("tmpfs", (tree_ + "/a/mount").c_str(), "tmpfs", 0, "size=1m") != 0) {
    GTEST_SKIP() << "needs CAP_SYS_ADMIN";
  }
  put(tree_ + "/a/mount/kept");
  const Result<void> removed = remove();
  const bool kept = fs::exists(tree_ + "/a/mount/kept");
  const bool file = fs::exists(tree_ + "/a/file");
  ASSERT_EQ(::umount((tree_ + "/a/mount").c_str()), 0);
  ASSERT_FALSE(removed);
  EXPECT_EQ(removed.error().value(), EXDEV);
  EXPECT_TRUE(kept);
  EXPECT_FALSE(file);
  EXPECT_TRUE(remove());
}

// Runs `turn` on a thread of its own until it is destroyed.
class Meddler {
 public:
  explicit Meddler(std::function<void()> turn)
      : thread_([this, turn = std::move(turn)] {
          while (!stop_) {
            turn();
            ++turns_;
          }
        }) {}
  ~Meddler() {
    stop_ = true;
    thread_.join();
  }
  std::uint64_t turns() const noexcept { return turns_; }

 private:
  std::atomic<bool> stop_ = false;
  std::atomic<std::uint64_t> turns_ = 0;
  std::thread thread_;
};

TEST_F(RemoveTreeTest, S30_EndsWhileSomethingStillWrites) {
  fs::create_directories(tree_ + "/a");
  int next = 0;
  const Meddler writer([&] {
    const std::string name = std::to_string(next++ % 50);
    static_cast<void>(::mkdir((tree_ + "/a/" + name).c_str(), 0755));
    put(tree_ + "/a/" + name + "/file");
  });
  // It removes the tree, or says that it could not; it never hangs and never fails otherwise.
  const Result<void> removed = remove();
  EXPECT_TRUE(removed || removed.error() == error_of(ENOTEMPTY)) << removed.error().message();
}

// A directory under removal changes places with a link out, and is moved out of the tree and back.
TEST_F(RemoveTreeTest, S30_ARaceNeverRemovesWhatIsOutside) {
  fs::create_directories(directory_ / "outside/d/d/d");
  put(directory_ / "outside/file");
  put(directory_ / "outside/d/d/file");
  fs::create_directory_symlink(directory_ / "outside", directory_ / "link");
  // A walk that went up by ".." from where the directory was moved to would remove what is above it. There
  // are more directories of this test above it than levels of the tree above the moved one, so that no
  // failure goes further up.
  const std::string above = directory_ / "above/b/c/d/e";
  fs::create_directories(above);
  put(above + "/file");
  put(directory_ / "above/file");
  for (int round = 0; round < 15; ++round) {
    std::string deep = "/d";
    for (int i = 0; i < 30; ++i) deep += "/d";
    fs::create_directories(tree_ + "/x/y" + deep);
    fs::create_directories(tree_ + "/z" + deep);
    const std::string one = tree_ + "/x/y";
    const std::string link = directory_ / "link";
    const std::string moved = tree_ + "/z/d/d";
    const std::string away = above + "/away";
    {
      const Meddler swapper([&] {
        ::renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, link.c_str(), RENAME_EXCHANGE);
        ::rename(moved.c_str(), away.c_str());
        ::rename(away.c_str(), moved.c_str());
      });
      while (swapper.turns() == 0) std::this_thread::yield();
      static_cast<void>(remove());
    }
    ASSERT_TRUE(exists("outside/file")) << round;
    ASSERT_TRUE(exists("outside/d/d/file")) << round;
    ASSERT_TRUE(fs::exists(above + "/file")) << round;
    ASSERT_TRUE(exists("above/file")) << round;
    ASSERT_TRUE(remove());
    fs::remove_all(away);
    if (!fs::is_symlink(link)) {
      ASSERT_TRUE(remove("link"));
      fs::create_directory_symlink(directory_ / "outside", link);
    }
  }
}

}  // namespace
}  // namespace caisson::os
