// What keeps persistent workspaces from filling the disk (S-101), and that no file system is mounted twice.
#include "providers/container/workspace_bound.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <linux/sched.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <functional>

#include "os/files.h"
#include "os/loop_device.h"
#include "os/mount.h"
#include "os/quota.h"
#include "os/run_program.h"
#include "providers/container/storage_bed_test.h"
#include "providers/container/volumes.h"
#include "tests/support/eventually.h"
#include "tests/support/mounted.h"
#include "tests/support/quota_image.h"

namespace caisson::container {
namespace {

namespace fs = std::filesystem;
using test::eventually;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr std::size_t piece = 256U << 10U;

// How much can be written to a file before it fails, and what with: "1048576 No space left on device".
struct Filled {
  std::size_t bytes = 0;
  int error = 0;
};
Filled fill(os::FdRef directory, const std::string& name, std::size_t most) {
  Filled filled;
  const auto file = os::open_at(directory, name, O_WRONLY | O_CREAT | O_APPEND, 0644);
  if (!file) return {0, file.error().value()};
  const std::string text(piece, 'x');
  while (filled.bytes < most) {
    const auto count = os::write_some(*file, text.data(), text.size());
    if (!count) {
      filled.error = count.error().value();
      return filled;
    }
    filled.bytes += *count;
  }
  return filled;
}

// As one of the ids of a box, which could not come there by the path.
Filled fill_as(const UidSlot& slot, const std::string& path, const std::string& name, std::size_t most) {
  const os::Fd directory = os::Fd::adopt(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  auto pipe = os::make_pipe().value();
  const pid_t child = ::fork();
  if (child == 0) {
    Filled filled;
    if (::setresgid(slot.first_group, slot.first_group, slot.first_group) == 0 &&
        ::setresuid(slot.first_user, slot.first_user, slot.first_user) == 0) {
      filled = fill(directory, name, most);
    }
    static_cast<void>(!::write(pipe.write.number(), &filled, sizeof filled));
    ::_exit(0);
  }
  Filled filled;
  EXPECT_EQ(::read(pipe.read.number(), &filled, sizeof filled), static_cast<ssize_t>(sizeof filled));
  ::waitpid(child, nullptr, 0);
  return filled;
}

class ImageTest : public testing::Test {
 protected:
  void SetUp() override {
    static const std::string reason = no_images_because();
    if (!reason.empty()) GTEST_SKIP() << reason;
  }
  void TearDown() override {
    for (const std::string& name : entries_of(bed_.root + "/volumes"))
      ::umount2((bed_.root + "/volumes/" + name).c_str(), MNT_DETACH);
  }
  Volume take(char digit, const std::string& key = "key") {
    return Volume::take(storage_, persistent(digit, key));
  }
  bool is_mounted(const std::string& key = "key") const {
    const auto mounted = os::is_mount_at(storage_->layout->volumes, key);
    return mounted && *mounted;
  }
  std::string image() const { return bed_.volume() + ".img"; }
  // The device that it is bound to, by the number of it; 0: none.
  dev_t device() const {
    const auto file = os::open_at(storage_->layout->volumes, "key.img", O_RDONLY);
    const auto found = os::find_loop_device(*file);
    EXPECT_TRUE(found) << found.error().text;
    return *found ? (*found)->number : 0;
  }
  // A check of the file system, which nothing has mounted, finds nothing to put right.
  void expect_sound() const {
    ASSERT_TRUE(eventually([&] { return device() == 0; })) << "it is in use";
    const auto checked =
        os::run_program({"checking", "e2fsprogs", "/usr/sbin:/sbin", {"e2fsck", "-f", "-n", image()}});
    EXPECT_TRUE(checked) << checked.error().text;
  }

  const test::Faults faults_{{test::error_always("bound.quota", ENOTTY)}};
  StorageBed bed_;
  std::shared_ptr<const Storage> storage_ = bed_.open(false);
};

TEST_F(ImageTest, S101_AFullWorkspaceIsNoFullDisk) {
  Volume volume = take('1');
  EXPECT_EQ(volume.bound(), (WorkspaceBound{BoundKind::image, small_bound, 0}));
  EXPECT_THAT(entries_of(volume.path()), IsEmpty()) << "no lost+found is seen";
  EXPECT_THAT(bed_.left(), Contains("root/volumes/key.img"));
  const Filled by_box = fill_as(volume.slot(), volume.path(), "file", 2 * small_bound);
  EXPECT_EQ(by_box.error, ENOSPC);
  EXPECT_GT(by_box.bytes, small_bound / 2) << "the control: there was room for some";
  EXPECT_LE(by_box.bytes, small_bound);
  os::Fd directory = os::open_at(storage_->layout->volumes, "key", O_PATH | O_DIRECTORY).value();
  EXPECT_EQ(fill(directory, "put", 2 * small_bound).error, ENOSPC) << "nor does the host get more";
  directory.reset();
  EXPECT_EQ(fill(storage_->layout->volumes, "control", 2 * small_bound).error, 0);
  fs::remove(bed_.root + "/volumes/control");
  struct stat is = {};
  ASSERT_EQ(::stat(image().c_str(), &is), 0);
  EXPECT_LE(static_cast<std::uint64_t>(is.st_blocks) * 512, small_bound);
  fs::remove(volume.path() + "/file");
  EXPECT_EQ(fill_as(volume.slot(), volume.path(), "again", small_bound / 2).error, 0)
      << "room that comes free";
  volume.give_up(false);
  expect_sound();
}

TEST_F(ImageTest, S101_FilesAreBoundedToo) {
  Volume volume = take('1');
  const os::Fd directory = os::open_at(storage_->layout->volumes, "key", O_PATH | O_DIRECTORY).value();
  std::uint64_t count = 0;
  os::Result<void> made;
  for (; made && count <= small_bound / bytes_per_file; ++count)
    made = os::make_directory_at(directory, std::to_string(count), 0700);
  EXPECT_FALSE(made);
  EXPECT_GT(count, 100U) << "the control";
  volume.give_up(true);
}

TEST_F(ImageTest, S25_ItIsMountedFromTheFirstSessionToTheLast) {
  {
    Volume first = take('1');
    ASSERT_TRUE(is_mounted());
    const dev_t number = device();
    put(first.path() + "/file", "work");
    Volume second = take('2');
    EXPECT_EQ(device(), number);
    first.give_up(false);
    EXPECT_EQ(text_of(second.path() + "/file"), "work");
    second.give_up(false);
  }
  EXPECT_FALSE(is_mounted());
  expect_sound();
  storage_ = bed_.open(false);
  Volume later = take('3');
  EXPECT_EQ(text_of(later.path() + "/file"), "work") << "S-24: it outlives its sessions";
  later.give_up(true);
  EXPECT_THAT(bed_.left(), IsEmpty());
}

TEST_F(ImageTest, S101_TwoMountNamespacesHaveOneFileSystem) {
  // The other process does not see the mounts of this one, nor this its.
  Volume ours = take('1');
  const dev_t number = device();
  Child other([&] {
    if (::unshare(CLONE_NEWNS) != 0 || ::umount2(bed_.volume().c_str(), MNT_DETACH) != 0)
      throw std::runtime_error("no mount namespace");
    const auto storage = bed_.open(false);
    auto* const theirs = new Volume(Volume::take(storage, persistent('2')));
    if (device() != number) throw std::runtime_error("another device");
    put(theirs->path() + "/theirs", "work");
  });
  EXPECT_EQ(text_of(ours.path() + "/theirs"), "work");
  put(ours.path() + "/ours", "work");
  ours.give_up(true);
  EXPECT_TRUE(is_mounted()) << "another uses it";
  EXPECT_EQ(device(), number);
  other.kill();
  EXPECT_TRUE(settle_volume(*storage_, "key"));
  EXPECT_FALSE(is_mounted());
  EXPECT_THAT(bed_.left(), IsEmpty());
}

TEST_F(ImageTest, S101_WhatStillHasItOpenKeepsItsDevice) {
  Volume first = take('1');
  const dev_t number = device();
  put(first.path() + "/file", "work");
  // As a box has it that the kernel has not quite ended.
  auto copy = os::clone_tree(first.path(), false);
  ASSERT_TRUE(copy);
  first.give_up(false);
  ASSERT_FALSE(is_mounted());
  EXPECT_EQ(device(), number);
  Volume second = take('2');
  EXPECT_EQ(device(), number) << "two devices over one image would destroy it";
  EXPECT_EQ(text_of(second.path() + "/file"), "work");
  copy->reset();
  second.give_up(false);
  expect_sound();
}

TEST_F(ImageTest, S101_ProcessesRaceOnOneImage) {
  constexpr int processes = 3, rounds = 8;
  {
    take('1').give_up(false);
  }
  std::vector<pid_t> children;
  for (int process = 0; process < processes; ++process) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child != 0) {
      children.push_back(child);
      continue;
    }
    // One of them has mounts of its own.
    if (process == 0 && ::unshare(CLONE_NEWNS) != 0) ::_exit(3);
    int wrong = 0;
    try {
      const auto storage = bed_.open(false);
      for (int round = 0; round < rounds; ++round) {
        Volume volume = Volume::take(storage, persistent(static_cast<char>('2' + process)));
        const std::string name = volume.path() + "/" + std::to_string(process);
        if (round != 0 && text_of(name) != std::to_string(round - 1)) ++wrong;
        put(name, std::to_string(round));
        if (text_of(name) != std::to_string(round)) ++wrong;
        volume.give_up(false);
      }
    } catch (const std::exception& error) {
      static_cast<void>(!::write(2, error.what(), std::char_traits<char>::length(error.what())));
      ++wrong;
    }
    ::_exit(wrong == 0 ? 0 : 1);
  }
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  static_cast<void>(settle_volume(*storage_, "key"));
  EXPECT_FALSE(is_mounted());
  expect_sound();
  Volume last = take('1');
  for (int process = 0; process < processes; ++process)
    EXPECT_EQ(text_of(last.path() + "/" + std::to_string(process)), std::to_string(rounds - 1));
  last.give_up(true);
  EXPECT_THAT(bed_.left(), IsEmpty());
}

TEST_F(ImageTest, S27_AFailedCreateNeverTakesAnothersFiles) {
  take('1').abandon();
  EXPECT_THAT(bed_.left(), IsEmpty());
  Volume first = take('1');
  {
    Volume second = take('2');
    put(second.path() + "/file", "of another session");
    second.give_up(false);
  }
  first.abandon();
  EXPECT_FALSE(is_mounted());
  Volume third = take('3');
  EXPECT_EQ(text_of(third.path() + "/file"), "of another session");
  fs::remove(third.path() + "/file");
  // It is closed, and what it holds cannot be seen, when the one that made it fails.
  ASSERT_EQ(::umount2(bed_.volume().c_str(), MNT_DETACH), 0);
  third.abandon();
  EXPECT_TRUE(fs::exists(image()));
}

TEST_F(ImageTest, S27_AnErrorOnTheWayLeavesNothing) {
  for (const char* point : {"image.open", "image.name", "image.mount", "volume.directory", "volume.owner"}) {
    {
      const test::Faults fault({test::error_always("bound.quota", ENOTTY), test::error_at(point, EIO, 1),
                                test::error_at(point, EIO, 2)});
      EXPECT_EQ(code_of_call([&] { static_cast<void>(take('1')); }), ErrorCode::root_unusable) << point;
    }
    EXPECT_THAT(bed_.left(), IsEmpty()) << point;
  }
  const test::Faults no_quota({test::error_always("bound.quota", ENOTTY)});
  EXPECT_NO_THROW(take('1').give_up(true)) << "the control";
}

TEST_F(ImageTest, S30_AnImageThatCannotBeClosedIsTypedAndTriedAgain) {
  Volume volume = take('1');
  {
    const test::Faults fault({test::error_at("image.unmount", EIO)});
    EXPECT_EQ(code_of_call([&] { volume.give_up(true); }), ErrorCode::removal_failed);
  }
  {
    const test::Faults fault({test::error_at("image.remove", EIO)});
    EXPECT_EQ(code_of_call([&] { volume.give_up(true); }), ErrorCode::removal_failed);
  }
  volume.give_up(true);
  EXPECT_THAT(bed_.left(), IsEmpty());
}

TEST_F(ImageTest, ALostAndFoundOfTheBoxIsItsOwn) {
  Volume volume = take('1');
  fs::create_directory(volume.path() + "/lost+found");
  ASSERT_EQ(
      ::chown((volume.path() + "/lost+found").c_str(), volume.slot().first_user, volume.slot().first_group),
      0);
  volume.give_up(false);
  Volume later = take('2');
  EXPECT_THAT(entries_of(later.path()), ElementsAre("lost+found"));
  later.give_up(true);
}

TEST_F(ImageTest, S29_WhatOthersMountThereIsNotTakenForIt) {
  take('1').give_up(false);
  {
    const test::Mounted foreign(bed_.volume());
    ASSERT_TRUE(foreign.works());
    const auto error = error_of_call([&] { static_cast<void>(take('2')); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::workspace_conflict);
    EXPECT_THAT(error->what(), HasSubstr("something else is mounted"));
    EXPECT_TRUE(is_mounted()) << "and it stays";
    EXPECT_EQ(code_of_call([&] { Volume::remove_when_unused(*storage_, "key"); }), ErrorCode::removal_failed);
    EXPECT_TRUE(is_mounted());
  }
  EXPECT_TRUE(settle_volume(*storage_, "key"));
  EXPECT_THAT(bed_.left(), IsEmpty());
}

TEST_F(ImageTest, S102_ALinkInPlaceOfAnImageIsNotFollowed) {
  take('1').give_up(false);
  fs::rename(image(), bed_.directory / "elsewhere");
  fs::create_symlink(bed_.directory / "elsewhere", image());
  EXPECT_EQ(code_of_call([&] { static_cast<void>(take('2')); }), ErrorCode::root_unusable);
  EXPECT_FALSE(is_mounted());
  fs::remove(image());
  fs::create_directory(image());
  EXPECT_EQ(code_of_call([&] { static_cast<void>(take('2')); }), ErrorCode::root_unusable);
  fs::remove(image());
  fs::rename(bed_.directory / "elsewhere", image());
  EXPECT_NO_THROW(take('2').give_up(true)) << "the control";
}

class UnboundedTest : public testing::Test {
 protected:
  static std::string refusal(const std::shared_ptr<const Storage>& storage) {
    const auto error = error_of_call([&] { static_cast<void>(Volume::take(storage, persistent('1'))); });
    return error && error->code() == ErrorCode::not_enforceable ? error->what() : "";
  }
  const test::Faults faults_{no_bounds()};
  StorageBed bed_;
};

TEST_F(UnboundedTest, S16_S101_WithoutABoundItIsRefusedUnlessTheOperatorSaysSo) {
  const auto storage = bed_.open(false);
  EXPECT_THAT(refusal(storage),
              AllOf(HasSubstr("provider cannot enforce: durability"),
                    HasSubstr("CAISSON_CONTAINER_UNBOUNDED_DISK=1"), HasSubstr("prjquota")));
  EXPECT_THAT(bed_.left(), IsEmpty()) << "S-27";
  EXPECT_THAT(storage->bounds->description(), HasSubstr("refused"));
  const auto permissive = bed_.open(true);
  EXPECT_THAT(permissive->bounds->description(), HasSubstr("CAISSON_CONTAINER_UNBOUNDED_DISK"));
  Volume volume = Volume::take(permissive, persistent('1'));
  EXPECT_EQ(volume.bound(), WorkspaceBound()) << "the control";
  volume.give_up(false);
  EXPECT_THAT(refusal(storage), HasSubstr("made without a bound")) << "not by a record either";
  EXPECT_TRUE(fs::exists(bed_.volume()));
  Volume::remove_when_unused(*permissive, "key");
  EXPECT_THAT(bed_.left(), IsEmpty());
}

TEST_F(UnboundedTest, S16_AMachineThatIsShortOfSomethingGivesNoUnboundedOne) {
  const test::Faults short_of(
      {test::error_always("bound.quota", ENOTTY), test::error_at("bound.image", EMFILE)});
  const auto permissive = bed_.open(true);
  EXPECT_EQ(code_of_call([&] { static_cast<void>(Volume::take(permissive, persistent('1'))); }),
            ErrorCode::root_unusable);
  EXPECT_THAT(bed_.left(), IsEmpty());
}

TEST(BoundOfAUser, S101_AnOrdinaryUserHasNoneAndIsTold) {
  if (!os::is_root()) GTEST_SKIP() << "is tried as another user by root";
  const StorageBed bed;
  fs::permissions(bed.directory.path(), fs::perms(0777));
  fs::permissions(fs::path(bed.directory.path()).parent_path(), fs::perms(0711));
  auto pipe = os::make_pipe().value();
  const pid_t child = ::fork();
  if (child == 0) {
    std::string words = "it was made";
    try {
      if (::setresgid(65534, 65534, 65534) != 0 || ::setresuid(65534, 65534, 65534) != 0) ::_exit(2);
      static_cast<void>(Volume::take(bed.open(false), persistent('1')));
    } catch (const SandboxError& error) {
      words = error.code() == ErrorCode::not_enforceable ? error.what() : "another error";
    }
    if (bed.left().empty()) Volume::take(bed.open(true), persistent('1')).give_up(true);
    static_cast<void>(os::write_all(pipe.write, words));
    ::_exit(bed.left().empty() ? 0 : 1);
  }
  pipe.write.reset();
  EXPECT_THAT(os::read_all(pipe.read, 4096).value(), HasSubstr("CAISSON_CONTAINER_UNBOUNDED_DISK=1"));
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "nothing is left, and with the setting it is made";
}

class ProjectQuotaTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!os::is_root()) GTEST_SKIP() << "needs root";
    quotas_ = std::make_unique<test::QuotaImage>(bed_.directory.path(), GetParam());
    if (!quotas_->works()) GTEST_SKIP() << quotas_->reason();
    bed_.root = quotas_->path() + "/root";
    storage_ = bed_.open(false);
  }
  static int full() { return std::string_view(GetParam()) == "xfs" ? ENOSPC : EDQUOT; }
  std::uint64_t limit_of(std::uint32_t project) const {
    const auto directory = os::open_at(storage_->layout->volumes, ".", O_RDONLY | O_DIRECTORY);
    return os::project_quota(*directory, project).value().limit.bytes;
  }
  std::vector<std::string> left() const { return entries_of(bed_.root + "/volumes"); }

  StorageBed bed_;
  std::unique_ptr<test::QuotaImage> quotas_;
  std::shared_ptr<const Storage> storage_;
};

TEST_P(ProjectQuotaTest, S101_AFullWorkspaceIsNoFullDisk) {
  Volume volume = Volume::take(storage_, persistent('1'));
  ASSERT_EQ(volume.bound().kind, BoundKind::project_quota);
  EXPECT_EQ(limit_of(volume.bound().project), small_bound);
  EXPECT_THAT(storage_->bounds->description(), HasSubstr("project quotas of 4 MiB"));
  Volume other = Volume::take(storage_, persistent('2', "other"));
  EXPECT_NE(other.bound().project, volume.bound().project);
  const Filled by_box = fill_as(volume.slot(), volume.path(), "file", 2 * small_bound);
  EXPECT_EQ(by_box.error, full());
  EXPECT_GT(by_box.bytes, small_bound / 2) << "the control: there was room for some";
  EXPECT_LE(by_box.bytes, small_bound);
  EXPECT_EQ(fill_as(other.slot(), other.path(), "file", small_bound / 2).error, 0)
      << "the control: of its own";
  {
    const os::HeldToQuotas held;
    const os::Fd directory = os::open_at(storage_->layout->volumes, "key", O_PATH | O_DIRECTORY).value();
    EXPECT_EQ(fill(directory, "put", 2 * small_bound).error, full()) << "nor does the host get more";
  }
  volume.give_up(false);
  storage_ = bed_.open(false, 2 * small_bound);
  Volume later = Volume::take(storage_, persistent('3'));
  EXPECT_EQ(later.bound().bytes, small_bound) << "it keeps the bound that it was made with";
  EXPECT_EQ(fill_as(later.slot(), later.path(), "file", small_bound).error, full());
  const std::uint32_t project = later.bound().project;
  later.give_up(true);
  other.give_up(true);
  EXPECT_EQ(limit_of(project), 0U) << "nothing of it is left";
  EXPECT_THAT(left(), ElementsAre(".keys"));
}

TEST_P(ProjectQuotaTest, S29_ARecordGetsNoOtherProjectsLimitRemoved) {
  Volume volume = Volume::take(storage_, persistent('1'));
  const std::uint32_t project = volume.bound().project;
  const std::uint32_t foreign = project ^ 1U;
  const auto directory = os::open_at(storage_->layout->volumes, ".", O_RDONLY | O_DIRECTORY);
  ASSERT_TRUE(os::set_project_limit(*directory, foreign, {small_bound, 0}));
  std::string text = text_of(bed_.volume() + ".json");
  const std::string number = std::to_string(project);
  put(bed_.volume() + ".json", text.replace(text.find(number), number.size(), std::to_string(foreign)));
  volume.give_up(true);
  EXPECT_EQ(limit_of(foreign), small_bound);
  EXPECT_THAT(left(), ElementsAre(".keys"));
}

TEST_P(ProjectQuotaTest, S101_FilesThatDoNotCountAreRefused) {
  Volume volume = Volume::take(storage_, persistent('1'));
  put(volume.path() + "/file", "");
  volume.give_up(false);
  ASSERT_TRUE(
      os::set_project(os::open_at(storage_->layout->volumes, "key", O_RDONLY | O_DIRECTORY).value(), 7));
  EXPECT_EQ(code_of_call([&] { static_cast<void>(Volume::take(storage_, persistent('2'))); }),
            ErrorCode::workspace_conflict);
  fs::remove(volume.path() + "/file");
  EXPECT_NO_THROW(Volume::take(storage_, persistent('2')).give_up(true)) << "the control: one half made";
}

INSTANTIATE_TEST_SUITE_P(On, ProjectQuotaTest, testing::Values("ext4", "xfs"),
                         [](const testing::TestParamInfo<const char*>& type) { return type.param; });

TEST(ProjectQuotaTestWithout, S101_ALimitThatIsOnlyCountedIsNone) {
  if (!os::is_root()) GTEST_SKIP() << "needs root";
  StorageBed bed;
  const test::QuotaImage plain(bed.directory.path(), "ext4", false);
  if (!plain.works()) GTEST_SKIP() << plain.reason();
  bed.root = plain.path() + "/root";
  const test::Faults no_image({test::error_always("bound.image", EPERM)});
  EXPECT_THAT(bed.open(false)->bounds->description(), HasSubstr("refused"));
}

}  // namespace
}  // namespace caisson::container
