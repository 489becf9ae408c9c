// What this kernel can do.
#include "os/probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace caisson::os {
namespace {

TEST(Probe, ReadsAReleasesNumbers) {
  EXPECT_EQ(parse_kernel_version("6.1.0-18-amd64"), (KernelVersion{6, 1}));
  EXPECT_EQ(parse_kernel_version("5.15"), (KernelVersion{5, 15}));
  EXPECT_EQ(parse_kernel_version("6.18.44-x"), (KernelVersion{6, 18}));
  for (const char* none : {"", "6", "6.", "linux", "x.1"}) {
    EXPECT_EQ(parse_kernel_version(none), (KernelVersion{0, 0})) << none;
  }
  EXPECT_LT((KernelVersion{5, 15}), (KernelVersion{6, 1}));
}

// Caisson runs here, so what it requires is here.
TEST(Probe, RequiredFeaturesWorkWhereTheTestsRun) {
  int required = 0;
  for (const KernelFeature& feature : probe_kernel()) {
    if (!feature.required) continue;
    ++required;
    EXPECT_TRUE(feature.works) << feature.name << ": " << feature.works.error().message();
  }
  EXPECT_EQ(required, 4);
  EXPECT_GE(parse_kernel_version(kernel_release()), oldest_kernel);
}

TEST(Probe, TheFirstMissingRequirementIsNamed) {
  EXPECT_EQ(missing_requirement(probe_kernel()), "");
  EXPECT_EQ(missing_requirement({{"new", {6, 15}, false, error_of(ENOSYS)}}), "");
  const std::string missing = missing_requirement({{"old", {5, 3}, true, Result<void>()},
                                                   {"openat2", {5, 6}, true, error_of(ENOSYS)},
                                                   {"clone3", {5, 3}, true, error_of(EPERM)}});
  EXPECT_THAT(missing, testing::HasSubstr("openat2 (Function not implemented)"));
  EXPECT_THAT(missing, testing::HasSubstr("from 5.6 on"));
  EXPECT_THAT(missing, testing::Not(testing::HasSubstr("clone3")));
}

TEST(Probe, WantOfDescriptorsIsNoMissingFeature) {
  const std::string why = missing_requirement({{"openat2", {5, 6}, true, error_of(EMFILE)}});
  EXPECT_THAT(why, testing::HasSubstr("ulimit -n"));
  EXPECT_THAT(why, testing::Not(testing::HasSubstr("seccomp")));
}

TEST(Probe, OptionalFeatureIsNotClaimedByAnOlderKernel) {
  const bool new_enough = parse_kernel_version(kernel_release()) >= KernelVersion{6, 15};
  for (const KernelFeature& feature : probe_kernel()) {
    if (feature.name == "pidfd_exit_info") {
      EXPECT_TRUE(new_enough || !feature.works);
    }
  }
}

}  // namespace
}  // namespace caisson::os
