// Tests of project quotas, on an ext4 made with them where the kernel has any.
#include "os/quota.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <filesystem>
#include <memory>

#include "os/beneath.h"
#include "os/capabilities.h"
#include "os/files.h"
#include "os/self.h"
#include "tests/support/forked.h"
#include "tests/support/quota_disk.h"
#include "tests/support/temporary_directory.h"

namespace caisson::os {
namespace {

namespace fs = std::filesystem;
using testing::AnyOf;

constexpr std::uint32_t project = 524288;
constexpr std::uint64_t mebibyte = 1 << 20;

class ProjectQuotas : public testing::Test {
 protected:
  void SetUp() override {
    if (!disk_.works()) GTEST_SKIP() << disk_.why_not();
    place_ = std::move(*open_directory(disk_.path()));
    directory_ = std::move(*ensure_directory_at(place_, "workspace", 0755));
  }
  // Writes so much to a new file of the workspace; the error that it ends with.
  Error write(const char* name, std::size_t size) const {
    const auto file = open_at(directory_, name, O_WRONLY | O_CREAT, 0644);
    if (!file) return file.error();
    const auto done = write_all(*file, std::string(size, 'x'));
    return done ? Error() : done.error();
  }

  test::QuotaDisk disk_;
  Fd place_;
  Fd directory_;
};

TEST_F(ProjectQuotas, S101_AWorkspaceTakesNoMoreThanItsLimit) {
  ASSERT_EQ(enforces_project_quotas(place_), Result<bool>(true));
  EXPECT_EQ(project_of(directory_).value(), 0U);
  ASSERT_TRUE(set_project(directory_, project));
  EXPECT_EQ(project_of(directory_).value(), project);
  EXPECT_FALSE(write("before", 2 * mebibyte)) << "the control: no limit";
  fs::remove(disk_.path() + "/workspace/before");
  ASSERT_TRUE(limit_project(place_, project, mebibyte, 100));
  const QuotaObedience obedience;
  EXPECT_FALSE(write("small", mebibyte / 2)) << "the control: within the limit";
  EXPECT_THAT(write("big", mebibyte).value(), AnyOf(EDQUOT, ENOSPC));
  const auto quota = project_quota(place_, project);
  ASSERT_TRUE(quota);
  EXPECT_EQ(quota->most_bytes, mebibyte);
  EXPECT_EQ(quota->most_inodes, 100U);
  EXPECT_LE(quota->bytes, mebibyte);
  EXPECT_GT(quota->bytes, mebibyte / 2);
  EXPECT_EQ(quota->inodes, 3U);
  ASSERT_TRUE(limit_project(place_, project, 0, 0));
  EXPECT_FALSE(write("big", 2 * mebibyte));
}

TEST_F(ProjectQuotas, S101_NorMoreFiles) {
  ASSERT_TRUE(set_project(directory_, project));
  ASSERT_TRUE(limit_project(place_, project, mebibyte, 5));
  const QuotaObedience obedience;
  fs::create_directory(disk_.path() + "/workspace/below");
  for (const char* name : {"1", "2", "below/3"}) {
    const int file = ::openat(directory_.number(), name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    EXPECT_GE(file, 0) << name;
    ::close(file);
  }
  EXPECT_THAT(write("4", 0).value(), AnyOf(EDQUOT, ENOSPC));
  EXPECT_EQ(::openat(directory_.number(), "below/4", O_WRONLY | O_CREAT | O_CLOEXEC, 0644), -1)
      << "what is beneath is counted too";
}

TEST_F(ProjectQuotas, S101_ABoxDoesNotGetOutOfItsProject) {
  ASSERT_TRUE(set_project(directory_, project));
  ASSERT_TRUE(set_owner(directory_, 0, 0));
  const std::string outcome = test::in_child(
      [&] {
        const auto changed = set_project(directory_, 0);
        return changed ? std::string("changed") : std::string("refused");
      },
      CLONE_NEWUSER, "0 0 65536");
  EXPECT_EQ(outcome, "refused");
  EXPECT_TRUE(set_project(directory_, project + 1)) << "the control";
}

TEST(ProjectQuotasAbsent, AreNoError) {
  const test::TemporaryDirectory directory;
  const Fd proc = std::move(*open_directory("/proc"));
  EXPECT_EQ(enforces_project_quotas(proc), Result<bool>(false));
  EXPECT_FALSE(project_quota(proc, project));
  EXPECT_FALSE(limit_project(proc, project, mebibyte, 1));
  EXPECT_FALSE(project_of(proc));
}

TEST(QuotaObedienceTest, IsOfAScopeAndOfOneThread) {
  const auto before = own_capabilities();
  ASSERT_TRUE(before);
  {
    const QuotaObedience obedience;
    const QuotaObedience inner;
    EXPECT_EQ(own_capabilities()->effective & capability(CAP_SYS_RESOURCE), 0U);
    EXPECT_EQ(own_capabilities()->permitted, before->permitted);
  }
  EXPECT_EQ(*own_capabilities(), *before);
}

}  // namespace
}  // namespace caisson::os
