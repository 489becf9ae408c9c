// Tests of the cgroup place, leaves and their pool.
#include "os/cgroup.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "os/clock.h"
#include "tests/support/cgroups.h"
#include "tests/support/eventually.h"
#include "tests/support/faults.h"
#include "tests/support/guests.h"

namespace caisson::os {
namespace {

using test::Command;
using test::eventually;
using test::guest;
using testing::IsEmpty;

class CgroupPlaceTest : public test::CgroupTest {};
class CgroupPlaceDeathTest : public test::CgroupTest {};
class CgroupLeafTest : public test::CgroupTest {};
class CgroupLeafPoolTest : public test::CgroupTest {};
class RemoveCgroupTreeTest : public test::CgroupTest {};

std::string pool_name() { return std::to_string(::getpid()) + "-" + random_hex_id(); }

CgroupPlace place() {
  auto found = find_cgroup_place();
  if (!found) {
    ADD_FAILURE() << found.error();
    return {};
  }
  return *found;
}

std::unique_ptr<CgroupLeafPool> make_pool(std::size_t ahead = 0) {
  return CgroupLeafPool::create(place(), pool_name(), ahead).value();
}

// A process in a leaf, with what it prints.
struct Started {
  Process process;
  std::string output;
  Fd read_end;
};
Started start_in(const CgroupLeaf& leaf, std::vector<std::string> argv) {
  auto pipe = make_pipe();
  Command command(std::move(argv));
  SpawnPlan plan = command.plan();
  plan.descriptors[1] = pipe->write;
  plan.cgroup = leaf.directory();
  auto process = spawn(plan);
  pipe->write.reset();
  if (!process) {
    ADD_FAILURE() << "spawn: " << process.error().number;
    return {};
  }
  return {std::move(*process), test::read_until(pipe->read, "ready"), std::move(pipe->read)};
}

std::vector<std::string> leaves_of(const CgroupLeafPool& pool) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(pool.path())) {
    if (entry.is_directory()) names.push_back(entry.path().filename());
  }
  return names;
}

// --- the lock of a pool
// ------------------------------------------------------------------------------------------------

TEST_F(CgroupLeafPoolTest, OneThatCannotBeLockedIsNotMade) {
  const std::string name = pool_name();
  const CgroupPlace where = place();
  for (const int error : {EMFILE, EIO}) {
    const test::Faults faults({test::error_at("cgroup.pool_lock", error)});
    const auto pool = CgroupLeafPool::create(where, name, 0);
    ASSERT_FALSE(pool);
    EXPECT_EQ(pool.error(), error_of(error));
    EXPECT_FALSE(std::filesystem::exists(where.directory + "/" + name));
  }
  EXPECT_TRUE(CgroupLeafPool::create(where, name, 0)) << "the control";
}

TEST_F(CgroupLeafPoolTest, IsInUseAsLongAsItLives) {
  auto pool = make_pool();
  const std::string path = pool->path();
  EXPECT_TRUE(cgroup_in_use(path).value());
  pool.reset();
  EXPECT_FALSE(cgroup_in_use(path).value());
}

// --- the place
// ------------------------------------------------------------------------------------------------

TEST(CgroupPosition, FindsTheUnifiedMountOfAHybridHost) {
  const CgroupPosition position = cgroup_position(
      "36 31 0:33 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
      "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:4 - cgroup2 cgroup2 rw\n",
      "9:name=systemd:/elsewhere\n4:memory:/one\n0::/user.slice/a.scope\n");
  EXPECT_EQ(position.mount, "/sys/fs/cgroup/unified");
  EXPECT_EQ(position.own, "/sys/fs/cgroup/unified/user.slice/a.scope");
}

TEST(CgroupPosition, RootOfTheMountIsNotRepeated) {
  const CgroupPosition position =
      cgroup_position("41 31 0:38 /docker/x /mnt/a\\040b rw - cgroup2 cgroup2 rw\n", "0::/docker/x/job\n");
  EXPECT_EQ(position.mount, "/mnt/a b");
  EXPECT_EQ(position.own, "/mnt/a b/job");
  EXPECT_EQ(cgroup_position("41 31 0:38 / /c rw - cgroup2 c rw\n", "0::/\n").own, "/c");
}

TEST(CgroupPosition, CgroupOutsideTheMountIsNone) {
  const CgroupPosition climbs = cgroup_position("41 31 0:38 / /c rw - cgroup2 c rw\n", "0::/../other\n");
  EXPECT_EQ(climbs.mount, "/c");
  EXPECT_EQ(climbs.own, "");
  EXPECT_EQ(cgroup_position("41 31 0:38 /x /c rw - cgroup2 c rw\n", "0::/xy\n").own, "");
  EXPECT_EQ(cgroup_position("36 31 0:33 / /m rw - cgroup cgroup rw\n", "4:memory:/\n").mount, "");
  EXPECT_EQ(cgroup_position("", "").mount, "");
}

TEST_F(CgroupPlaceTest, D4_IsFoundHereAndLeavesNothingBehind) {
  const CgroupPlace found = place();
  EXPECT_TRUE(found.directory.ends_with("/caisson")) << found.directory;
  EXPECT_FALSE(found.how.empty());
}

[[noreturn]] void become_nobody_and_look() {
  if (::setgroups(0, nullptr) != 0 || ::setgid(65534) != 0 || ::setuid(65534) != 0) _exit(2);
  const auto found = find_cgroup_place();
  if (found) _exit(3);
  _exit(found.error().find("may change no cgroup") != std::string::npos ? 0 : 4);
}

TEST_F(CgroupPlaceDeathTest, D4_AnOrdinaryUserWithoutASubtreeIsToldSo) {
  if (::geteuid() != 0) {
    const auto found = find_cgroup_place();
    EXPECT_TRUE(found || !found.error().empty());
    return;
  }
  EXPECT_EXIT(become_nobody_and_look(), testing::ExitedWithCode(0), "");
}

// The subtree of an ordinary user: its directory and cgroup.procs are his, and he sits in it.
[[noreturn]] void use_a_delegated_subtree(const std::string& subtree) {
  std::ofstream(subtree + "/cgroup.procs") << "0" << std::flush;
  if (::chown(subtree.c_str(), 65534, 65534) != 0) _exit(2);
  if (::chown((subtree + "/cgroup.procs").c_str(), 65534, 65534) != 0) _exit(2);
  if (::setgroups(0, nullptr) != 0 || ::setgid(65534) != 0 || ::setuid(65534) != 0) _exit(2);
  const auto found = find_cgroup_place();
  if (!found || found->directory != subtree + "/caisson") _exit(3);
  {
    auto pool = CgroupLeafPool::create(*found, "p", 1);
    if (!pool) _exit(4);
    auto leaf = (*pool)->acquire();
    if (!leaf) _exit(5);
    Command command({"/bin/sleep", "1000"});
    SpawnPlan plan = command.plan();
    plan.cgroup = leaf->directory();
    auto process = spawn(plan);
    if (!process || !leaf->kill()) _exit(6);
    if (process->reap().status->code != SIGKILL) _exit(7);
    (*pool)->give_back(std::move(*leaf));
  }
  _exit(std::filesystem::exists(found->directory) ? 8 : 0);
}

TEST_F(CgroupPlaceDeathTest, D4_AnOrdinaryUsersOwnSubtreeServes) {
  if (::geteuid() != 0)
    return;  // Making a subtree for somebody takes root; the place test above covers a user.
  const CgroupPlace own = place();
  const std::string subtree =
      std::string(std::filesystem::path(own.directory).parent_path()) + "/" + pool_name();
  ASSERT_TRUE(std::filesystem::create_directory(subtree));
  EXPECT_EXIT(use_a_delegated_subtree(subtree), testing::ExitedWithCode(0), "");
  EXPECT_TRUE(remove_cgroup_tree(subtree, std::chrono::seconds(5)));
}

void give_to_nobody(const std::string& cgroup) {
  for (const std::string& path : {cgroup, cgroup + "/cgroup.procs"}) {
    if (::chown(path.c_str(), 65534, 65534) != 0) _exit(2);
  }
}

void become_nobody_in(const std::string& cgroup) {
  std::ofstream(cgroup + "/cgroup.procs") << "0" << std::flush;
  if (::setgroups(0, nullptr) != 0 || ::setgid(65534) != 0 || ::setuid(65534) != 0) _exit(2);
}

// In a user's slice: a unit, which may have a leaf that we are in.
[[noreturn]] void look_from_a_unit(const std::string& slice, const std::string& leaf) {
  const std::string unit = slice + "/a.scope";
  if (!make_cgroup(unit + leaf, 1)) _exit(2);
  for (const std::string& cgroup : {slice, unit, unit + leaf}) give_to_nobody(cgroup);
  become_nobody_in(unit + leaf);
  const auto found = find_cgroup_place();
  _exit(found && found->directory == unit + "/caisson" ? 0 : 3);
}

[[noreturn]] void stay_with_another(const std::string& slice) {
  const std::string unit = slice + "/a.scope";
  if (!make_cgroup(unit, 0)) _exit(2);
  for (const std::string& cgroup : {slice, unit}) give_to_nobody(cgroup);
  const pid_t other = ::fork();
  if (other == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    std::ofstream(unit + "/cgroup.procs") << "0" << std::flush;
    // Who waits for what this test says would wait for the last who could say something.
    ::close_range(0, ~0U, 0);
    for (;;) ::pause();
  }
  if (!eventually([&] { return std::ifstream(unit + "/cgroup.procs").peek() != EOF; })) _exit(2);
  become_nobody_in(unit);
  if (*enter_leaf_of_delegated_cgroup()) _exit(3);  // Not alone there.
  _exit(own_cgroup_position().own == unit ? 0 : 5);
}

[[noreturn]] void enter_a_leaf_alone(const std::string& slice) {
  const std::string unit = slice + "/a.scope";
  if (!make_cgroup(unit, 0)) _exit(2);
  for (const std::string& cgroup : {slice, unit}) give_to_nobody(cgroup);
  become_nobody_in(unit);
  if (!*enter_leaf_of_delegated_cgroup()) _exit(3);
  if (own_cgroup_position().own != unit + "/caisson-self") _exit(4);
  if (*enter_leaf_of_delegated_cgroup()) _exit(5);
  const auto found = find_cgroup_place();
  _exit(found && found->directory == unit + "/caisson" ? 0 : 6);
}

// A directory that is an ordinary user's, beside the place that root has.
class UsersSliceDeathTest : public test::CgroupTest {
 protected:
  void SetUp() override {
    test::CgroupTest::SetUp();
    if (IsSkipped()) return;
    if (::geteuid() != 0) GTEST_SKIP() << "only root makes a subtree for somebody";
    slice_ = std::string(std::filesystem::path(place().directory).parent_path()) + "/" + pool_name();
    ASSERT_TRUE(std::filesystem::create_directory(slice_));
  }
  void TearDown() override {
    if (!slice_.empty()) {
      EXPECT_TRUE(remove_cgroup_tree(slice_, std::chrono::seconds(5)));
    }
  }
  std::string slice_;
};

TEST_F(UsersSliceDeathTest, D4_AUnitServesThatWeAreIn) {
  EXPECT_EXIT(look_from_a_unit(slice_, ""), testing::ExitedWithCode(0), "");
}

// Else nothing beneath it could have caps.
TEST_F(UsersSliceDeathTest, D4_AUnitServesInALeafOfWhichWeAre) {
  EXPECT_EXIT(look_from_a_unit(slice_, "/leaf"), testing::ExitedWithCode(0), "");
}

TEST_F(UsersSliceDeathTest, D4_AProgramGoesIntoALeafOfItsUnit) {
  EXPECT_EXIT(enter_a_leaf_alone(slice_), testing::ExitedWithCode(0), "");
}

TEST_F(UsersSliceDeathTest, D4_AProgramStaysWhereOthersAre) {
  EXPECT_EXIT(stay_with_another(slice_), testing::ExitedWithCode(0), "");
}

// --- leaves
// ---------------------------------------------------------------------------------------------------

TEST_F(CgroupLeafTest, TellsWhetherItIsPopulated) {
  auto pool = make_pool();
  auto leaf = pool->acquire();
  ASSERT_TRUE(leaf);
  EXPECT_FALSE(*leaf->populated());
  const Started started = start_in(*leaf, {guest("guest_tree"), "stay"});
  EXPECT_TRUE(*leaf->populated());
  EXPECT_FALSE(started.process.try_reap());
  ASSERT_TRUE(leaf->kill());
  EXPECT_TRUE(leaf->killed());
  EXPECT_EQ(started.process.reap().status->code, SIGKILL);
  EXPECT_TRUE(eventually([&] { return !*leaf->populated(); }));
  pool->give_back(std::move(*leaf));
}

// S-46, S-94: one write ends every shape of tree, those whose leader has gone too.
TEST_F(CgroupLeafTest, S46_S94_KillEndsEveryShapeOfTree) {
  auto pool = make_pool();
  for (const char* leader : {"leave", "stay"}) {
    auto leaf = pool->acquire();
    ASSERT_TRUE(leaf);
    const Started started = start_in(*leaf, {guest("guest_tree"), leader, "plain", "setsid", "double", "deep",
                                             "ignore", "stop", "silent", "flood", "relay"});
    const auto tree = test::watch_all(started.output);
    ASSERT_EQ(tree.size(), 13u) << started.output;
    EXPECT_FALSE(test::any_ended(tree));
    EXPECT_TRUE(*leaf->populated());
    ASSERT_TRUE(leaf->kill());
    EXPECT_TRUE(test::all_ended(tree, std::chrono::seconds(10)));
    started.process.reap();
    EXPECT_TRUE(eventually([&] { return !*leaf->populated(); }));
    pool->give_back(std::move(*leaf));
  }
}

// The kernel's kill passes by one whose first thread has ended; in a cgroup beneath the leaf, too.
TEST_F(CgroupLeafTest, S46_KillEndsAProcessWhoseFirstThreadHasEnded) {
  auto pool = make_pool();
  for (const char* beneath : {"", "/beneath"}) {
    auto leaf = pool->acquire();
    ASSERT_TRUE(leaf);
    const std::string cgroup = leaf->path() + beneath;
    std::filesystem::create_directories(cgroup);
    const Started started = start_in(*leaf, {"perl", "-e",
                                             "use threads; open(F, '>', '" + cgroup +
                                                 "/cgroup.procs'); print F \"0\\n\"; close(F);"
                                                 "threads->create(sub { 1 until `cat /proc/$$/stat` =~ /\\) "
                                                 "Z/; $| = 1; print \"ready\\n\"; sleep 1000 });"
                                                 "syscall(60, 0)"});
    EXPECT_TRUE(*leaf->populated()) << started.output;
    ASSERT_TRUE(leaf->kill());
    EXPECT_TRUE(eventually([&] { return !*leaf->populated(); }));
    static_cast<void>(started.process.reap());
    std::filesystem::remove(cgroup == leaf->path() ? cgroup + "/none" : cgroup);
    pool->give_back(std::move(*leaf));
  }
}

TEST_F(CgroupLeafTest, S46_KillNeedsNoDescriptor) {
  auto pool = make_pool();
  auto leaf = pool->acquire();
  ASSERT_TRUE(leaf);
  const Started started = start_in(*leaf, {guest("guest_tree"), "stay"});
  struct rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const struct rlimit none{0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  EXPECT_EQ(make_pipe().error(), error_of(EMFILE));
  const auto killed = leaf->kill();
  const auto populated = leaf->populated();
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_TRUE(killed);
  EXPECT_TRUE(populated);
  EXPECT_EQ(started.process.reap().status->code, SIGKILL);
  pool->give_back(std::move(*leaf));
}

// --- the pool
// -------------------------------------------------------------------------------------------------

TEST_F(CgroupLeafPoolTest, D4_CleanLeafServesAgainAndKilledOneNever) {
  auto pool = make_pool();
  auto leaf = pool->acquire();
  ASSERT_TRUE(leaf);
  const std::string clean = leaf->path();
  pool->give_back(std::move(*leaf));
  leaf = pool->acquire();
  EXPECT_EQ(leaf->path(), clean);
  ASSERT_TRUE(leaf->kill());
  pool->give_back(std::move(*leaf));
  EXPECT_TRUE(pool->untidy());
  leaf = pool->acquire();
  EXPECT_NE(leaf->path(), clean);
  // A process lives in the new one: the control, for in the killed one it would not.
  const Started started = start_in(*leaf, {guest("guest_tree"), "leave"});
  EXPECT_EQ(started.process.reap().status->code, 0);
  pool->give_back(std::move(*leaf));
  EXPECT_TRUE(eventually([&] { return pool->tidy(); }));
  EXPECT_FALSE(std::filesystem::exists(clean));
}

TEST_F(CgroupLeafPoolTest, LeafWithAnotherCgroupInItIsNotReused) {
  auto pool = make_pool();
  auto leaf = pool->acquire();
  const std::string path = leaf->path();
  ASSERT_TRUE(std::filesystem::create_directories(path + "/made/by/a/guest"));
  pool->give_back(std::move(*leaf));
  leaf = pool->acquire();
  EXPECT_NE(leaf->path(), path);
  pool->give_back(std::move(*leaf));
  EXPECT_TRUE(eventually([&] { return pool->tidy(); }));
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(CgroupLeafPoolTest, TidyMakesLeavesAheadAndKeepsAFewSpare) {
  auto pool = make_pool(3);
  EXPECT_TRUE(pool->untidy());
  EXPECT_TRUE(pool->tidy());
  EXPECT_EQ(leaves_of(*pool).size(), 3u);
  EXPECT_FALSE(pool->untidy());
  std::vector<CgroupLeaf> many;
  for (int i = 0; i < 60; ++i) many.push_back(pool->acquire().value());
  EXPECT_EQ(leaves_of(*pool).size(), 60u);
  for (CgroupLeaf& leaf : many) pool->give_back(std::move(leaf));
  many.clear();
  EXPECT_TRUE(eventually([&] { return pool->tidy(); }));
  EXPECT_LT(leaves_of(*pool).size(), 30u);
}

TEST_F(CgroupLeafPoolTest, DiscardedLeafIsRemovedAliveOrNot) {
  auto pool = make_pool();
  auto leaf = pool->acquire();
  const std::string path = leaf->path();
  const Started started = start_in(*leaf, {guest("guest_tree"), "stay", "plain"});
  pool->discard(std::move(*leaf));
  EXPECT_TRUE(eventually([&] { return pool->tidy(); }));
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_EQ(started.process.reap().status->code, SIGKILL);
}

TEST_F(CgroupLeafPoolTest, DestructorKillsAndRemovesWhatIsLeft) {
  auto pool = make_pool(2);
  const std::string path = pool->path();
  auto leaf = pool->acquire();
  const Started started = start_in(*leaf, {guest("guest_tree"), "stay", "setsid", "stop"});
  const auto tree = test::watch_all(started.output);
  ASSERT_EQ(tree.size(), 2u);
  pool.reset();
  EXPECT_TRUE(test::all_ended(tree, std::chrono::seconds(5)));
  EXPECT_EQ(started.process.reap().status->code, SIGKILL);
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(CgroupLeafPoolTest, ForkOfTheProcessTouchesNothing) {
  auto pool = make_pool();
  auto leaf = pool->acquire();
  const Started started = start_in(*leaf, {guest("guest_tree"), "stay"});
  const pid_t fork = ::fork();
  if (fork == 0) {
    pool.reset();
    _exit(0);
  }
  int status = -1;
  ::waitpid(fork, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(started.process.try_reap());
  EXPECT_TRUE(std::filesystem::exists(pool->path()));
  ASSERT_TRUE(leaf->kill());
  started.process.reap();
  pool->give_back(std::move(*leaf));
}

TEST_F(CgroupLeafPoolTest, SurvivesTheRemovalOfItsDirectory) {
  auto pool = make_pool();
  ASSERT_EQ(::rmdir(pool->path().c_str()), 0);
  ::rmdir(place().directory.c_str());
  auto leaf = pool->acquire();
  ASSERT_TRUE(leaf) << leaf.error().message();
  const Started started = start_in(*leaf, {guest("guest_tree"), "leave"});
  EXPECT_EQ(started.process.reap().status->code, 0);
  pool->give_back(std::move(*leaf));
}

TEST_F(CgroupLeafPoolTest, RefusesNamesThatAreNoOneDirectory) {
  for (const char* name : {"", ".", "..", "a/b", "../x", ".hidden"}) {
    EXPECT_EQ(CgroupLeafPool::create(place(), name, 0).error(), error_of(EINVAL)) << name;
  }
  const std::string name = pool_name();
  auto pool = CgroupLeafPool::create(place(), name, 0);
  ASSERT_TRUE(pool);
  EXPECT_EQ(CgroupLeafPool::create(place(), name, 0).error(), error_of(EEXIST));
}

// A process of another PID namespace has no directory in our /proc: its lock alone says that it lives.
TEST_F(CgroupLeafPoolTest, S29_OneThatIsLockedIsNotTakenForADeadProcesss) {
  const pid_t dead = ::fork();
  if (dead == 0) ::_exit(0);
  ASSERT_EQ(::waitpid(dead, nullptr, 0), dead);
  const auto name = [dead] { return std::to_string(dead) + "-" + random_hex_id(); };
  const std::string abandoned = place().directory + "/" + name();
  auto locked = CgroupLeafPool::create(place(), name(), 0).value();
  ASSERT_TRUE(std::filesystem::create_directory(abandoned));
  const auto other = CgroupLeafPool::create(place(), pool_name(), 0);
  ASSERT_TRUE(other);
  EXPECT_TRUE(std::filesystem::exists(locked->path()));
  EXPECT_FALSE(std::filesystem::exists(abandoned)) << "the control";
}

// Pools of several processes come and go under one shared directory.
TEST_F(CgroupLeafPoolTest, PoolsComeAndGoBesideEachOther) {
  std::atomic<int> good = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&good] {
      for (int i = 0; i < 25; ++i) {
        auto pool = CgroupLeafPool::create(place(), pool_name(), 1);
        if (!pool) continue;
        auto leaf = (*pool)->acquire();
        if (!leaf) continue;
        (*pool)->give_back(std::move(*leaf));
        ++good;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 100);
}

TEST_F(RemoveCgroupTreeTest, S29_KillsAndRemovesWhatADeadProcessLeft) {
  const std::string path = place().directory + "/" + pool_name();
  ASSERT_TRUE(std::filesystem::create_directories(path + "/0/nested"));
  const Fd directory = Fd::adopt(::open((path + "/0/nested").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  Command command({"/bin/sleep", "1000"});
  SpawnPlan plan = command.plan();
  plan.cgroup = directory;
  auto process = spawn(plan);
  ASSERT_TRUE(process);
  EXPECT_FALSE(process->try_reap());
  EXPECT_TRUE(remove_cgroup_tree(path, std::chrono::seconds(5)));
  EXPECT_EQ(process->reap().status->code, SIGKILL);
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_TRUE(remove_cgroup_tree(path, std::chrono::seconds(5)));
}

}  // namespace
}  // namespace caisson::os
