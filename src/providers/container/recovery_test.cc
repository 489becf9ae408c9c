// What dead owners left (S-29). A dead owner is a child process that was killed: nothing of it was cleaned
// up.
#include "providers/container/recovery.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/syscall.h>

#include <thread>

#include "os/cgroup.h"
#include "os/files.h"
#include "os/lock.h"
#include "os/mount.h"
#include "providers/container/session_state.h"
#include "providers/container/storage_bed_test.h"
#include "tests/support/eventually.h"

namespace caisson::container {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::UnorderedElementsAre;

std::string id_of(char digit) { return std::string(32, digit); }

class RecoveryTest : public testing::Test {
 protected:
  std::unique_ptr<SessionOnDisk> make(const kit::SessionRecord& session, SessionCgroups cgroups = {}) {
    return std::make_unique<SessionOnDisk>(storage_, session, os::own_identity(), std::move(cgroups));
  }
  // Sessions whose owner has died.
  void make_dead(const std::vector<kit::SessionRecord>& sessions) {
    Child owner([&] {
      for (const auto& session : sessions) static_cast<void>(make(session).release());
    });
    ASSERT_THAT(recovered(), IsEmpty()) << "the control: while their owner lives they are left alone";
    for (const auto& session : sessions) ASSERT_TRUE(fs::exists(record(session.id)));
  }
  std::vector<std::string> recovered() { return recover(*storage_, remembered_.log()); }
  std::string record(const std::string& id) const {
    return bed_.runtime + "/sessions/" + id + "/session.json";
  }

  const test::Faults faults_{no_bounds()};
  StorageBed bed_;
  std::shared_ptr<const Storage> storage_ = bed_.open();
  test::Remembered remembered_;
};

std::vector<kit::SessionRecord> list(kit::SessionRecord one) {
  std::vector<kit::SessionRecord> all;
  all.push_back(std::move(one));
  return all;
}
std::vector<kit::SessionRecord> list(kit::SessionRecord one, kit::SessionRecord other) {
  auto all = list(std::move(one));
  all.push_back(std::move(other));
  return all;
}

TEST_F(RecoveryTest, S29_ADeadEphemeralSessionIsRemoved) {
  make_dead(list(ephemeral('1')));
  EXPECT_THAT(recovered(), ElementsAre("session " + id_of('1')));
  EXPECT_THAT(bed_.left(), IsEmpty()) << "its ids are free too";
  EXPECT_THAT(remembered_.text(), HasSubstr(id_of('1'))) << "and logged";
  EXPECT_THAT(recovered(), IsEmpty());
}

TEST_F(RecoveryTest, S29_ADeadPersistentSessionEndsAndItsWorkspaceStays) {
  make_dead(list(persistent('1')));
  put(bed_.volume() + "/file", "work");
  EXPECT_THAT(recovered(), ElementsAre("session " + id_of('1') + ", keeping its workspace key"));
  EXPECT_EQ(text_of(bed_.volume() + "/file"), "work");
  auto left = bed_.left();
  std::erase_if(left, [](const std::string& name) { return name.starts_with("root/ids/"); });
  EXPECT_THAT(left, UnorderedElementsAre("root/volumes/key", "root/volumes/key.json"));
  const auto later = make(persistent('2'));
  EXPECT_EQ(text_of(later->volume_path() + "/file"), "work");
  later->remove(true);
  EXPECT_THAT(bed_.left(), IsEmpty());
}

TEST_F(RecoveryTest, S29_ALiveSessionIsLeftAlone) {
  const auto one = make(ephemeral('1'));
  const auto other = make(persistent('2'));
  const auto before = bed_.left();
  EXPECT_THAT(recovered(), IsEmpty());
  EXPECT_EQ(bed_.left(), before);
  one->remove(true);
  other->remove(true);
  EXPECT_THAT(bed_.left(), IsEmpty());
}

TEST_F(RecoveryTest, S29_RuntimeDirectoriesOnOneRootDoNotDisturbEachOther) {
  StorageBed& theirs_bed = bed_;
  const std::string ours_runtime = bed_.directory / "other-run";
  auto layout = std::make_shared<const Layout>(Layout::open(theirs_bed.root, ours_runtime));
  const auto ours = Storage::open(layout, ranges_here(), small_bound, true);
  Child owner([&] {
    static_cast<void>(make(persistent('1')).release());
    static_cast<void>(make(ephemeral('2')).release());
  });
  const auto before = bed_.left();
  EXPECT_THAT(recover(*ours, remembered_.log()), IsEmpty());
  EXPECT_EQ(bed_.left(), before) << "locks, ids, volumes and state of the other";
  // On the same workspace, with ids of no other.
  SessionOnDisk shared(ours, persistent('3'), os::own_identity());
  SessionOnDisk own(ours, ephemeral('4'), os::own_identity());
  EXPECT_EQ(shared.volume_path(), bed_.volume());
  if (!own.slot_is_shared()) {
    EXPECT_EQ(own.slot().first_user, first_id + 2 * 65536);
  }
  EXPECT_THAT(recovered(), IsEmpty());
  owner.kill();
  EXPECT_THAT(recover(*ours, remembered_.log()), IsEmpty())
      << "the state of the dead is for its own directory";
  EXPECT_TRUE(fs::exists(record(id_of('1'))));
  EXPECT_THAT(recovered(), UnorderedElementsAre("session " + id_of('1') + ", keeping its workspace key",
                                                "session " + id_of('2')));
  EXPECT_TRUE(fs::exists(shared.volume_path()));
  shared.remove(true);
  own.remove(true);
  EXPECT_THAT(bed_.left(), IsEmpty());
  EXPECT_THAT(entries_of(ours_runtime + "/sessions"), IsEmpty());
}

TEST_F(RecoveryTest, S25_AWishThatADeadSessionKeptWaitingIsFulfilled) {
  {
    Child owner([&] { static_cast<void>(make(persistent('1')).release()); });
    make(persistent('2'))->remove(true);
    ASSERT_TRUE(fs::exists(bed_.volume())) << "the control: the other process keeps it";
    ASSERT_THAT(recovered(), IsEmpty());
    ASSERT_TRUE(fs::exists(bed_.volume()));
  }
  EXPECT_THAT(recovered(), ElementsAre("session " + id_of('1') + " and its workspace key"));
  EXPECT_THAT(bed_.left(), IsEmpty());
}

TEST_F(RecoveryTest, S25_AWishWithoutAnySessionIsFulfilled) {
  make(persistent('1'))->remove(false);
  put(bed_.root + "/volumes/.keys/key.remove", "");
  put(bed_.root + "/volumes/.keys/not a key.remove", "");
  EXPECT_THAT(recovered(), ElementsAre("workspace key, which was to be removed"));
  fs::remove(bed_.root + "/volumes/.keys/not a key.remove");
  EXPECT_THAT(bed_.left(), IsEmpty());
}

TEST_F(RecoveryTest, S29_WhatWasHalfMadeIsRemoved) {
  const std::string keys = bed_.root + "/volumes/.keys/";
  for (const char* name : {"key.make", "key.new", "key.img", "key.lock", "other.img"})
    put(keys + name, "half");
  put(bed_.root + "/ids/524288-65536.lock", "");
  put(bed_.root + "/ids/589824-65536.key", "lost");
  put(bed_.runtime + "/sessions/" + id_of('1') + ".lock", "");
  fs::create_directory(bed_.runtime + "/sessions/" + id_of('2'));
  fs::create_directory(bed_.runtime + "/sessions/" + id_of('3'));
  put(bed_.runtime + "/sessions/" + id_of('3') + "/session.json", "no record");
  put(bed_.runtime + "/sessions/unknown", "");
  const auto lines = recovered();
  EXPECT_THAT(lines, Contains("session " + id_of('2')));
  EXPECT_THAT(lines, Contains("session " + id_of('3'))) << "a record that makes no sense is still ours";
  EXPECT_THAT(lines, Contains(HasSubstr("589824")));
  EXPECT_EQ(lines.size(), 3U) << "a lock alone is nothing";
  EXPECT_THAT(bed_.left(), ElementsAre("run/sessions/unknown")) << "what is not named as ours is not ours";
}

TEST_F(RecoveryTest, S29_WhatIsBeingMadeIsLeftAlone) {
  Child maker([&] {
    static_cast<void>(
        std::move(**os::try_lock(storage_->layout->keys, "key.make", os::LockKind::exclusive)).release());
  });
  put(bed_.root + "/volumes/.keys/key.new", "half");
  EXPECT_THAT(recovered(), IsEmpty());
  EXPECT_TRUE(fs::exists(bed_.root + "/volumes/.keys/key.new"));
  maker.kill();
  EXPECT_THAT(recovered(), IsEmpty());
  EXPECT_THAT(bed_.left(), IsEmpty()) << "the control";
}

TEST_F(RecoveryTest, S29_ItGoesOnPastWhatFails) {
  for (const auto& [point, error] : {std::pair("salvage.session", EMFILE), std::pair("salvage.remove", EIO),
                                     std::pair("files.look", EIO)}) {
    make_dead(list(ephemeral('1'), persistent('2')));
    {
      const test::Faults fault(no_bounds({test::error_at(point, error)}));
      EXPECT_THAT(recovered(), ElementsAre(HasSubstr(id_of('2')))) << point;
    }
    EXPECT_TRUE(fs::exists(record(id_of('1')))) << point;
    EXPECT_THAT(remembered_.text(), HasSubstr(id_of('1') + " is left for the next recovery"));
    EXPECT_THAT(recovered(), ElementsAre("session " + id_of('1'))) << point;
    Volume::remove_when_unused(*storage_, "key");
    EXPECT_THAT(bed_.left(), IsEmpty()) << point;
  }
}

TEST_F(RecoveryTest, S102_LinksInPlaceOfStateAreRemovedAndNotFollowed) {
  const std::string outside = bed_.directory / "outside";
  fs::create_directories(outside);
  put(outside + "/session.json", R"({"durability":"persistent","workspace_key":"key"})");
  fs::create_directory_symlink(outside, bed_.runtime + "/sessions/" + id_of('1'));
  fs::create_directory(bed_.runtime + "/sessions/" + id_of('2'));
  fs::create_symlink(outside + "/session.json", record(id_of('2')));
  fs::create_directory_symlink(outside, bed_.runtime + "/sessions/" + id_of('2') + "/deep");
  EXPECT_EQ(recovered().size(), 2U);
  EXPECT_THAT(entries_of(outside), ElementsAre("session.json"));
  EXPECT_THAT(bed_.left(), IsEmpty());
}

TEST_F(RecoveryTest, S29_ARecordGetsNothingElseRemoved) {
  const auto live = make(persistent('1'));
  put(live->volume_path() + "/file", "work");
  fs::create_directories(bed_.directory / "mine/deep");
  const std::string state = bed_.runtime + "/sessions/" + id_of('2');
  for (const std::string& key :
       {std::string("key"), std::string("../../../mine"), std::string("."), std::string()}) {
    fs::create_directory(state);
    put(state + "/session.json", R"({"id":")" + id_of('1') +
                                     R"(","durability":"persistent","workspace_key":")" + key +
                                     R"(","volume":")" + bed_.directory.path() + "/mine" + R"("})");
    EXPECT_EQ(recovered().size(), 1U) << key;
    EXPECT_FALSE(fs::exists(state)) << "the control: its own goes";
  }
  EXPECT_TRUE(fs::exists(bed_.directory / "mine/deep"));
  EXPECT_EQ(text_of(live->volume_path() + "/file"), "work");
  EXPECT_TRUE(fs::exists(record(id_of('1'))));
  live->remove(true);
}

TEST_F(RecoveryTest, ManyRecoveriesAtOnceHandleEachThingOnce) {
  make_dead(list(ephemeral('1'), persistent('2')));
  std::vector<std::vector<std::string>> lines(4);
  std::vector<std::thread> threads;
  for (auto& mine : lines) threads.emplace_back([&] { mine = recover(*storage_, {}); });
  for (std::thread& thread : threads) thread.join();
  std::size_t all = 0;
  for (const auto& mine : lines) all += mine.size();
  EXPECT_EQ(all, 2U);
  Volume::remove_when_unused(*storage_, "key");
  EXPECT_THAT(recovered(), IsEmpty());
  EXPECT_THAT(bed_.left(), IsEmpty());
}

// Of a dead process, in a place for cgroups.
class RecoveredCgroupsTest : public RecoveryTest {
 protected:
  void SetUp() override {
    auto place = os::find_cgroup_place();
    if (!place) GTEST_SKIP() << place.error();
    // Of this process: beside it, other programs' pools would remove what dead ones left.
    above_ = place->directory;
    place_ = above_ + "/" + os::new_cgroup_name();
    fs::create_directories(place_);
  }
  void TearDown() override {
    std::error_code in_use;
    for (const std::string& path : made_) fs::remove(path, in_use);
    for (const std::string& path : {place_, above_}) {
      if (!path.empty()) fs::remove(path, in_use);
    }
  }
  std::string cgroup(const std::string& path) {
    fs::create_directory(path);
    made_.insert(made_.begin(), path);
    return path;
  }
  // A dead session that has a process in its cgroup, and names that.
  struct Wreck {
    std::string unified;
    os::Fd process;
    os::ProcessIdentity owner = {};
    bool ended(int patience) const {
      pollfd end = {process.number(), POLLIN, 0};
      return ::poll(&end, 1, patience) == 1;
    }
  };
  Wreck make_wreck(char digit, const std::vector<std::string>& legacy_places = {}) {
    Child owner([&] {
      const auto own = os::own_identity();
      const std::string name = cgroup_name(own, id_of(digit));
      SessionCgroups cgroups{place_ + "/" + name, {}};
      for (const std::string& place : legacy_places) cgroups.legacy.push_back(place + "/" + name);
      static_cast<void>(make(ephemeral(digit), cgroups).release());
      // As of a box: with cgroups beneath it.
      fs::create_directories(cgroups.unified + "/execs/1");
      for (const std::string& path : cgroups.legacy) fs::create_directories(path + "/execs/1");
      const pid_t pid = ::fork();
      if (pid == 0) {
        put(cgroups.unified + "/execs/1/cgroup.procs", "0");
        for (const std::string& path : cgroups.legacy) put(path + "/execs/1/tasks", "0");
        ::close_range(3, ~0U, 0);  // As of what was started: it holds no lock of its owner's.
        put(bed_.directory / "in-cgroup", "");
        for (;;) ::pause();
      }
      put(bed_.directory / "pid", std::to_string(pid) + " " + std::to_string(own.pid));
    });
    int pid = 0, owner_pid = 0;
    std::istringstream(text_of(bed_.directory / "pid")) >> pid >> owner_pid;
    Wreck wreck;
    wreck.process = os::Fd::adopt(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    wreck.owner = {owner_pid, 0, os::own_identity().boot_id};
    wreck.unified = place_ + "/" + cgroup_name(wreck.owner, id_of(digit));
    EXPECT_TRUE(wreck.process);
    EXPECT_TRUE(test::eventually([&] { return fs::exists(bed_.directory / "in-cgroup"); }));
    fs::remove(bed_.directory / "in-cgroup");
    owner.kill();
    EXPECT_FALSE(wreck.ended(0)) << "the control: its owner's death leaves it running";
    return wreck;
  }
  void rewrite(char digit, const std::string& from, const std::string& to) {
    std::string text = text_of(record(id_of(digit)));
    for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
      text.replace(at, from.size(), to);
    put(record(id_of(digit)), text);
  }

  std::string above_;
  std::string place_;
  std::vector<std::string> made_;
};

TEST_F(RecoveredCgroupsTest, S29_ADeadOwnersProcessesAreKilled) {
  const Wreck wreck = make_wreck('1');
  ASSERT_TRUE(fs::exists(wreck.unified));
  EXPECT_THAT(recovered(), ElementsAre("session " + id_of('1')));
  EXPECT_TRUE(wreck.ended(10000));
  EXPECT_FALSE(fs::exists(wreck.unified));
  EXPECT_THAT(bed_.left(), IsEmpty());
}

TEST_F(RecoveredCgroupsTest, S29_ProcessesThatDoNotEndKeepTheirSession) {
  const Wreck wreck = make_wreck('1');
  {
    const test::Faults fault(no_bounds({test::error_at("salvage.kill", EBUSY)}));
    EXPECT_THAT(recovered(), IsEmpty());
  }
  EXPECT_FALSE(wreck.ended(0));
  EXPECT_TRUE(fs::exists(record(id_of('1'))));
  EXPECT_THAT(recovered(), ElementsAre("session " + id_of('1')));
  EXPECT_TRUE(wreck.ended(10000));
}

TEST_F(RecoveredCgroupsTest, S29_NoOtherCgroupIsKilled) {
  // Somebody lives in each of these.
  const auto live_pid = std::to_string(::getpid());
  const std::vector<std::string> foreign = {
      cgroup(place_ + "/" + live_pid + "-" + id_of('9')),  // another session's of a process that lives
      cgroup(place_ + "/some.service"), cgroup(place_ + "/" + live_pid + "-x")};
  std::vector<pid_t> inhabitants;
  for (const std::string& path : foreign) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      put(path + "/cgroup.procs", "0");
      for (;;) ::pause();
    }
    inhabitants.push_back(pid);
    ASSERT_TRUE(
        test::eventually([&] { return text_of(path + "/cgroup.procs") == std::to_string(pid) + "\n"; }));
  }
  fs::create_directory_symlink(foreign[0], bed_.directory / (live_pid + "-" + id_of('1')));
  char digit = '1';
  for (const std::string& path :
       {foreign[0], foreign[1], foreign[2],
        place_ + "/../" + place_.substr(place_.rfind('/') + 1) + "/" + live_pid + "-" + id_of('1'),
        bed_.directory / (live_pid + "-" + id_of('1'))}) {
    const std::string state = bed_.runtime + "/sessions/" + id_of(digit);
    fs::create_directory(state);
    put(state + "/session.json", R"({"durability":"ephemeral","cgroup":")" + path + R"(","cgroups_v1":[")" +
                                     path + R"("],"owner":{"pid":)" + live_pid +
                                     R"(,"start_time":1,"boot_id":")" + os::own_identity().boot_id +
                                     R"("}})");
    EXPECT_THAT(recovered(), ElementsAre("session " + id_of(digit))) << path;
    EXPECT_THAT(remembered_.text(), HasSubstr("no cgroup of its own"));
    for (std::size_t i = 0; i < foreign.size(); ++i) {
      EXPECT_EQ(::waitpid(inhabitants[i], nullptr, WNOHANG), 0) << path;
      EXPECT_TRUE(fs::exists(foreign[i])) << path;
    }
  }
  for (const pid_t pid : inhabitants) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
}

TEST_F(RecoveredCgroupsTest, S29_OneOfAnotherNameGoesWithADeadProcessOnly) {
  const Wreck wreck = make_wreck('1');
  const std::string renamed = place_ + "/" + cgroup_name(wreck.owner, id_of('f'));
  cgroup(renamed);
  rewrite('1', wreck.unified, renamed);
  const os::Fd locked = os::Fd::adopt(::open(renamed.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ASSERT_EQ(::flock(locked.number(), LOCK_EX | LOCK_NB), 0);
  // Somebody has it locked: its pool lives, whatever number the record gives.
  EXPECT_THAT(recovered(), ElementsAre("session " + id_of('1')));
  EXPECT_TRUE(fs::exists(renamed));
  ASSERT_EQ(::flock(locked.number(), LOCK_UN), 0);
  const std::string state = bed_.runtime + "/sessions/" + id_of('2');
  fs::create_directory(state);
  put(state + "/session.json", R"({"durability":"ephemeral","cgroup":")" + renamed + R"(","owner":{"pid":)" +
                                   std::to_string(wreck.owner.pid) + R"(,"start_time":1,"boot_id":")" +
                                   os::own_identity().boot_id + R"("}})");
  EXPECT_THAT(recovered(), ElementsAre("session " + id_of('2')));
  EXPECT_FALSE(fs::exists(renamed)) << "the control";
  EXPECT_TRUE(os::remove_cgroup_tree(wreck.unified, std::chrono::seconds(2)));
  EXPECT_TRUE(wreck.ended(10000));
}

TEST_F(RecoveredCgroupsTest, S29_WhatIsNoCgroupIsNotTouched) {
  const std::string name = cgroup_name(os::own_identity(), id_of('1'));
  const std::string path = bed_.directory / name;
  fs::create_directory(path);
  const SessionCgroups cgroups{path, {path}};
  const auto removal = remove_recorded_cgroups(cgroups, os::own_identity(), id_of('1'));
  EXPECT_THAT(removal.ignored, ElementsAre(path, path));
  EXPECT_EQ(removal.failure, "");
  EXPECT_THAT(entries_of(path), IsEmpty());
  const std::string real = cgroup(place_ + "/" + name);
  EXPECT_THAT(remove_recorded_cgroups({real, {}}, os::own_identity(), id_of('1')).ignored, IsEmpty());
  EXPECT_FALSE(fs::exists(real)) << "the control";
  EXPECT_THAT(remove_recorded_cgroups({real, {real}}, os::own_identity(), id_of('1')).ignored, IsEmpty())
      << "what is gone is gone";
}

TEST_F(RecoveredCgroupsTest, S29_V1CgroupsGoWhenNobodyIsInThem) {
  const std::string legacy = "/sys/fs/cgroup/pids";
  const auto type =
      os::file_system_type(os::Fd::adopt(::open(legacy.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)));
  if (!os::is_root() || !type || *type != 0x27e0eb) GTEST_SKIP() << "needs root and a v1 hierarchy of pids";
  const std::string place = legacy + "/caisson-" + os::new_cgroup_name();
  cgroup(place);
  const Wreck wreck = make_wreck('1', {place});
  const std::string path = place + "/" + cgroup_name(wreck.owner, id_of('1'));
  ASSERT_TRUE(fs::exists(path + "/execs/1")) << "the control";
  EXPECT_THAT(recovered(), ElementsAre("session " + id_of('1')));
  EXPECT_TRUE(wreck.ended(10000));
  EXPECT_FALSE(fs::exists(path));
  EXPECT_FALSE(fs::exists(wreck.unified));
}

TEST_F(RecoveredCgroupsTest, S29_NobodyIsKilledInAV1Cgroup) {
  const std::string legacy = "/sys/fs/cgroup/pids";
  const auto type =
      os::file_system_type(os::Fd::adopt(::open(legacy.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)));
  if (!os::is_root() || !type || *type != 0x27e0eb) GTEST_SKIP() << "needs root and a v1 hierarchy of pids";
  const auto own = os::own_identity();
  const std::string path = cgroup(legacy + "/" + cgroup_name(own, id_of('1')));
  const pid_t pid = ::fork();
  if (pid == 0) {
    put(path + "/tasks", "0");
    for (;;) ::pause();
  }
  ASSERT_TRUE(test::eventually([&] { return text_of(path + "/tasks") == std::to_string(pid) + "\n"; }));
  const auto removal = remove_recorded_cgroups({{}, {path}}, own, id_of('1'));
  EXPECT_THAT(removal.failure, HasSubstr("busy"));
  EXPECT_EQ(::waitpid(pid, nullptr, WNOHANG), 0);
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  EXPECT_EQ(remove_recorded_cgroups({{}, {path}}, own, id_of('1')).failure, "");
  EXPECT_FALSE(fs::exists(path));
}

// With images.
class RecoveredImagesTest : public RecoveryTest {
 protected:
  void SetUp() override {
    static const std::string reason = no_images_because();
    if (!reason.empty()) GTEST_SKIP() << reason;
    // What it takes to have images again.
    os::arm_faults({test::error_always("bound.quota", ENOTTY)});
    storage_ = bed_.open(false);
  }
  void TearDown() override { ::umount2(bed_.volume().c_str(), MNT_DETACH); }
  bool is_mounted() const {
    const auto mounted = os::is_mount_at(storage_->layout->volumes, "key");
    return mounted && *mounted;
  }
};

TEST_F(RecoveredImagesTest, S29_AnImageThatADeadOwnerLeftMountedIsUnmounted) {
  make_dead(list(persistent('1')));
  ASSERT_TRUE(is_mounted()) << "the control";
  put(bed_.volume() + "/file", "work");
  EXPECT_THAT(recovered(), ElementsAre("session " + id_of('1') + ", keeping its workspace key"));
  EXPECT_FALSE(is_mounted());
  // Of another runtime directory, whose sessions are not seen here; its process is gone all the same.
  const auto later = make(persistent('2'));
  EXPECT_EQ(text_of(later->volume_path() + "/file"), "work");
  later->remove(false);
  make_dead(list(persistent('3')));
  fs::remove_all(bed_.runtime + "/sessions");
  storage_ = bed_.open(false);
  ASSERT_TRUE(is_mounted()) << "the control";
  EXPECT_THAT(recovered(), ElementsAre("workspace key, which nobody uses any more"));
  EXPECT_FALSE(is_mounted());
}

TEST_F(RecoveredImagesTest, S29_AMountWithoutAnyLockIsUnmounted) {
  const auto session = make(persistent('1'));
  ASSERT_TRUE(is_mounted());
  fs::remove(bed_.root + "/volumes/.keys/key.lock");
  EXPECT_THAT(recovered(), ElementsAre("workspace key, which nobody uses any more"));
  EXPECT_FALSE(is_mounted());
  session->remove(true);
}

TEST_F(RecoveredImagesTest, S29_WhatALiveOwnerHasMountedStays) {
  Child owner([&] { static_cast<void>(make(persistent('1')).release()); });
  EXPECT_THAT(recovered(), IsEmpty());
  EXPECT_TRUE(is_mounted());
  owner.kill();
  EXPECT_EQ(recovered().size(), 1U);
  EXPECT_FALSE(is_mounted());
}

}  // namespace
}  // namespace caisson::container
