// Tests of file systems in files: one device for one file, however many ask, and gone with its last user.
#include "os/loop_device.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "os/beneath.h"
#include "os/files.h"
#include "os/mount.h"
#include "os/self.h"
#include "tests/support/eventually.h"
#include "tests/support/forked.h"
#include "tests/support/temporary_directory.h"

namespace caisson::os {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr off_t image_size = 16 << 20;

class LoopDevices : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto works = probe_loop_devices(); !works) GTEST_SKIP() << works.error().text;
  }
  Fd image(const std::string& name = "image") const {
    Fd file = Fd::adopt(::open((directory_ / name).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    EXPECT_EQ(::ftruncate(file.number(), image_size), 0);
    return file;
  }
  Fd ext4(const std::string& name = "image") const {
    Fd file = image(name);
    const auto made = make_ext4(file, 1234, 5678);
    EXPECT_TRUE(made) << made.error().text;
    return file;
  }
  static bool is_gone(FdRef file) {
    return test::eventually([&] { return !find_loop_device(file).value(); }, std::chrono::seconds(5));
  }
  test::TemporaryDirectory directory_;
};

TEST_F(LoopDevices, AFileHasOneHoweverManyAttachIt) {
  const Fd file = image();
  ASSERT_FALSE(find_loop_device(file).value());
  auto first = attach_loop_device(file);
  ASSERT_TRUE(first) << first.error().text;
  EXPECT_EQ(::fcntl(first->device.number(), F_GETFD), FD_CLOEXEC);
  struct stat is = {};
  ASSERT_EQ(::stat(first->path.c_str(), &is), 0);
  EXPECT_EQ(is.st_rdev, first->number);
  const Fd again = image();
  auto second = attach_loop_device(again);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->path, first->path);
  const std::string others = test::in_child([&] {
    const Fd theirs = image();
    const auto device = attach_loop_device(theirs);
    return device ? device->path : device.error().text;
  });
  EXPECT_EQ(others, first->path) << "another process's is found";
  const Fd other = image("other");
  auto apart = attach_loop_device(other);
  ASSERT_TRUE(apart);
  EXPECT_NE(apart->path, first->path) << "the control";
  const auto path = first->path;
  first->device.reset();
  EXPECT_EQ(find_loop_device(file).value()->path, path) << "somebody has it still";
  second->device.reset();
  EXPECT_TRUE(is_gone(file));
}

TEST_F(LoopDevices, AnotherFileOfThatNameHasNone) {
  const Fd file = image();
  const auto device = attach_loop_device(file);
  ASSERT_TRUE(device);
  fs::create_directory(directory_ / "beside");
  const Fd namesake = image("beside/image");
  EXPECT_FALSE(find_loop_device(namesake).value());
  fs::rename(directory_ / "image", directory_ / "beside/image");
  EXPECT_EQ(find_loop_device(file).value()->path, device->path) << "moved it is the same";
  fs::remove(directory_ / "beside/image");
  const Fd later = image();
  EXPECT_FALSE(find_loop_device(later).value()) << "the one of before is removed";
}

TEST_F(LoopDevices, Ext4IsMountedAndIsOfItsSize) {
  const Fd file = ext4();
  auto device = attach_loop_device(file);
  ASSERT_TRUE(device) << device.error().text;
  const auto mount = new_ext4(device->path);
  ASSERT_TRUE(mount) << mount.error().text;
  const auto is = status(*mount);
  EXPECT_EQ(is->st_dev, device->number);
  EXPECT_EQ(is->st_uid, 1234U);
  EXPECT_EQ(is->st_gid, 5678U);
  EXPECT_EQ(names_in(*mount).value(), std::vector<std::string>{"lost+found"});
  struct statvfs size = {};
  ASSERT_EQ(::fstatvfs(mount->number(), &size), 0);
  EXPECT_LT(size.f_blocks * size.f_frsize, std::uint64_t{image_size});
  std::uint32_t kept_for_root = 1;
  ASSERT_TRUE(read_at(file, &kept_for_root, sizeof kept_for_root, 1024 + 8)) << "s_r_blocks_count";
  EXPECT_EQ(kept_for_root, 0U);
  EXPECT_EQ(size.f_flag & (ST_NOSUID | ST_NODEV), unsigned{ST_NOSUID | ST_NODEV});
  EXPECT_GE(size.f_files, std::uint64_t{image_size / 8192});
  const Fd big = Fd::adopt(::openat(mount->number(), "big", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  EXPECT_TRUE(write_all(big, std::string(1 << 20, 'x'))) << "the control";
  EXPECT_EQ(write_all(big, std::string(image_size, 'x')).error(), error_of(ENOSPC));
}

TEST_F(LoopDevices, AMountKeepsItAndASecondMountIsOfTheSame) {
  const Fd file = ext4();
  const auto mount = [&] {
    const auto device = attach_loop_device(file);
    return new_ext4(device->path).value();
  };
  Fd first = mount();
  EXPECT_TRUE(find_loop_device(file).value()) << "its descriptor is closed";
  Fd second = mount();
  EXPECT_TRUE(Fd::adopt(::openat(first.number(), "file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600)));
  EXPECT_TRUE(exists_at(second, "file").value());
  first.reset();
  EXPECT_TRUE(exists_at(second, "file").value());
  second.reset();
  EXPECT_TRUE(is_gone(file));
  const Fd third = mount();
  EXPECT_TRUE(exists_at(third, "file").value()) << "it is on the disk";
}

TEST_F(LoopDevices, WhatCannotBeMadeIsExplained) {
  Fd tiny = Fd::adopt(::open((directory_ / "tiny").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  const auto made = make_ext4(tiny, 0, 0);
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().text, HasSubstr("mkfs.ext4"));
  const Fd file = image();
  const auto device = attach_loop_device(file);
  ASSERT_TRUE(device);
  EXPECT_FALSE(new_ext4(device->path)) << "there is no file system on it";
  const auto directory = open_directory(directory_.path());
  EXPECT_FALSE(attach_loop_device(*directory));
}

TEST_F(LoopDevices, AnotherUserHasNone) {
  if (!is_root()) GTEST_SKIP() << "this user is none that may";
  const Fd file = image();
  const std::string outcome = test::in_child([&] {
    if (::setresuid(65534, 65534, 65534) != 0) return std::string("no other user");
    const auto works = probe_loop_devices();
    const auto device = attach_loop_device(file);
    if (works || device) return std::string("it works");
    return error_of(device.error().number).message();
  });
  EXPECT_EQ(outcome, error_of(EACCES).message());
}

}  // namespace
}  // namespace caisson::os
