// An error anywhere in the life of sessions is typed, is of this call alone, and leaves nothing behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "providers/local/root_for_test.h"
#include "tests/crash/scene.h"
#include "tests/support/faults.h"
#include "tests/support/ways.h"

namespace caisson::test {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::IsEmpty;

// Which codes fit a failure of the file system or the kernel in a step.
std::set<ErrorCode> fitting_codes(std::string_view step) {
  if (step == "open") return {ErrorCode::root_unusable, ErrorCode::unavailable};
  if (step.starts_with("create")) return {ErrorCode::root_unusable, ErrorCode::workspace_conflict};
  if (step.starts_with("destroy") || step.starts_with("release") || step.starts_with("reap"))
    return {ErrorCode::removal_failed};
  if (step.starts_with("grow") || step.starts_with("run") || step.starts_with("start"))
    return {ErrorCode::internal, ErrorCode::invalid_argument};
  return {ErrorCode::internal};
}

// But for what is inside of workspaces.
std::set<std::string> names_on_disk(const std::string& root) {
  std::set<std::string> names;
  for (const char* place :
       {"/", "/.ephemeral/", "/.tai-sandbox/", "/.tai-sandbox/.caisson/", "/.tai-sandbox/.caisson/keys/"}) {
    for (const std::string& name : local::entries_of(root + place)) names.insert(place + name);
  }
  return names;
}

class ErrorTest : public testing::TestWithParam<kit::TreeKill> {
 protected:
  // What the scenario passes when nothing fails, in this process: only that can fail here.
  std::map<std::string, std::size_t> points_of(const std::string& scenario) {
    Scene scene(GetParam());
    prepare(scene, scenario);
    std::set<std::string> news;
    Stage stage = scene.stage();
    stage.say = [&](const std::string& line) { news.insert(line); };
    os::arm_faults(own_faults(scenario));
    test::play(stage, scenario);
    scene.add(news);
    auto points = os::disarm_faults();
    scene.expect_recovered();
    return points;
  }
  void prepare(Scene& scene, const std::string& scenario) {
    if (scenario == "mounted") {
      ASSERT_TRUE(scene.mount_within_keep());
    }
    if (scenario != "recovery") return;
    ASSERT_TRUE(scene.play("wreck").killed);
    fs::create_directories(scene.unmarked_scratch());
  }
  // Plays it with one error. Each step fails typed at most once, and works when it is tried again.
  void fail_at(const std::string& scenario, const os::Fault& fault) {
    SCOPED_TRACE(scenario + " with " + os::error_of(fault.error).message() + " at passage " +
                 std::to_string(fault.first) + " of " + fault.point);
    Scene scene(GetParam());
    prepare(scene, scenario);
    std::set<std::string> news;
    std::size_t failures = 0;
    Stage stage = scene.stage();
    stage.failed = [&](const std::string& step, const SandboxError& error) {
      SCOPED_TRACE(step + ": " + error.what());
      ++failures;
      EXPECT_THAT(fitting_codes(step), Contains(error.code()));
      if (step.starts_with("create")) {
        EXPECT_EQ(names_on_disk(scene.root()), names_before_) << "S-27: a failed create leaves nothing";
      }
    };
    // What is over is over: the same provider goes on as if nothing had been.
    if (scenario != "failed_create") {
      stage.finish = [&](blocking::Sandbox& sandbox) { scene.expect_usable(sandbox); };
    }
    stage.say = [&](const std::string& line) {
      news.insert(line);
      if (line.starts_with("begin create")) names_before_ = names_on_disk(scene.root());
    };
    std::vector<os::Fault> faults = own_faults(scenario);
    faults.push_back(fault);
    os::arm_faults(std::move(faults));
    try {
      test::play(stage, scenario);
    } catch (const std::exception& error) {
      ADD_FAILURE() << "it is not typed, or not over when it is tried again: " << error.what();
    }
    os::disarm_faults();
    EXPECT_LE(failures, 1U);
    // What two failures at once leave of a workspace may stay: a recovery removes none that is persistent.
    if (scenario != "failed_create") scene.add(news);
    scene.expect_recovered(false);
  }
  // Each error at the first passage of each point that no scenario before had; elsewhere, and at the last,
  // one in turn.
  void fail_everywhere(const std::vector<std::string>& scenarios) {
    constexpr int errors[] = {ENOSPC, EMFILE, EACCES, EIO};
    const std::vector<std::string> failing = points_that_fail();
    std::set<std::string> had;
    std::size_t turn = 0;
    for (const std::string& scenario : scenarios) {
      for (const auto& [point, passages] : points_of(scenario)) {
        if (!std::ranges::binary_search(failing, point)) continue;
        const bool is_new = had.insert(point).second && is_thorough(scenario, point);
        for (std::size_t i = 0; is_new && i < std::size(errors); ++i)
          fail_at(scenario, error_at(point.c_str(), errors[i]));
        // What was not killed is waited for as long as a teardown waits, so once with each error is enough.
        const bool again = point != "cgroup.kill" && (!is_new || passages > 1);
        if (again) fail_at(scenario, error_at(point.c_str(), errors[turn++ % std::size(errors)], passages));
        if (HasFailure()) return;
      }
    }
    EXPECT_GT(had.size(), 10U);
  }
  // The points of a life have had their turn there.
  static bool is_thorough(const std::string& scenario, const std::string& point) {
    if (scenario == "recovery" || scenario == "failed_create") return point.starts_with("recover.");
    return scenario != "mounted" || point == "put.copy" || point == "put.hidden";
  }

  std::set<std::string> names_before_;
};

TEST_P(ErrorTest, S21_S27_WithinALife) { fail_everywhere({"keep", "doomed", "scratch", "shared"}); }
TEST_P(ErrorTest, S71_WhileFilesGoToAnotherMount) {
  if (!Scene(GetParam()).mount_within_keep()) GTEST_SKIP() << "needs root, to mount a file system";
  fail_everywhere({"mounted"});
}
TEST_P(ErrorTest, S29_WithinACreateThatFails) { fail_everywhere({"failed_create"}); }
TEST_P(ErrorTest, S29_WithinARecovery) { fail_everywhere({"recovery"}); }

INSTANTIATE_TEST_SUITE_P(BothWays, ErrorTest, testing::ValuesIn(ways_here()), name_of_way);

}  // namespace
}  // namespace caisson::test
