// Project quotas: that they bound what is beneath a directory, and nothing else.
#include "os/quota.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/support/forked.h"
#include "tests/support/quota_image.h"
#include "tests/support/temporary_directory.h"

namespace caisson::os {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t project = 1234567;

Fd open_readable(const std::string& path) {
  return Fd::adopt(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

// What a write of that many bytes to a new file answers.
Result<void> write(const std::string& path, std::size_t bytes) {
  const Fd file = Fd::adopt(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  if (!file) return last_error();
  return write_all(file, std::string(bytes, 'x'));
}

class QuotaTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    image_ = std::make_unique<test::QuotaImage>(directory_.path(), GetParam());
    if (!image_->works()) GTEST_SKIP() << image_->reason();
    fs::create_directory(bounded());
    fs::create_directory(free());
  }
  // What a write past a limit fails with.
  static Error full() { return error_of(std::string_view(GetParam()) == "xfs" ? ENOSPC : EDQUOT); }
  std::string bounded() const { return image_->path() + "/bounded"; }
  std::string free() const { return image_->path() + "/free"; }

  test::TemporaryDirectory directory_;
  std::unique_ptr<test::QuotaImage> image_;
};

TEST_P(QuotaTest, S101_BoundsBytesAndFilesBeneathADirectory) {
  const Fd directory = open_readable(bounded());
  EXPECT_EQ(project_of(directory).value(), 0U);
  EXPECT_EQ(project_quota(directory, project).value().limit.bytes, 0U);
  ASSERT_TRUE(set_project(directory, project));
  ASSERT_TRUE(set_project_limit(directory, project, {1 << 20, 8}));
  EXPECT_EQ(project_of(directory).value(), project);
  const auto quota = project_quota(directory, project);
  ASSERT_TRUE(quota);
  EXPECT_EQ(quota->limit.bytes, 1U << 20U);
  EXPECT_EQ(quota->limit.files, 8U);

  const HeldToQuotas held;
  fs::create_directory(bounded() + "/deep");
  EXPECT_EQ(project_of(open_readable(bounded() + "/deep")).value(), project) << "it is inherited";
  EXPECT_TRUE(write(bounded() + "/deep/fits", 512 << 10)) << "the control";
  EXPECT_GE(project_quota(directory, project).value().used.bytes, 512U << 10U);
  EXPECT_EQ(write(bounded() + "/deep/not", 1 << 20).error(), full());
  EXPECT_TRUE(write(free() + "/fits", 4 << 20)) << "elsewhere there is room";
  Result<void> made;
  int count = 0;
  for (; made && count < 10; ++count) made = write(bounded() + "/" + std::to_string(count), 0);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error(), full());
  EXPECT_GT(count, 2) << "the control";
  EXPECT_NE(::link((free() + "/fits").c_str(), (bounded() + "/link").c_str()), 0) << "nor is it evaded";

  ASSERT_TRUE(set_project_limit(directory, project, {}));
  EXPECT_TRUE(write(bounded() + "/deep/fits-now", 2 << 20));
}

TEST_P(QuotaTest, S101_AProcessOfAnotherUserNamespaceCannotLeaveItsProject) {
  ASSERT_TRUE(set_project(open_readable(bounded()), project));
  fs::permissions(bounded(), fs::perms(0777));
  const auto try_it = [&] {
    const auto changed = set_project(open_readable(bounded()), project + 1);
    return std::string(changed ? "changed" : "refused");
  };
  EXPECT_EQ(test::in_child(try_it, CLONE_NEWUSER), "refused");
  EXPECT_EQ(test::in_child(try_it), "changed") << "the control";
}

TEST_P(QuotaTest, AWriterWithTheCapabilityIsHeldToItTheSame) {
  const auto own = own_capabilities();
  if ((own->effective & capability(CAP_SYS_RESOURCE)) == 0) GTEST_SKIP() << "needs CAP_SYS_RESOURCE";
  const Fd directory = open_readable(bounded());
  ASSERT_TRUE(set_project(directory, project));
  ASSERT_TRUE(set_project_limit(directory, project, {1 << 20, 0}));
  if (std::string_view(GetParam()) == "ext4") {
    EXPECT_TRUE(write(bounded() + "/over", 2 << 20)) << "the control: the kernel lets it through";
  }
  const HeldToQuotas held;
  EXPECT_EQ(write(bounded() + "/another", 2 << 20).error(), full());
}

INSTANTIATE_TEST_SUITE_P(On, QuotaTest, testing::Values("ext4", "xfs"),
                         [](const testing::TestParamInfo<const char*>& type) { return type.param; });

TEST(QuotaTestWithout, HeldToQuotasEndsWithItsScope) {
  const auto before = own_capabilities().value();
  {
    const HeldToQuotas held;
    EXPECT_EQ(own_capabilities()->effective, before.effective & ~capability(CAP_SYS_RESOURCE));
    EXPECT_EQ(own_capabilities()->permitted, before.permitted);
  }
  EXPECT_EQ(own_capabilities().value(), before);
}

TEST(QuotaTestWithout, WhereThereAreNoneItIsAnError) {
  const test::TemporaryDirectory directory;
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  const test::QuotaImage plain(directory.path(), "ext4", false);
  if (!plain.works()) GTEST_SKIP() << plain.reason();
  const Fd at = open_readable(plain.path());
  EXPECT_EQ(project_of(at) ? *project_of(at) : 0, 0U);
  EXPECT_FALSE(set_project(at, project));
  EXPECT_FALSE(project_quota(at, project));
  EXPECT_FALSE(set_project_limit(at, project, {1, 1}));
}

}  // namespace
}  // namespace caisson::os
