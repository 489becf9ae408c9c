// Tests of the clocks and ids.
#include "os/clock.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>

namespace caisson::os {
namespace {

TEST(Clock, S20_BoottimeAgreesWithTheKernel) {
  double uptime = 0;
  std::ifstream("/proc/uptime") >> uptime;
  const auto now = boottime();
  // /proc/uptime is CLOCK_BOOTTIME cut to hundredths of a second.
  EXPECT_GE(now.count(), static_cast<std::int64_t>(uptime * 1e9) - 20'000'000);
  EXPECT_GE(boottime(), now);
}

TEST(Clock, S20_BootIdIsTheKernels) {
  std::string expected;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> expected;
  EXPECT_EQ(boot_id(), expected);
  EXPECT_EQ(boot_id().size(), 36u);
}

TEST(RandomHexId, S28_Is32LowercaseHexDigitsAndNew) {
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) {
    const std::string id = random_hex_id();
    EXPECT_EQ(id.size(), 32u);
    EXPECT_EQ(id.find_first_not_of("0123456789abcdef"), std::string::npos);
    seen.insert(id);
  }
  EXPECT_EQ(seen.size(), 1000u);
}

}  // namespace
}  // namespace caisson::os
