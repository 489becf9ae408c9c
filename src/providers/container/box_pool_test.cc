// Boxes that are made ahead, through the provider that has them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <set>

#include "providers/container/sandbox_bed_test.h"
#include "tests/support/cgroups.h"
#include "tests/support/eventually.h"
#include "tests/support/on_disk.h"

namespace caisson::container {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class BoxPoolTest : public ContainerSandboxTest {
 protected:
  void SetUp() override {
    ContainerSandboxTest::SetUp();
    settings_.pool_size = 2;
  }
  // The ids of those on disk, live sessions' too.
  std::set<std::string> ids() {
    std::set<std::string> all;
    for (const std::string& name : names_in("run/sessions")) all.insert(name.substr(0, name.find('.')));
    return all;
  }
  // Waits until the pool is full, beside so many sessions.
  bool is_full(std::size_t sessions) {
    return test::eventually([&] { return ids().size() == sessions + 2 && all_built(); });
  }
  // The last step of a box is that its ids are recorded, and its init's cgroup is left for it.
  bool all_built() {
    const auto records = ids();
    return std::all_of(records.begin(), records.end(), [&](const std::string& id) {
      return test::text_of(temporary_ / ("run/sessions/" + id + "/session.json")).find("\"ids\"") !=
             std::string::npos;
    });
  }
};

TEST_F(BoxPoolTest, D5_ASessionIsPassedOnAndItsPlaceFilledAgain) {
  const auto first = create();
  ASSERT_TRUE(is_full(1));
  SandboxSessionSpec spec = spec_of(Durability::ephemeral);
  spec.labels = {{"team", "blue"}};
  spec.env.emplace("TOKEN", Secret("canary"));
  std::shared_ptr<SandboxSession> second;
  ASSERT_TRUE(test::eventually([&] {
    const auto waiting = ids();
    second = create(spec.clone());
    return waiting.contains(second->id());
  }));
  EXPECT_EQ(out_of(second, "hostname; echo $TOKEN; pwd; ls"),
            second->id().substr(0, 12) + "\ncanary\n/workspace\n");
  const std::string record = test::text_of(temporary_ / ("run/sessions/" + second->id() + "/session.json"));
  EXPECT_THAT(record, HasSubstr(R"("team":"blue")"));
  EXPECT_THAT(record, Not(HasSubstr("canary"))) << "S-6";
  const auto listed = get(sandbox().list_sessions());
  EXPECT_TRUE(
      std::any_of(listed.begin(), listed.end(), [&](const auto& info) { return info.id == second->id(); }));
  for (const auto& info : listed) get(sandbox().destroy_session(info.id));
  EXPECT_THAT(get(sandbox().list_sessions()), IsEmpty()) << "those that wait are nobody's sessions";
  EXPECT_TRUE(is_full(0));
}

TEST_F(BoxPoolTest, D5_NothingIsMadeAheadOfTheFirstSessionAndNothingIsLeft) {
  static_cast<void>(sandbox());
  EXPECT_THAT(ids(), IsEmpty());
  const auto session = create();
  ASSERT_TRUE(is_full(1));
  sandbox_.reset();
  EXPECT_TRUE(test::eventually([&] { return ids().empty() && names_in("root/ids").empty(); }));
}

// Closed in the middle of it, at whatever moment.
TEST_F(BoxPoolTest, D5_AProviderThatClosesWhileItFillsLeavesNothing) {
  for (int moment = 0; moment < 20; ++moment) {
    const auto session = create();
    std::this_thread::sleep_for(std::chrono::microseconds(500 * moment));
    sandbox_.reset();
    EXPECT_TRUE(test::eventually([&] { return ids().empty() && names_in("root/ids").empty(); })) << moment;
  }
}

TEST_F(BoxPoolTest, S16_WhatIsNotLikeThemIsMadeAsItIsAsked) {
  const auto first = create();
  ASSERT_TRUE(is_full(1));
  const auto waiting = ids();
  SandboxSessionSpec spec = spec_of(Durability::persistent);
  EXPECT_FALSE(waiting.contains(create(spec.clone())->id()));
  spec = spec_of(Durability::ephemeral);
  spec.memory_mb = 64;
  if (test::writable_cgroup().empty()) return;
  EXPECT_FALSE(waiting.contains(create(spec.clone())->id()));
}

TEST_F(BoxPoolTest, ABoxThatHasEndedMeanwhileIsNobodys) {
  if (test::writable_cgroup().empty()) GTEST_SKIP() << "its processes are found by its cgroup";
  const auto first = create();
  ASSERT_TRUE(is_full(1));
  for (const std::string& id : ids()) {
    if (id == first->id()) continue;
    const std::string record = test::text_of(temporary_ / ("run/sessions/" + id + "/session.json"));
    const std::size_t begin = record.find("\"cgroup\":\"") + 10;
    const std::string cgroup = record.substr(begin, record.find('"', begin) - begin);
    test::put(cgroup + "/cgroup.kill", "1");
    // Who has ended and is not reaped yet is in it, and is not named.
    ASSERT_TRUE(test::eventually([&] { return test::text_of(cgroup + "/init/cgroup.procs").empty(); }));
  }
  for (int i = 0; i < 3; ++i) EXPECT_EQ(out_of(create(), "echo alive"), "alive\n");
}

TEST_F(BoxPoolTest, S29_WhatADeadOwnerHadMadeAheadIsRecovered) {
  const pid_t owner = ::fork();
  if (owner == 0) {
    boost::asio::io_context context;
    ContainerOptions options;
    options.executor = context.get_executor();
    options.settings = settings_;
    const auto sandbox = container::open(std::move(options));
    sandbox->bind_policy({Network::egress, Isolation::none, false, true});
    const auto session = boost::asio::co_spawn(
        context, sandbox->create_session(spec_of(Durability::ephemeral)), boost::asio::use_future);
    while (ids().size() < 3 || !all_built()) context.run_for(std::chrono::milliseconds(10));
    ::_exit(0);
  }
  ASSERT_EQ(::waitpid(owner, nullptr, 0), owner);
  EXPECT_EQ(ids().size(), 3U);
  EXPECT_EQ(get(sandbox().recover_orphans()).size(), 0U) << "opening has done it";
  EXPECT_THAT(ids(), IsEmpty());
}

}  // namespace
}  // namespace caisson::container
