// What doctor looks at.
#include "cli/doctor_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "tests/support/temporary_directory.h"

namespace caisson::cli {
namespace {

using testing::HasSubstr;

kit::SettingSource settings(std::map<std::string, std::string, std::less<>> values) {
  return [values = std::move(values)](std::string_view name) -> std::optional<std::string> {
    const auto found = values.find(name);
    if (found == values.end()) return std::nullopt;
    return found->second;
  };
}

const Finding* find(const std::vector<Finding>& findings, std::string_view name) {
  for (const Finding& finding : findings) {
    if (finding.name == name) return &finding;
  }
  return nullptr;
}

TEST(Doctor, KernelOfTheTestsServes) {
  for (const Finding& finding : examine_kernel())
    EXPECT_NE(finding.status, FindingStatus::problem) << finding.detail;
}

// D-10: what weakens is shown, and loud; the default policy weakens nothing.
TEST(Doctor, D10_ShowsTheWeakeningPolicy) {
  const auto normal = examine_policy(settings({}), true);
  EXPECT_EQ(find(normal, "policy_isolation"), nullptr);
  EXPECT_EQ(find(normal, "root"), nullptr);
  EXPECT_THAT(find(normal, "tier_none")->fix, HasSubstr("TAI_MCP_SANDBOX_ISOLATION=none"));

  const auto weak = examine_policy(settings({{"TAI_MCP_SANDBOX_ISOLATION", "none"}}), true);
  ASSERT_NE(find(weak, "policy_isolation"), nullptr);
  EXPECT_EQ(find(weak, "policy_isolation")->status, FindingStatus::weak);
  EXPECT_EQ(find(weak, "root")->status, FindingStatus::weak);
  EXPECT_EQ(find(examine_policy(settings({{"TAI_MCP_SANDBOX_ISOLATION", "none"}}), false), "root"), nullptr);
}

TEST(Doctor, BadPolicySettingIsAProblemThatNamesIt) {
  const auto findings = examine_policy(settings({{"TAI_MCP_SANDBOX_EGRESS", "wide"}}), false);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings.front().status, FindingStatus::problem);
  EXPECT_THAT(findings.front().detail, HasSubstr("TAI_MCP_SANDBOX_EGRESS"));
}

// S-93: the message names the root.
TEST(Doctor, S93_UnusableRootIsAProblemAUsableOneIsNot) {
  const test::TemporaryDirectory directory;
  const std::string file = directory.path() + "/file";
  std::ofstream(file) << "x";
  const auto good = examine_local_root(settings({{"SANDBOX_LOCAL_ROOT", directory.path() + "/new"}}));
  EXPECT_EQ(good.status, FindingStatus::ok) << good.detail;
  const auto bad = examine_local_root(settings({{"SANDBOX_LOCAL_ROOT", file}}));
  EXPECT_EQ(bad.status, FindingStatus::problem);
  EXPECT_THAT(bad.detail, HasSubstr(file));
  EXPECT_FALSE(bad.fix.empty());
  const auto relative = examine_local_root(settings({{"SANDBOX_LOCAL_ROOT", "relative"}}));
  EXPECT_EQ(relative.status, FindingStatus::problem);
}

TEST(Doctor, EveryProblemAndWeaknessHasAFix) {
  for (const Finding& finding : examine(settings({{"TAI_MCP_SANDBOX_ISOLATION", "none"},
                                                  {"SANDBOX_LOCAL_ROOT", "/proc/none"},
                                                  {"TAI_MCP_SANDBOX_DURABLE", "true"}}))) {
    if (finding.status == FindingStatus::problem || finding.status == FindingStatus::weak) {
      EXPECT_FALSE(finding.fix.empty()) << finding.name;
    }
  }
}

}  // namespace
}  // namespace caisson::cli
