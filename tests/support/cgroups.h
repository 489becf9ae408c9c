// Whether this machine has cgroups to test with.
#pragma once

#include <gtest/gtest.h>

#include <string>

namespace caisson::test {

/// Where the cgroup v2 hierarchy is mounted, if this process may make cgroups there: told by the kernel's
/// list of mounts, not by the code under test, so that what finds no cgroup where there are some is seen to
/// fail. Empty: nowhere.
std::string writable_cgroup();

/// Tests that need cgroups: skipped where there are none.
class CgroupTest : public testing::Test {
 protected:
  void SetUp() override;
};

}  // namespace caisson::test
