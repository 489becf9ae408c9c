// Every check of the conformance suite over the container provider.
#include <gtest/gtest.h>

#include "cli/container_profile.h"
#include "tests/conformance/names.h"

namespace caisson::test {
namespace {

namespace conformance = kit::conformance;

// Those that look for one session's files from another, or from outside.
bool needs_a_shared_root(const std::string& check) {
  return check == "ephemeral.removed_at_every_end" || check == "release.removes_hostile_tree" ||
         check == "destroy.while_others_write" || check == "reap.goes_on_past_failure" ||
         check == "peer.killed_ephemeral_goes";
}

void expect_passes(const conformance::ConformanceProfile& profile, const std::string& check) {
  const auto results = conformance::run(profile, check);
  ASSERT_EQ(results.size(), 1U);
  EXPECT_EQ(results[0].name, check);
  if (results[0].outcome == conformance::Outcome::not_run &&
      (needs_what_a_machine_may_lack(check) || needs_a_shared_root(check) ||
       (check == "ttl.wall_clock_step" && !profile.advance))) {
    GTEST_SKIP() << results[0].detail;
  }
  EXPECT_EQ(to_string(results[0].outcome), to_string(conformance::Outcome::passed)) << results[0].detail;
}

// The second process is the program itself.
conformance::ConformanceProfile profile_with_peer() {
  auto profile = cli::container_profile(std::make_shared<kit::ManualClock>());
  profile.peer = [](const std::string& root) {
    return std::vector<std::string>{CAISSON_PROGRAM, "conformance", "--isolation",
                                    "container",     "--serve",     root};
  };
  return profile;
}

class ContainerConformance : public testing::TestWithParam<std::string> {};

TEST_P(ContainerConformance, GivenClock) { expect_passes(profile_with_peer(), GetParam()); }

INSTANTIATE_TEST_SUITE_P(Checks, ContainerConformance, testing::ValuesIn(check_names()), name_of);

}  // namespace
}  // namespace caisson::test
