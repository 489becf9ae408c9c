// Files of the caller: reading, and replacing atomically.
#include "os/host_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/support/temporary_directory.h"

namespace caisson::os {
namespace {

namespace fs = std::filesystem;

class HostFile : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return (directory_ / name).string(); }
  void make(const std::string& name, const std::string& bytes) const { std::ofstream(path(name)) << bytes; }
  std::string bytes(const std::string& name) const {
    std::ostringstream all;
    all << std::ifstream(path(name)).rdbuf();
    return all.str();
  }
  std::size_t entries() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(directory_), fs::directory_iterator()));
  }
  mode_t mode(const std::string& name) const {
    struct stat status{};
    EXPECT_EQ(::stat(path(name).c_str(), &status), 0);
    return status.st_mode & 07777;
  }

  const test::TemporaryDirectory temporary_;
  const fs::path directory_ = temporary_.path();
};

TEST_F(HostFile, OpenedFileKnowsItsKindModeAndSize) {
  make("a", "12345");
  ASSERT_EQ(::chmod(path("a").c_str(), 0751), 0);
  auto file = open_for_reading(path("a")).value();
  EXPECT_EQ(file.kind, FileKind::regular);
  EXPECT_EQ(file.mode, 0751U);
  EXPECT_EQ(file.size, 5U);
  EXPECT_EQ(open_for_reading(directory_.string()).value().kind, FileKind::directory);
  EXPECT_EQ(open_for_reading("/dev/null").value().kind, FileKind::other);
  EXPECT_EQ(open_for_reading(path("none")).error(), error_of(ENOENT));
}

TEST_F(HostFile, NothingIsSeenBeforeCommit) {
  make("a", "old");
  auto replacement = FileReplacement::begin(path("a")).value();
  ASSERT_TRUE(replacement.write("new"));
  EXPECT_EQ(bytes("a"), "old");
  ASSERT_TRUE(replacement.commit());
  EXPECT_EQ(bytes("a"), "new");
  EXPECT_EQ(entries(), 1U);
}

TEST_F(HostFile, ZerosTakeNoSpace) {
  constexpr std::size_t piece = std::size_t{64} << 10U;
  constexpr std::size_t pieces = 256;
  const std::string zeros(piece, '\0');
  const auto blocks_of = [&](const std::string& name, const std::string& between) {
    auto replacement = FileReplacement::begin(path(name)).value();
    EXPECT_TRUE(replacement.write("head"));
    for (std::size_t i = 0; i < pieces; ++i) EXPECT_TRUE(replacement.write(between));
    EXPECT_TRUE(replacement.commit());
    struct stat status{};
    EXPECT_EQ(::stat(path(name).c_str(), &status), 0);
    return static_cast<std::size_t>(status.st_blocks) * 512;
  };
  EXPECT_LT(blocks_of("sparse", zeros), piece);
  const std::string expected = "head" + std::string(piece * pieces, '\0');
  EXPECT_TRUE(bytes("sparse") == expected) << bytes("sparse").size();
  EXPECT_GE(blocks_of("full", std::string(piece, 'x')), piece * pieces) << "the control";
}

TEST_F(HostFile, DroppedWithoutCommitLeavesNothing) {
  {
    auto replacement = FileReplacement::begin(path("a")).value();
    ASSERT_TRUE(replacement.write("new"));
    EXPECT_EQ(entries(), 1U);
  }
  EXPECT_EQ(entries(), 0U);
}

TEST_F(HostFile, ModeIsTheUmasksOrTheExistingFiles) {
  const mode_t umask_before = ::umask(027);
  auto fresh = FileReplacement::begin(path("fresh")).value();
  ::umask(umask_before);
  ASSERT_TRUE(fresh.commit());
  EXPECT_EQ(mode("fresh"), 0640U);

  make("old", "x");
  ASSERT_EQ(::chmod(path("old").c_str(), 0755), 0);
  auto kept = FileReplacement::begin(path("old")).value();
  ASSERT_TRUE(kept.commit());
  EXPECT_EQ(mode("old"), 0755U);
}

TEST_F(HostFile, SymlinkStaysAndItsTargetIsReplaced) {
  fs::create_directory(path("sub"));
  make("sub/real", "old");
  fs::create_symlink("sub/real", path("link"));
  auto replacement = FileReplacement::begin(path("link")).value();
  ASSERT_TRUE(replacement.write("new"));
  ASSERT_TRUE(replacement.commit());
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(bytes("sub/real"), "new");
}

TEST_F(HostFile, DanglingSymlinkMakesItsTarget) {
  fs::create_symlink(path("made"), path("link"));
  auto replacement = FileReplacement::begin(path("link")).value();
  ASSERT_TRUE(replacement.commit());
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_TRUE(fs::is_regular_file(path("made")));
}

TEST_F(HostFile, SymlinkLoopIsRefused) {
  fs::create_symlink("b", path("a"));
  fs::create_symlink("a", path("b"));
  EXPECT_EQ(FileReplacement::begin(path("a")).error(), error_of(ELOOP));
}

TEST_F(HostFile, WhatIsNoRegularFileIsWrittenToAndStays) {
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  const Fd keep = Fd::adopt(::open(path("fifo").c_str(), O_RDWR | O_CLOEXEC));
  auto replacement = FileReplacement::begin(path("fifo")).value();
  ASSERT_TRUE(replacement.write("x"));
  ASSERT_TRUE(replacement.commit());
  EXPECT_TRUE(fs::is_fifo(path("fifo")));
  EXPECT_EQ(readable_bytes(keep).value(), 1U);
  EXPECT_EQ(FileReplacement::begin(directory_.string()).error(), error_of(EISDIR));
}

// A descriptor's name stands for what is open there: others hold that file, not its name.
TEST_F(HostFile, FileNamedByADescriptorIsWrittenToWhereItStands) {
  make("file", "old");
  const Fd open = Fd::adopt(::open(path("file").c_str(), O_WRONLY | O_CLOEXEC));
  ASSERT_TRUE(write_all(open, "a"));
  struct stat before{};
  ASSERT_EQ(::stat(path("file").c_str(), &before), 0);
  const std::string name = "/fd/" + std::to_string(open.number());
  fs::create_symlink("/proc/self" + name, path("link"));
  for (const std::string& target : {"/proc/self" + name, "/dev" + name, path("link")}) {
    auto replacement = FileReplacement::begin(target).value();
    ASSERT_TRUE(replacement.write("b"));
    ASSERT_TRUE(replacement.commit());
  }
  ASSERT_TRUE(write_all(open, "c"));
  EXPECT_EQ(bytes("file"), "abbbc");
  struct stat after{};
  ASSERT_EQ(::stat(path("file").c_str(), &after), 0);
  EXPECT_EQ(after.st_ino, before.st_ino);
  EXPECT_EQ(entries(), 2U);
}

TEST_F(HostFile, MayWriteDirectoryLooksAtTheNearestThatExists) {
  EXPECT_TRUE(may_write_directory(directory_.string()));
  EXPECT_TRUE(may_write_directory(path("not/there/yet")));
  EXPECT_TRUE(may_write_directory(path("not/there/yet/")));
  make("file", "");
  EXPECT_EQ(may_write_directory(path("file")).error(), error_of(ENOTDIR));
  EXPECT_EQ(may_write_directory(path("file/below")).error(), error_of(ENOTDIR));
}

}  // namespace
}  // namespace caisson::os
