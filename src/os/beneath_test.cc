// Paths under one directory: what is reached, and what never is (S-70, D-6).
#include "os/beneath.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "tests/support/temporary_directory.h"

namespace caisson::os {
namespace {

namespace fs = std::filesystem;

void put(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

std::string text_of(FdRef fd) {
  const Result<std::string> text = read_all(fd, 1 << 20);
  return text ? *text : "error: " + text.error().message();
}

// A workspace with a secret beside it.
class BeneathTest : public testing::Test {
 protected:
  BeneathTest() {
    fs::create_directories(work_ + "/dir/sub");
    fs::create_directory(outside_);
    put(work_ + "/dir/file", "inside");
    put(outside_ + "/file", "secret");
    put(directory_ / "work-too", "secret");
    beneath_.emplace(open_directory(work_).value(), work_);
  }

  std::string read(const std::string& path, int flags = O_RDONLY) const {
    const Result<Fd> fd = beneath_->open(path, flags);
    return fd ? text_of(*fd) : fd.error().message();
  }
  int failure(const std::string& path, int flags = O_RDONLY) const {
    const Result<Fd> fd = beneath_->open(path, flags);
    return fd ? 0 : fd.error().value();
  }
  void link(const std::string& target, const std::string& name) const {
    fs::create_symlink(target, work_ + "/" + name);
  }

  test::TemporaryDirectory directory_;
  const std::string work_ = directory_ / "work";
  const std::string outside_ = directory_ / "outside";
  std::optional<Beneath> beneath_;
};

TEST_F(BeneathTest, S70_OpensRelativePaths) {
  EXPECT_EQ(read("dir/file"), "inside");
  EXPECT_EQ(read("./dir//file"), "inside");
  EXPECT_EQ(read("dir/sub/../file"), "inside");
}

TEST_F(BeneathTest, S70_OpensAbsolutePathsUnderTheDirectory) {
  EXPECT_EQ(read(work_ + "/dir/file"), "inside");
  EXPECT_EQ(read("/" + work_ + "//dir/./file"), "inside");
  EXPECT_EQ(failure(work_, O_PATH), 0);
  EXPECT_EQ(failure(work_ + "/", O_PATH | O_DIRECTORY), 0);
}

TEST_F(BeneathTest, S70_FollowsLinksThatStayInside) {
  link("dir", "relative");
  link(work_ + "/dir", "absolute");
  link(work_ + "/relative/file", "absolute-through-relative");
  link("absolute/file", "relative-through-absolute");
  link(work_ + "/absolute", "absolute-through-absolute");
  fs::create_symlink("../../absolute/file", work_ + "/dir/sub/up");
  for (const char* path :
       {"relative/file", "absolute/file", "absolute-through-relative", "relative-through-absolute",
        "absolute-through-absolute/file", "dir/sub/up", "absolute/../dir/file", "absolute/sub/up"}) {
    EXPECT_EQ(read(path), "inside") << path;
  }
}

TEST_F(BeneathTest, S70_RefusesWhatLeadsOut) {
  ASSERT_EQ(text_of(Fd::adopt(::open((outside_ + "/file").c_str(), O_RDONLY | O_CLOEXEC))), "secret")
      << "the control: it is there to be read";
  link("../outside/file", "relative-file");
  link(outside_ + "/file", "absolute-file");
  link("../outside", "relative-directory");
  link(outside_, "absolute-directory");
  link(work_ + "/absolute-directory", "twice");
  link(work_ + "/../outside", "prefix-and-up");
  link("/proc/self/root", "magic");
  for (const std::string& path :
       {std::string("../outside/file"), std::string("dir/../../outside/file"), outside_ + "/file",
        work_ + "-too", work_ + "/../outside/file", std::string("relative-file"),
        std::string("absolute-file"), std::string("relative-directory/file"),
        std::string("absolute-directory/file"), std::string("twice/file"), std::string("prefix-and-up/file"),
        std::string("magic/etc/passwd"), std::string("/etc/passwd"), std::string(".."), std::string("/")}) {
    EXPECT_EQ(failure(path), EXDEV) << path;
  }
}

TEST_F(BeneathTest, TellsOtherFailuresApart) {
  link("loop", "loop");
  link(work_ + "/absolute-loop", "absolute-loop");
  link("nowhere", "dangling");
  link(work_ + "/nowhere", "absolute-dangling");
  EXPECT_EQ(failure("nowhere"), ENOENT);
  EXPECT_EQ(failure("dangling"), ENOENT);
  EXPECT_EQ(failure("absolute-dangling"), ENOENT);
  EXPECT_EQ(failure("dir/file/x"), ENOTDIR);
  EXPECT_EQ(failure("dir/file/"), ENOTDIR);
  EXPECT_EQ(failure("loop"), ELOOP);
  EXPECT_EQ(failure("absolute-loop"), ELOOP);
  EXPECT_EQ(failure(std::string("dir\0/file", 9)), EINVAL);
  EXPECT_EQ(failure(std::string(256, 'x')), ENAMETOOLONG);
  EXPECT_EQ(failure(std::string(5000, 'x')), ENAMETOOLONG);
  EXPECT_EQ(failure(""), ENOENT);
}

TEST_F(BeneathTest, LeavesAFinalLinkAloneWithNoFollow) {
  link(outside_ + "/file", "out");
  const Result<Fd> fd = beneath_->open("out", O_PATH | O_NOFOLLOW);
  ASSERT_TRUE(fd);
  struct stat is = {};
  ASSERT_EQ(::fstat(fd->number(), &is), 0);
  EXPECT_TRUE(S_ISLNK(is.st_mode));
}

TEST_F(BeneathTest, NamesAreBytes) {
  const std::string name = "\xff\xfe new\nline \x01";
  put(work_ + "/dir/" + name, "bytes");
  const Result<Fd> file = beneath_->open("dir/" + name, O_RDONLY);
  ASSERT_TRUE(file);
  EXPECT_EQ(read_all(*file, 100).value(), "bytes");
}

TEST_F(BeneathTest, S72_NeverBlocksOnAFifo) {
  ASSERT_EQ(::mkfifo((work_ + "/fifo").c_str(), 0600), 0);
  EXPECT_EQ(failure("fifo", O_RDONLY), 0);
  EXPECT_EQ(failure("fifo", O_WRONLY), ENXIO);
}

TEST_F(BeneathTest, S71_MakesParentsWithTheirMode) {
  const mode_t before = ::umask(0077);
  const Result<Beneath::Place> made = beneath_->place_for("new/a/b/name");
  ::umask(before);
  ASSERT_TRUE(made) << made.error().message();
  for (const char* path : {"/new", "/new/a", "/new/a/b"}) {
    struct stat is = {};
    ASSERT_EQ(::stat((work_ + path).c_str(), &is), 0);
    EXPECT_EQ(is.st_mode & 07777, 0755U) << path;
  }
  EXPECT_TRUE(beneath_->place_for("new/a/b/name")) << "what exists is opened";
  EXPECT_TRUE(beneath_->place_for(work_ + "/new/c/name"));
  EXPECT_TRUE(fs::is_directory(work_ + "/new/c"));
}

TEST_F(BeneathTest, MakesParentsThroughLinksThatStayInside) {
  link(work_ + "/dir", "absolute");
  link("dir", "relative");
  EXPECT_TRUE(beneath_->place_for("absolute/x/y/name"));
  EXPECT_TRUE(beneath_->place_for("relative/x/z/name"));
  EXPECT_TRUE(fs::is_directory(work_ + "/dir/x/y"));
  EXPECT_TRUE(fs::is_directory(work_ + "/dir/x/z"));
}

TEST_F(BeneathTest, S70_MakesNothingOutside) {
  link("../outside", "relative");
  link(outside_, "absolute");
  link(outside_ + "/new", "dangling");
  for (const std::string& path :
       {std::string("../outside/new/x"), std::string("relative/new/x"), std::string("absolute/new/x"),
        std::string("dangling/x"), outside_ + "/new/x"}) {
    const Result<Beneath::Place> made = beneath_->place_for(path + "/name");
    ASSERT_FALSE(made) << path;
    EXPECT_EQ(made.error().value(), EXDEV) << path;
    EXPECT_FALSE(beneath_->place_for(path)) << path;
  }
  EXPECT_FALSE(fs::exists(outside_ + "/new"));
  EXPECT_EQ(beneath_->place_for("dir/file/x/name").error().value(), ENOTDIR);
  link("nowhere", "inside-dangling");
  EXPECT_EQ(beneath_->place_for("inside-dangling/x/name").error().value(), ENOENT);
}

// Whether the place is `name` in the directory `directory`.
void expect_place(const Result<Beneath::Place>& place, const std::string& directory,
                  const std::string& name) {
  ASSERT_TRUE(place) << place.error().message();
  EXPECT_EQ(place->name, name);
  struct stat is = {};
  struct stat wanted = {};
  ASSERT_EQ(::fstat(place->directory.number(), &is), 0);
  ASSERT_EQ(::stat(directory.c_str(), &wanted), 0);
  EXPECT_EQ(is.st_ino, wanted.st_ino);
}

TEST_F(BeneathTest, S71_FindsThePlaceOfAWrite) {
  expect_place(beneath_->place_for("new"), work_, "new");
  expect_place(beneath_->place_for("a/b/new"), work_ + "/a/b", "new");
  expect_place(beneath_->place_for(work_ + "/dir/file"), work_ + "/dir", "file");
}

TEST_F(BeneathTest, S71_PlaceFollowsAFinalLink) {
  link("dir/file", "relative");
  link(work_ + "/dir/file", "absolute");
  link("absolute", "chain");
  link("made/later", "dangling");
  fs::create_symlink("../file", work_ + "/dir/sub/up");
  expect_place(beneath_->place_for("relative"), work_ + "/dir", "file");
  expect_place(beneath_->place_for("absolute"), work_ + "/dir", "file");
  expect_place(beneath_->place_for("chain"), work_ + "/dir", "file");
  expect_place(beneath_->place_for("dir/sub/up"), work_ + "/dir", "file");
  expect_place(beneath_->place_for("dangling"), work_ + "/made", "later");
}

TEST_F(BeneathTest, S71_PlaceRefusesLinksOutAndDirectories) {
  link("../outside/file", "relative");
  link(outside_ + "/file", "absolute");
  link("loop", "loop");
  link("dir/", "directory");
  for (const char* path : {"relative", "absolute", "../outside/file"}) {
    EXPECT_EQ(beneath_->place_for(path).error().value(), EXDEV) << path;
  }
  EXPECT_EQ(beneath_->place_for("loop").error().value(), ELOOP);
  for (const std::string& path : {std::string("dir/"), std::string("."), std::string("dir/."),
                                  std::string("dir/.."), std::string("directory"), work_}) {
    EXPECT_EQ(beneath_->place_for(path).error().value(), EISDIR) << path;
  }
}

// Exchanges two names, round and round, until it is destroyed.
class Swapper {
 public:
  Swapper(std::string one, std::string other, std::chrono::microseconds pause = {})
      : thread_([this, one = std::move(one), other = std::move(other), pause] {
          while (!stop_) {
            ::renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE);
            ++swaps_;
            const auto next = std::chrono::steady_clock::now() + pause;
            while (std::chrono::steady_clock::now() < next) continue;
          }
        }) {}
  ~Swapper() {
    stop_ = true;
    thread_.join();
  }
  std::uint64_t swaps() const noexcept { return swaps_; }

 private:
  std::atomic<bool> stop_ = false;
  std::atomic<std::uint64_t> swaps_ = 0;
  std::thread thread_;
};

// A directory on the path is exchanged for a link out while it is resolved.
void race(const Beneath& beneath, const std::string& work, const std::string& link_target) {
  fs::create_symlink(link_target, work + "/link");
  std::uint64_t inside = 0;
  std::uint64_t refused = 0;
  {
    const Swapper swapper(work + "/dir", work + "/link");
    for (int round = 0; round < 20000 || inside == 0 || refused == 0; ++round) {
      ASSERT_LT(round, 2000000) << "the race never went both ways";
      const Result<Fd> fd = beneath.open("dir/file", O_RDONLY);
      if (fd) {
        ++inside;
        ASSERT_EQ(text_of(*fd), "inside");
      } else if (fd.error() == error_of(EXDEV)) {
        ++refused;
      }
      const Result<Beneath::Place> place = beneath.place_for("dir/new/x");
      ASSERT_EQ(place ? place->name : "x", "x");
    }
  }
  fs::remove(fs::is_symlink(work + "/link") ? work + "/link" : work + "/dir");
}

TEST_F(BeneathTest, S70_ARaceWithALinkOutNeverEscapes) {
  race(*beneath_, work_, "../outside");
  EXPECT_FALSE(fs::exists(outside_ + "/new"));
}

TEST_F(BeneathTest, S70_ARaceWithAnAbsoluteLinkOutNeverEscapes) {
  race(*beneath_, work_, outside_);
  EXPECT_FALSE(fs::exists(outside_ + "/new"));
}

TEST_F(BeneathTest, S70_RetriesWhileOthersRename) {
  put(directory_ / "one", "");
  put(directory_ / "other", "");
  // Each ".." is a place where the kernel gives up when anything was renamed since it began.
  std::string path;
  for (int i = 0; i < 25; ++i) path += "dir/../";
  path += "dir/file";
  // Without a pause there might be one during each and every try.
  const Swapper swapper(directory_ / "one", directory_ / "other", std::chrono::microseconds(20));
  for (int round = 0; round < 20000 || swapper.swaps() < 20000; ++round) {
    ASSERT_EQ(failure(path), 0) << round;
  }
}

}  // namespace
}  // namespace caisson::os
