// Tests of the descriptor limit.
#include "os/rlimits.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

namespace caisson::os {
namespace {

// In a process of its own, for the limit is raised once a process.
[[noreturn]] void raise_twice() {
  struct rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const rlim_t hard = limit.rlim_max;
  limit.rlim_cur = 256;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  if (original_descriptor_limit().soft != 256) _exit(1);
  const auto before = raise_descriptor_limit();
  if (!before || before->soft != 256 || before->hard != hard) _exit(2);
  ::getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur != hard) _exit(3);
  // The host program's later choice is its own.
  limit.rlim_cur = 300;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  const auto again = raise_descriptor_limit();
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const bool kept = again && again->soft == 256 && limit.rlim_cur == 300;
  _exit(kept && original_descriptor_limit().soft == 256 ? 0 : 4);
}

TEST(DescriptorLimitDeathTest, S44_IsRaisedOnceAndTheOriginalRemembered) {
  EXPECT_EXIT(raise_twice(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace caisson::os
