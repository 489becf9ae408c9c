// That every check of the conformance suite can fail: over the local provider with the fault of the check's
// name. And that the decorated provider without a fault still passes it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/conformance/names.h"
#include "tests/conformance/profile.h"

namespace caisson::test {
namespace {

namespace conformance = kit::conformance;
using namespace std::chrono_literals;

conformance::CheckResult run_with(const std::string& check, const std::string& fault,
                                  std::chrono::seconds patience, std::shared_ptr<kit::ManualClock> clock) {
  const auto profile = decorated(profile_with_peer(kit::TreeKill::automatic, clock, fault), fault);
  const auto results = conformance::run(profile, check, {}, patience);
  EXPECT_EQ(results.size(), 1U);
  return results.empty() ? conformance::CheckResult() : results[0];
}

/// On the system's time, or where the check needs one on a clock of the test's.
conformance::CheckResult run_decorated(const std::string& check, const std::string& fault,
                                       std::chrono::seconds patience) {
  auto result = run_with(check, fault, patience, nullptr);
  if (result.outcome != conformance::Outcome::not_run) return result;
  return run_with(check, fault, patience, std::make_shared<kit::ManualClock>());
}

class ConformanceFault : public testing::TestWithParam<std::string> {};

TEST_P(ConformanceFault, FailsItsCheck) {
  // Little patience, since many faults make the check wait for what never comes.
  const auto result = run_decorated(GetParam(), GetParam(), 6s);
  if (needs_what_a_machine_may_lack(GetParam()) && result.outcome == conformance::Outcome::not_run)
    GTEST_SKIP() << result.detail;
  EXPECT_EQ(to_string(result.outcome), to_string(conformance::Outcome::failed));
  EXPECT_THAT(result.detail, Not(testing::HasSubstr("opening the provider")));
  EXPECT_THAT(result.detail, Not(testing::HasSubstr("directory are left behind")));
  RecordProperty("detail", result.detail);
  std::cout << GetParam() << ": " << result.detail << "\n";
}

TEST_P(ConformanceFault, WithoutItTheCheckPasses) {
  const auto result = run_decorated(GetParam(), "", 30s);
  if (needs_what_a_machine_may_lack(GetParam()) && result.outcome == conformance::Outcome::not_run)
    GTEST_SKIP() << result.detail;
  EXPECT_EQ(to_string(result.outcome), to_string(conformance::Outcome::passed)) << result.detail;
}

INSTANTIATE_TEST_SUITE_P(Checks, ConformanceFault, testing::ValuesIn(check_names()), name_of);

}  // namespace
}  // namespace caisson::test
