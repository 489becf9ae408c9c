// A process that is killed anywhere in the life of its sessions leaves nothing that the next one does not put
// right.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "providers/local/root_for_test.h"
#include "tests/crash/scene.h"
#include "tests/support/ways.h"

namespace caisson::test {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

// What a scenario passes depends a little on its other threads.
constexpr int most_tries = 5;

class KillTest : public testing::TestWithParam<kit::TreeKill> {
 protected:
  // What stands on the root when the scenario begins.
  void prepare(Scene& scene, const std::string& scenario) {
    if (scenario == "mounted") {
      ASSERT_TRUE(scene.mount_within_keep());
    }
    if (scenario != "recovery") return;
    ASSERT_TRUE(scene.play("wreck").killed);
    // Another implementation's scratch (S-92), and a wish that outlived its sessions.
    fs::create_directories(scene.unmarked_scratch() + "/deep");
    local::put(scene.root() + "/.tai-sandbox/.caisson/keys/half.remove", "");
    fs::create_directories(scene.root() + "/half/deep");
  }
  void kill_at(const std::string& scenario, const std::string& point, std::size_t passage) {
    SCOPED_TRACE(scenario + " killed at passage " + std::to_string(passage) + " of " + point);
    for (int tries = 0; tries < most_tries; ++tries) {
      Scene scene(GetParam());
      prepare(scene, scenario);
      const Played played = scene.play(scenario, point, passage);
      EXPECT_TRUE(played.killed || played.exit_code == 0) << played.output;
      scene.expect_recovered();
      if (played.killed || HasFailure() || passage > 1) return;
    }
    ADD_FAILURE() << "it never came there";
  }
  // At each point that it passes, or at those of them.
  void kill_everywhere(const std::string& scenario, const std::set<std::string>& only = {}) {
    std::map<std::string, std::size_t> points;
    {
      Scene scene(GetParam());
      prepare(scene, scenario);
      const Played played = scene.play(scenario);
      ASSERT_EQ(played.exit_code, 0) << played.output;
      scene.expect_recovered();
      points = played.passed;
    }
    ASSERT_GT(points.size(), 5U);
    for (const auto& [point, passages] : points) {
      if (!only.empty() && !only.contains(point)) continue;
      for (const std::size_t passage : std::set<std::size_t>{1, passages}) kill_at(scenario, point, passage);
      if (HasFailure()) return;
    }
  }
};

TEST_P(KillTest, S29_WithinALife) { kill_everywhere("life"); }
TEST_P(KillTest, S71_WhileFilesGoToAnotherMount) {
  if (!Scene(GetParam()).mount_within_keep()) GTEST_SKIP() << "needs root, to mount a file system";
  kill_everywhere("mounted", {"put.copy", "put.hidden", "put.rename", "put.renamed"});
}
TEST_P(KillTest, S27_S29_WithinACreateThatFails) { kill_everywhere("failed_create"); }
TEST_P(KillTest, S29_WithinARecovery) { kill_everywhere("recovery"); }

TEST_P(KillTest, TheControlAWreckIsOne) {
  Scene scene(GetParam());
  const Played played = scene.play("wreck");
  ASSERT_TRUE(played.killed) << played.output;
  EXPECT_GE(local::traces_of_sessions(scene.root()).size(), 3U);
  // With shims the processes may be dying already.
  if (GetParam() == kit::TreeKill::cgroup) {
    EXPECT_TRUE(scene.any_process());
  }
  EXPECT_TRUE(fs::exists(scene.root() + "/shared/file")) << "a session that shares it keeps it";
  scene.expect_recovered();
}

TEST(StoppedShim, S94_HearsOfItsOwnersDeath) {
  Scene scene(kit::TreeKill::shim);
  const Played played = scene.play("stopped_shim");
  ASSERT_TRUE(played.killed && played.done("start scratch")) << played.output;
  scene.expect_recovered();
}

TEST(Points, EachIsReachedByAScenario) {
  if (writable_cgroup().empty())
    GTEST_SKIP() << "some are reached with cgroups only, and none can be made here";
  const std::vector<std::string> points = points_in_source();
  ASSERT_GT(points.size(), 40U);
  EXPECT_EQ(std::ranges::adjacent_find(points), points.end()) << "a name stands at two places";
  std::set<std::string> missing(points.begin(), points.end());
  for (const kit::TreeKill way : ways_here()) {
    for (const char* scenario : {"life", "failed_create"}) {
      Scene scene(way);
      for (const auto& [point, passages] : scene.play(scenario).passed) missing.erase(point);
      scene.expect_recovered();
    }
    {
      Scene scene(way);
      if (!scene.mount_within_keep()) GTEST_SKIP() << "needs root, to mount a file system";
      for (const auto& [point, passages] : scene.play("mounted").passed) missing.erase(point);
      scene.expect_recovered();
    }
    Scene scene(way);
    static_cast<void>(scene.play("wreck"));
    fs::create_directories(scene.unmarked_scratch());
    for (const auto& [point, passages] : scene.play("recovery").passed) missing.erase(point);
    scene.expect_recovered();
  }
  EXPECT_THAT(missing, IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(BothWays, KillTest, testing::ValuesIn(ways_here()), name_of_way);

}  // namespace
}  // namespace caisson::test
