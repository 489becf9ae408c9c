// Tests of a Host's trees: watched, signalled, killed, dropped, cancelled.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "caisson/kit/host.h"
#include "kit/host_bed_test.h"
#include "tests/support/async.h"
#include "tests/support/ways.h"

namespace caisson::kit {
namespace {

using caisson::test::eventually;
using caisson::test::guest;
using caisson::test::values_of;
using test::base_path;
using test::HostBed;
using test::plan_of;
using test::Ran;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::UnorderedElementsAre;
namespace asio = boost::asio;

// The same tests for both ways that trees are killed.
class HostTreeTest : public testing::TestWithParam<TreeKill> {
 protected:
  HostBed bed_{GetParam()};
};

INSTANTIATE_TEST_SUITE_P(BothWays, HostTreeTest, testing::ValuesIn(caisson::test::ways_here()),
                         caisson::test::name_of_way);

TEST_P(HostTreeTest, LeaderIsReadableAtItsEnd) {
  ExecPlan plan = plan_of({"cat"});
  plan.input = true;
  StartedExec started = bed_.start(std::move(plan));
  EXPECT_FALSE(started.tree->try_reap());
  EXPECT_FALSE(started.tree->empty());
  bool readable = false;
  started.tree->leader().async_wait(asio::posix::stream_descriptor::wait_read,
                                    [&](const boost::system::error_code& error) { readable = !error; });
  bed_.context.restart();
  bed_.context.poll();
  EXPECT_FALSE(readable);
  started.in.close();
  EXPECT_TRUE(caisson::test::run_until(bed_.context, [&] { return readable; }));
  EXPECT_EQ(HostBed::wait_for(*started.tree).exit_code, 0);
  // It is repeated, and a signal after the end does nothing.
  EXPECT_EQ(started.tree->try_reap()->exit_code, 0);
  started.tree->signal(SIGKILL);
  EXPECT_EQ(started.tree->try_reap()->exit_code, 0);
  EXPECT_TRUE(HostBed::finish(started));
}

TEST_P(HostTreeTest, S64_SignalReachesTheLeader) {
  StartedExec started =
      bed_.start(plan_of({"sh", "-c", "trap 'exit 9' USR1; echo ready; while :; do sleep 0.01; done"}));
  EXPECT_THAT(HostBed::read_until(started.out, "ready"), HasSubstr("ready"));
  started.tree->signal(SIGUSR1);
  EXPECT_EQ(HostBed::wait_for(*started.tree).exit_code, 9);
  EXPECT_TRUE(HostBed::finish(started));
}

// S-46, S-94: every shape of tree, its leader there or gone.
TEST_P(HostTreeTest, S46_S94_KillEndsTheWholeTree) {
  for (const char* leader : {"stay", "leave"}) {
    StartedExec started = bed_.start(plan_of({guest("guest_tree"), leader, "plain", "setsid", "double",
                                              "deep", "ignore", "stop", "silent", "flood", "relay"}));
    const std::string output = HostBed::read_until(started.out, "ready");
    const auto tree = caisson::test::watch_all(output);
    ASSERT_EQ(tree.size(), 13u) << output;
    if (leader == std::string("leave")) {
      EXPECT_EQ(HostBed::wait_for(*started.tree).exit_code, 0);
    }
    EXPECT_FALSE(caisson::test::any_ended(tree));
    EXPECT_FALSE(started.tree->empty());
    started.tree->kill();
    EXPECT_TRUE(caisson::test::all_ended(tree, std::chrono::seconds(10)));
    if (leader == std::string("stay")) {
      EXPECT_EQ(HostBed::wait_for(*started.tree).signal, SIGKILL);
    }
    EXPECT_TRUE(HostBed::finish(started));
  }
}

// S-65: a tree that is dropped goes, whether its leader has gone before or not.
TEST_P(HostTreeTest, S65_DroppingATreeEndsItWithoutBlocking) {
  for (const char* leader : {"stay", "leave"}) {
    StartedExec started = bed_.start(plan_of({guest("guest_tree"), leader, "plain", "setsid", "stop"}));
    const auto tree = caisson::test::watch_all(HostBed::read_until(started.out, "ready"));
    ASSERT_EQ(tree.size(), 3u);
    EXPECT_FALSE(caisson::test::any_ended(tree));
    started.tree.reset();
    EXPECT_TRUE(caisson::test::all_ended(tree, std::chrono::seconds(10)));
  }
}

TEST_P(HostTreeTest, EndOfTheHostEndsWhatWasLeft) {
  StartedExec started = bed_.start(plan_of({guest("guest_tree"), "stay", "setsid", "double"}));
  const auto tree = caisson::test::watch_all(HostBed::read_until(started.out, "ready"));
  ASSERT_EQ(tree.size(), 2u);
  const std::string cgroup = bed_.host->cgroup_path();
  started.tree.reset();
  bed_.box.reset();
  bed_.host.reset();
  EXPECT_TRUE(caisson::test::all_ended(tree, std::chrono::seconds(10)));
  EXPECT_TRUE(cgroup.empty() || !std::filesystem::exists(cgroup));
}

Awaitable<void> start_only(std::shared_ptr<SessionBox> box, std::shared_ptr<const ExecPlan> plan) {
  const auto executor = co_await asio::this_coro::executor;
  StartedExec started = co_await box->start(plan, executor);
  started.tree->kill();
}

TEST_P(HostTreeTest, S52_CancelledStartLeavesNothing) {
  auto plan = std::make_shared<const ExecPlan>(plan_of({"sleep", "1000"}));
  int aborted = 0;
  for (int i = 0; i < 20; ++i) {
    asio::cancellation_signal cancel;
    std::exception_ptr outcome;
    bool done = false;
    bool emitted = false;
    asio::co_spawn(bed_.context, start_only(bed_.box, plan),
                   asio::bind_cancellation_slot(cancel.slot(), [&](std::exception_ptr error) {
                     outcome = error;
                     done = true;
                   }));
    // Once it has begun, and on its executor (docs/decisions/0002): elsewhere it posts what may outlive the
    // signal.
    asio::post(bed_.context, [&] {
      asio::post(bed_.context, [&] {
        cancel.emit(asio::cancellation_type::terminal);
        emitted = true;
      });
    });
    ASSERT_TRUE(caisson::test::run_until(bed_.context, [&] { return done && emitted; }));
    try {
      if (outcome) std::rethrow_exception(outcome);
    } catch (const boost::system::system_error& error) {
      if (error.code() == asio::error::operation_aborted) ++aborted;
    }
  }
  EXPECT_GT(aborted, 0);
}

// Numbers of the processes in a file of /proc or of a cgroup.
std::vector<pid_t> pids_in(const std::filesystem::path& file) {
  std::ifstream stream(file);
  return {std::istream_iterator<pid_t>(stream), {}};
}

// The child that a start has made and that has not run its program yet.
std::vector<pid_t> starting_children(const Host& host) {
  std::vector<pid_t> found;
  const auto children_of = [](pid_t pid) {
    std::vector<pid_t> all;
    std::error_code gone;
    for (const auto& task :
         std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task", gone)) {
      for (const pid_t child : pids_in(task.path() / "children")) all.push_back(child);
    }
    return all;
  };
  if (host.tree_kill() == TreeKill::cgroup) {
    for (const auto& leaf : std::filesystem::directory_iterator(host.cgroup_path())) {
      if (!leaf.is_directory()) continue;
      for (const pid_t child : pids_in(leaf.path() / "cgroup.procs")) found.push_back(child);
    }
  } else {
    for (const pid_t shim : children_of(::getpid())) {
      for (const pid_t child : children_of(shim)) found.push_back(child);
    }
  }
  return found;
}

// S-46: a child that somebody stops before it runs its program holds the worker that starts it, until it is
// killed.
TEST_P(HostTreeTest, S46_CancelEndsAStartThatIsHeld) {
  ExecPlan plan = plan_of({"sleep", "1000"});
  std::string path;
  for (int i = 0; i < 200000; ++i) path += "/n:";
  plan.env.emplace("PATH", path + base_path);
  auto shared = std::make_shared<const ExecPlan>(std::move(plan));
  asio::cancellation_signal cancel;
  std::exception_ptr outcome;
  bool done = false;
  bed_.context.restart();
  asio::co_spawn(bed_.context, start_only(bed_.box, shared),
                 asio::bind_cancellation_slot(cancel.slot(), [&](std::exception_ptr error) {
                   outcome = error;
                   done = true;
                 }));
  bed_.context.poll();
  std::vector<pid_t> children;
  ASSERT_TRUE(eventually([&] { return !(children = starting_children(*bed_.host)).empty(); }));
  const caisson::test::Watched child(children.front());
  ::kill(children.front(), SIGSTOP);
  EXPECT_TRUE(eventually([&] {
    std::ifstream status("/proc/" + std::to_string(children.front()) + "/stat");
    std::string text;
    std::getline(status, text);
    return text.find(") T ") != std::string::npos;
  }));
  bed_.context.restart();
  bed_.context.poll();
  EXPECT_FALSE(done);
  asio::post(bed_.context, [&] { cancel.emit(asio::cancellation_type::terminal); });
  EXPECT_TRUE(caisson::test::run_until(bed_.context, [&] { return done; }));
  EXPECT_TRUE(child.ended(std::chrono::seconds(10)));
  EXPECT_THROW(std::rethrow_exception(outcome), boost::system::system_error);
  EXPECT_EQ(bed_.run(plan_of({"true"})).ended.exit_code, 0);
}

// A command that kills its own cgroup spoils it for the next one.
TEST_P(HostTreeTest, D4_CommandMayKillItsOwnCgroup) {
  if (bed_.host->tree_kill() != TreeKill::cgroup || ::geteuid() != 0)
    return;  // Nothing to kill, or not his to.
  for (int i = 0; i < 3; ++i) {
    ExecPlan plan =
        plan_of({"sh", "-c", "echo 1 > \"$1$(sed -n s/^0:://p /proc/self/cgroup)\"/cgroup.kill", "sh", ""});
    const std::string pool = bed_.host->cgroup_path();
    plan.argv.back() = pool.substr(0, pool.rfind("/caisson/"));
    const Ran ran = bed_.run(std::move(plan));
    EXPECT_EQ(ran.ended.signal, SIGKILL) << ran.err;
    EXPECT_EQ(bed_.run(plan_of({"true"})).ended.exit_code, 0);
  }
}

}  // namespace
}  // namespace caisson::kit
