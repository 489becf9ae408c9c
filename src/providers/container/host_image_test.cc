// Plans of boxes: which images there are, and what a box is made of (S-101, S-103, D-8).
#include "providers/container/host_image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "os/capabilities.h"
#include "os/id_map.h"
#include "os/user_namespace.h"
#include "tests/support/temporary_directory.h"

namespace caisson::container {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr UidSlot slot{524288, 524288, 65536};

class HostImageTest : public testing::Test {
 protected:
  HostImageTest() {
    settings_.root = temporary_ / "own/root";
    settings_.runtime_directory = temporary_ / "own/run";
    settings_.upper_bytes = 11 << 20;
    settings_.workspace_bytes = 12 << 20;
    settings_.tmp_bytes = 13 << 20;
    settings_.shm_bytes = 14 << 20;
    fs::create_directories(settings_.root);
    fs::create_directories(settings_.runtime_directory);
  }
  std::string refusal(const std::string& name, const UidSlot& ids = slot) {
    const auto image = find_image(name, settings_, ids);
    if (image) return "it is taken";
    return image.error().field + ": " + image.error().message;
  }
  PlannedBox plan(const std::string& image, const BoxShape& shape, os::FdRef ids = {}) {
    return plan_box(settings_, find_image(image, settings_, shape.slot).value(), shape, ids).value();
  }
  static BoxShape shape(const UidSlot& ids = slot) { return {"box", ids, {}, false}; }

  test::TemporaryDirectory temporary_;
  ContainerSettings settings_;
};

template <class Kind>
const Kind* mount_at(const init::BoxPlan& plan, const std::string& target) {
  for (const init::Mount& mount : plan.mounts) {
    const auto* const one = std::get_if<Kind>(&mount);
    if (one != nullptr && one->target == target) return one;
  }
  return nullptr;
}

std::string file_of(const init::BoxPlan& plan, const std::string& path) {
  for (const init::File& file : plan.files) {
    if (file.path == path) return file.contents;
  }
  return "none";
}

std::uint64_t limit_of(const init::BoxPlan& plan, int resource) {
  for (const init::Rlimit& limit : plan.rlimits) {
    if (limit.resource == static_cast<std::uint32_t>(resource) && limit.soft == limit.hard) return limit.hard;
  }
  return 0;
}

TEST_F(HostImageTest, D8_TheImageHostIsThisMachinesProgramsReadOnly) {
  const auto [plan, attached] = this->plan("host", shape());
  ASSERT_NE(mount_at<init::Bind>(plan, "/usr"), nullptr);
  const init::Bind usr = *mount_at<init::Bind>(plan, "/usr");
  EXPECT_EQ(usr.source, "/usr");
  EXPECT_TRUE(usr.recursive && usr.flags.read_only && usr.flags.nosuid && usr.flags.nodev);
  ASSERT_NE(mount_at<init::Tmpfs>(plan, "/"), nullptr);
  EXPECT_TRUE(mount_at<init::Tmpfs>(plan, "/")->flags.read_only);
  EXPECT_THAT(attached, ElementsAre()) << "never idmapped";
  EXPECT_EQ(plan.capabilities, 0U);
  EXPECT_THAT(file_of(plan, "/etc/passwd"), HasSubstr("root:x:0:0:root:/root:"));
  EXPECT_THAT(file_of(plan, "/etc/group"), HasSubstr("tty:x:5:"));
  EXPECT_THAT(file_of(plan, "/etc/hosts"), HasSubstr("localhost"));
  EXPECT_EQ(file_of(plan, "/etc/hostname"), "box\n");
  EXPECT_EQ(file_of(plan, "/etc/resolv.conf"), "");
  EXPECT_EQ(file_of(plan, "/etc/shadow"), "none");
  EXPECT_EQ(plan.user.home, "/root");
  EXPECT_EQ(plan.user.uid, 0U);
  EXPECT_THAT(plan.environment,
              ElementsAre("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"));
  EXPECT_FALSE(plan.seccomp.empty());
}

TEST_F(HostImageTest, S101_WhatIsWritableHasTheSettingsSizes) {
  const auto [plan, attached] = this->plan("host", shape());
  const auto bytes_at = [&built = plan](const char* target) {
    const auto* const mount = mount_at<init::Tmpfs>(built, target);
    return mount == nullptr || mount->inodes == 0 ? 0 : mount->size >> 20U;
  };
  EXPECT_EQ(bytes_at("/root"), 11U);
  EXPECT_EQ(bytes_at("/workspace"), 12U);
  EXPECT_EQ(bytes_at("/tmp"), 13U);
  EXPECT_EQ(bytes_at("/run"), 13U);
  EXPECT_EQ(bytes_at("/var/tmp"), 13U);
  EXPECT_EQ(bytes_at("/dev/shm"), 14U);
  for (const init::Mount& mount : plan.mounts) {
    const auto* const bind = std::get_if<init::Bind>(&mount);
    EXPECT_TRUE(bind == nullptr || bind->flags.read_only) << bind->target;
  }
}

TEST_F(HostImageTest, S101_PartsOfProcAreMaskedOrReadOnly) {
  const auto [plan, attached] = this->plan("host", shape());
  for (const char* path : {"/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/1/autogroup"})
    EXPECT_THAT(plan.masked, Contains(path));
  for (const char* path : {"/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs"})
    EXPECT_THAT(plan.read_only, Contains(path));
}

TEST_F(HostImageTest, S101_ProcessesAreLimitedWhereNoCgroupDoesIt) {
  settings_.pids = 77;
  BoxShape capped = shape();
  EXPECT_EQ(limit_of(plan("host", capped).plan, RLIMIT_NPROC), 77U);
  EXPECT_EQ(limit_of(plan("host", capped).plan, RLIMIT_CORE), 1U);
  capped.pids_capped = true;
  EXPECT_EQ(limit_of(plan("host", capped).plan, RLIMIT_NPROC), 0U);
}

TEST_F(HostImageTest, S103_InitHasTheLastIdOfTheSlotWhereThereIsOne) {
  EXPECT_EQ(plan("host", shape()).plan.ids, (init::Ids{65535, 65535}));
  EXPECT_EQ(plan("host", shape({100000, 100000, 1024})).plan.ids, (init::Ids{1023, 1023}));
  EXPECT_EQ(plan("host", shape({1000, 1000, 1})).plan.ids, (init::Ids{0, 0}));
}

TEST_F(HostImageTest, OtherNamesThanHostAreNone) {
  for (const char* name : {"ubuntu", "host:latest", "./here", "HOST", "docker.io/library/debian"}) {
    EXPECT_THAT(refusal(name), HasSubstr("image: image \"")) << name;
    EXPECT_THAT(refusal(name), HasSubstr("name host")) << name;
  }
  EXPECT_EQ(refusal("host"), "it is taken");
  EXPECT_THROW(find_image("ubuntu", settings_, slot).value(), SandboxSpecRejectedError);
}

TEST_F(HostImageTest, ADirectoryIsAnImage) {
  fs::create_directory(temporary_ / "image");
  std::ofstream(temporary_ / "file") << "";
  EXPECT_EQ(refusal(temporary_ / "image"), "it is taken");
  fs::create_directory_symlink(temporary_ / "image", temporary_ / "link");
  EXPECT_EQ(find_image(temporary_ / "link", settings_, slot)->path, temporary_ / "image");
  EXPECT_THAT(refusal(temporary_ / "missing"), HasSubstr("image: "));
  EXPECT_THAT(refusal(temporary_ / "file"), HasSubstr("Not a directory"));
}

TEST_F(HostImageTest, S102_ADirectoryWithOthersFilesIsNoImage) {
  fs::create_directories(settings_.root + "/volumes");
  fs::create_directory(temporary_ / "own/image");
  fs::create_directory_symlink("/", temporary_ / "top");
  EXPECT_EQ(refusal(temporary_ / "own/image"), "it is taken");
  EXPECT_THAT(refusal("/"), HasSubstr("own root"));
  EXPECT_THAT(refusal(temporary_ / "top"), HasSubstr("own root"));
  EXPECT_THAT(refusal(temporary_ / "own"), HasSubstr("CAISSON_ROOT"));
  EXPECT_THAT(refusal(settings_.root), HasSubstr("CAISSON_ROOT"));
  EXPECT_THAT(refusal(settings_.root + "/volumes"), HasSubstr("CAISSON_ROOT"));
  EXPECT_THAT(refusal(temporary_ / "own/run"), HasSubstr("CAISSON_RUNTIME_DIR"));
}

TEST_F(HostImageTest, S103_ADirectoryWhoseOwnerHasNoIdInTheBoxIsNoImage) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  const std::string image = temporary_ / "image";
  fs::create_directory(image);
  for (const uid_t owner : {0U, 1000U, 65535U}) {
    ASSERT_EQ(::chown(image.c_str(), owner, owner), 0);
    EXPECT_EQ(refusal(image), "it is taken") << owner;
  }
  for (const uid_t owner : {65536U, 524288U}) {
    ASSERT_EQ(::chown(image.c_str(), owner, 0), 0);
    EXPECT_THAT(refusal(image), HasSubstr("belongs to user " + std::to_string(owner)));
    ASSERT_EQ(::chown(image.c_str(), 0, owner), 0);
    EXPECT_THAT(refusal(image), HasSubstr("group " + std::to_string(owner)));
  }
  EXPECT_EQ(::chown(image.c_str(), 0, 0), 0);
}

TEST_F(HostImageTest, S103_RootOfADirectoryKeepsWhatPackageManagersNeed) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root makes idmapped mounts";
  fs::create_directories(temporary_ / "image/etc");
  std::ofstream(temporary_ / "image/etc/passwd") << "toor:x:0:0::/home/toor:/bin/sh\n";
  const auto ids = os::make_user_namespace({{{0, 524288, 65536}}, {{0, 524288, 65536}}}).value();
  const auto [plan, attached] = this->plan(temporary_ / "image", shape(), ids);
  EXPECT_EQ(plan.user.home, "/home/toor");
  EXPECT_EQ(plan.user.name, "toor");
  EXPECT_EQ(plan.capabilities, os::capability(CAP_CHOWN) | os::capability(CAP_DAC_OVERRIDE) |
                                   os::capability(CAP_FOWNER) | os::capability(CAP_FSETID) |
                                   os::capability(CAP_SETUID) | os::capability(CAP_SETGID) |
                                   os::capability(CAP_KILL));
  ASSERT_NE(mount_at<init::Overlay>(plan, "/"), nullptr);
  EXPECT_EQ(attached.size(), 1U);
  EXPECT_EQ(file_of(plan, "/etc/passwd"), "none") << "it is the image's own";
  settings_.capabilities = false;
  EXPECT_EQ(this->plan(temporary_ / "image", shape(), ids).plan.capabilities, 0U);
}

TEST_F(HostImageTest, RootsHomeIsThePasswordFiles) {
  const auto home = [](std::string_view passwd) { return root_of(passwd).name + " " + root_of(passwd).home; };
  EXPECT_EQ(home(""), "root /root");
  EXPECT_EQ(home("daemon:x:1:1::/sbin:/bin/sh\nadmin:x:0:0::/adm:/bin/sh\nroot:x:0:0::/root:/bin/sh\n"),
            "admin /adm");
  EXPECT_EQ(home("root:x:0:0:root:relative:/bin/sh"), "root /root");
  EXPECT_EQ(home("root:x:0:0:root:/a/../b:/bin/sh"), "root /root");
  EXPECT_EQ(home("root:x:0\nroot"), "root /root");
  EXPECT_EQ(home(std::string(300, 'n') + ":x:0:0::/h:"), "root /h");
}

}  // namespace
}  // namespace caisson::container
