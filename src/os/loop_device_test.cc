// Loop devices, and a file system of ext4 on one.
#include "os/loop_device.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <filesystem>

#include "os/beneath.h"
#include "os/files.h"
#include "os/mount.h"
#include "os/run_program.h"
#include "tests/support/eventually.h"
#include "tests/support/forked.h"
#include "tests/support/temporary_directory.h"

namespace caisson::os {
namespace {

namespace fs = std::filesystem;
using test::eventually;
using testing::HasSubstr;

constexpr off_t image_size = 8 << 20;

class LoopDeviceTest : public testing::Test {
 protected:
  void SetUp() override {
    if (::access("/dev/loop-control", R_OK | W_OK) != 0) GTEST_SKIP() << "needs root and loop devices";
  }
  Fd file(const std::string& name) const {
    Fd made = open_at(at_, name, O_RDWR | O_CREAT, 0600).value();
    EXPECT_EQ(::ftruncate(made.number(), image_size), 0);
    return made;
  }
  static bool found(FdRef file) {
    const auto device = find_loop_device(file);
    return device && device->has_value();
  }

  test::TemporaryDirectory directory_;
  const Fd at_ = open_directory(directory_.path()).value();
};

TEST_F(LoopDeviceTest, IsFoundByItsFileWhileItIsBound) {
  const Fd one = file("one"), other = file("other");
  ASSERT_TRUE(find_loop_device(one)) << find_loop_device(one).error().text;
  EXPECT_FALSE(found(one));
  auto device = make_loop_device(one, "one");
  ASSERT_TRUE(device) << device.error().text;
  EXPECT_FALSE(found(other)) << "another file on the same file system";
  const Fd again = open_at(at_, "one", O_RDONLY).value();
  const auto same = find_loop_device(again);
  ASSERT_TRUE(same && *same);
  EXPECT_EQ((*same)->number, device->number);
  EXPECT_EQ((*same)->path, device->path);
  fs::rename(directory_ / "one", directory_ / "renamed");
  EXPECT_TRUE(found(again)) << "by whatever name";
  const Fd replaced = file("one");
  EXPECT_FALSE(found(replaced)) << "another file of that name";
  device->device.reset();
  EXPECT_TRUE(found(again)) << "somebody has it open";
}

TEST_F(LoopDeviceTest, GoesWithItsLastUser) {
  const Fd image = file("image");
  {
    auto device = make_loop_device(image, "image");
    ASSERT_TRUE(device) << device.error().text;
    ASSERT_TRUE(found(image)) << "the control";
  }
  EXPECT_TRUE(eventually([&] { return !found(image); }));
}

TEST_F(LoopDeviceTest, OneThatShowsAnotherPartIsNotTaken) {
  const Fd image = file("image");
  auto device = make_loop_device(image, "image");
  ASSERT_TRUE(device) << device.error().text;
  ASSERT_TRUE(found(image)) << "the control";
  loop_info64 info{};
  ASSERT_EQ(::ioctl(device->device.number(), LOOP_GET_STATUS64, &info), 0);
  info.lo_offset = 1 << 20;
  ASSERT_EQ(::ioctl(device->device.number(), LOOP_SET_STATUS64, &info), 0);
  const auto partial = find_loop_device(image);
  ASSERT_FALSE(partial);
  EXPECT_EQ(partial.error().number, EBUSY);
  EXPECT_THAT(partial.error().text, HasSubstr("losetup -d"));
}

TEST_F(LoopDeviceTest, OneThatHasNoNodeHereIsNotOverlooked) {
  const Fd image = file("image");
  auto device = make_loop_device(image, "image");
  ASSERT_TRUE(device) << device.error().text;
  const std::string seen = test::in_child(
      [&] {
        if (::mount("tmpfs", "/dev", "tmpfs", 0, nullptr) != 0) return std::string("mount");
        const auto gone = find_loop_device(image);
        const auto other = find_loop_device(file("other"));
        return (gone ? "found" : gone.error().text) + "; " + (other && !*other ? "free" : "not free");
      },
      CLONE_NEWNS);
  EXPECT_THAT(seen, HasSubstr("may be bound to that file"));
  EXPECT_THAT(seen, HasSubstr("; free")) << "the control";
}

TEST_F(LoopDeviceTest, AFileSystemOnItIsBoundedByItsFile) {
  const Fd image = file("image");
  const auto made = run_program({"making a file system",
                                 "e2fsprogs",
                                 "/usr/sbin:/sbin",
                                 {"mkfs.ext4", "-q", "-F", "/proc/self/fd/0"},
                                 image});
  if (!made && made.error().number == ENOENT) GTEST_SKIP() << made.error().text;
  ASSERT_TRUE(made) << made.error().text;
  fs::create_directory(directory_ / "mounted");
  std::optional<Fd> mount;
  {
    auto device = make_loop_device(image, "image");
    ASSERT_TRUE(device) << device.error().text;
    auto mounted = new_ext4(device->path);
    ASSERT_TRUE(mounted) << mounted.error().text;
    ASSERT_TRUE(attach(*mounted, at_, "mounted"));
    EXPECT_EQ(status_at(at_, "mounted").value().st_dev, device->number);
  }
  EXPECT_TRUE(is_mount_at(at_, "mounted").value());
  EXPECT_FALSE(is_mount_at(at_, "image").value());
  EXPECT_EQ(is_mount_at(at_, "none").error().value(), ENOENT);
  struct statvfs is{};
  ASSERT_EQ(::statvfs((directory_ / "mounted").c_str(), &is), 0);
  EXPECT_EQ(is.f_flag & (ST_NOSUID | ST_NODEV), ST_NOSUID | ST_NODEV);
  EXPECT_TRUE(found(image)) << "what is mounted holds it";

  const Fd large =
      Fd::adopt(::open((directory_ / "mounted/large").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  Result<void> written;
  const std::string piece(1 << 20, 'x');
  off_t size = 0;
  for (; written && size <= image_size; size += static_cast<off_t>(piece.size()))
    written = write_all(large, piece);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error(), error_of(ENOSPC));
  EXPECT_GT(size, image_size / 4) << "the control: there was room for some";

  EXPECT_EQ(detach_at(at_, "image").error().number, EINVAL);
  ASSERT_TRUE(detach_at(at_, "mounted"));
  EXPECT_FALSE(is_mount_at(at_, "mounted").value());
  EXPECT_TRUE(found(image)) << "a file in it is open";
}

}  // namespace
}  // namespace caisson::os
