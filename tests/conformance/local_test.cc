// Every check of the conformance suite over the local provider, with both ways that trees are killed.
#include <gtest/gtest.h>

#include "tests/conformance/names.h"
#include "tests/conformance/profile.h"
#include "tests/support/cgroups.h"

namespace caisson::test {
namespace {

namespace conformance = kit::conformance;

void expect_passes(const conformance::ConformanceProfile& profile, const std::string& check) {
  const auto results = conformance::run(profile, check);
  ASSERT_EQ(results.size(), 1U);
  EXPECT_EQ(results[0].name, check);
  if (results[0].outcome == conformance::Outcome::not_run &&
      (needs_what_a_machine_may_lack(check) || (check == "ttl.wall_clock_step" && !profile.advance))) {
    GTEST_SKIP() << results[0].detail;
  }
  EXPECT_EQ(to_string(results[0].outcome), to_string(conformance::Outcome::passed)) << results[0].detail;
}

class LocalConformance : public testing::TestWithParam<std::string> {};

TEST_P(LocalConformance, Cgroup) {
  if (writable_cgroup().empty()) GTEST_SKIP() << "no cgroup can be made here";
  expect_passes(profile_with_peer(kit::TreeKill::cgroup), GetParam());
}

TEST_P(LocalConformance, Shim) { expect_passes(profile_with_peer(kit::TreeKill::shim), GetParam()); }

TEST_P(LocalConformance, GivenClock) {
  expect_passes(profile_with_peer(kit::TreeKill::automatic, std::make_shared<kit::ManualClock>()),
                GetParam());
}

INSTANTIATE_TEST_SUITE_P(Checks, LocalConformance, testing::ValuesIn(check_names()), name_of);

}  // namespace
}  // namespace caisson::test
