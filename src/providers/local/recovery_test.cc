// What dead owners left (S-29, S-92). A dead owner is a child process that was killed: nothing of it was
// cleaned up.
#include "providers/local/recovery.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/fs.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include <thread>

#include "os/cgroup.h"
#include "os/clock.h"
#include "os/files.h"
#include "os/self.h"
#include "providers/local/marker.h"
#include "providers/local/root_for_test.h"
#include "providers/local/session_on_disk.h"
#include "tests/support/eventually.h"
#include "tests/support/faults.h"

namespace caisson::local {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::string one_id = "00000000000000000000000000000001";
const std::string other_id = "00000000000000000000000000000002";

kit::SessionRecord record_of(const std::string& id, Durability durability, const std::string& key = "key") {
  kit::SessionRecord record;
  record.id = id;
  record.spec.image = "host";
  record.spec.workspace_key = key;
  record.spec.durability = durability;
  record.spec.ttl_seconds = 60;
  return record;
}

class RecoveryTest : public testing::Test {
 protected:
  std::unique_ptr<SessionOnDisk> make(const std::string& id, Durability durability,
                                      const std::string& cgroup = "") {
    auto session =
        std::make_unique<SessionOnDisk>(layout_, record_of(id, durability), os::own_identity(), cgroup);
    put(session->workspace_path() + "/file", "work");
    fs::create_directory(session->temporary_path());
    put(session->temporary_path() + "/partial", "half of a file");
    return session;
  }
  // Sessions whose owner has died.
  void make_dead(const std::vector<std::pair<std::string, Durability>>& sessions) {
    Child owner([&] {
      for (const auto& [id, durability] : sessions) static_cast<void>(make(id, durability).release());
    });
    ASSERT_THAT(recovered(), IsEmpty()) << "the control: while their owner lives they are left alone";
    for (const auto& [id, durability] : sessions) ASSERT_TRUE(fs::exists(record(id)));
  }
  std::vector<std::string> recovered() { return recover(*layout_, remembered_.log()); }
  // What other programs do meanwhile may keep one of them from being looked into, for a while.
  std::vector<std::string> recovered_in_the_end(std::size_t count) {
    std::vector<std::string> lines;
    static_cast<void>(test::eventually([&] {
      for (std::string& line : recovered()) lines.push_back(std::move(line));
      return lines.size() >= count;
    }));
    return lines;
  }
  std::string record(const std::string& id) const { return root_ + "/.tai-sandbox/.caisson/" + id + ".json"; }
  std::string scratch(const std::string& name) const { return root_ + "/.ephemeral/" + name; }

  test::TemporaryDirectory directory_;
  const std::string root_ = directory_ / "root";
  const std::shared_ptr<const Layout> layout_ = std::make_shared<const Layout>(Layout::open(root_));
  Remembered remembered_;
};

TEST_F(RecoveryTest, S24_ADestroyAfterAReleaseThatFailedRemovesTheWorkspace) {
  const auto session = make(one_id, Durability::persistent);
  {
    const test::Faults faults({test::error_at("remove.marker", EIO)});
    EXPECT_EQ(code_of_call([&] { session->remove(false); }), ErrorCode::removal_failed);
  }
  EXPECT_TRUE(fs::exists(session->workspace_path())) << "the control";
  session->remove(true);
  EXPECT_FALSE(fs::exists(session->workspace_path()));
}

TEST_F(RecoveryTest, S29_ADeadEphemeralSessionIsRemoved) {
  make_dead({{one_id, Durability::ephemeral}});
  EXPECT_THAT(recovered(), ElementsAre("session " + one_id));
  EXPECT_THAT(traces_of_sessions(root_), IsEmpty());
  EXPECT_THAT(remembered_.text(), HasSubstr(one_id)) << "and logged";
  EXPECT_THAT(recovered(), IsEmpty());
}

TEST_F(RecoveryTest, S29_ADeadPersistentSessionEndsAndItsWorkspaceStays) {
  make_dead({{one_id, Durability::persistent}});
  const auto lines = recovered();
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_THAT(lines[0], HasSubstr("keeping its workspace key"));
  EXPECT_EQ(text_of(root_ + "/key/file"), "work");
  EXPECT_TRUE(fs::exists(root_ + "/.tai-sandbox/key.json"));
  EXPECT_THAT(traces_of_sessions(root_), IsEmpty());
}

TEST_F(RecoveryTest, S29_ALiveSessionIsLeftAlone) {
  const auto ephemeral = make(one_id, Durability::ephemeral);
  const auto persistent = make(other_id, Durability::persistent);
  EXPECT_THAT(recovered(), IsEmpty());
  EXPECT_EQ(text_of(scratch(one_id) + "/file"), "work");
  EXPECT_EQ(text_of(ephemeral->temporary_path() + "/partial"), "half of a file");
  ephemeral->remove(true);
  persistent->remove(true);
  EXPECT_THAT(traces_of_sessions(root_), IsEmpty());
  EXPECT_FALSE(fs::exists(root_ + "/key"));
}

TEST_F(RecoveryTest, S25_AWishThatADeadSessionKeptWaitingIsFulfilled) {
  {
    Child owner([&] { static_cast<void>(make(one_id, Durability::persistent).release()); });
    make(other_id, Durability::persistent)->remove(true);
    ASSERT_TRUE(fs::exists(root_ + "/key/file")) << "the control: the other process keeps it";
    ASSERT_THAT(recovered(), IsEmpty());
    ASSERT_TRUE(fs::exists(root_ + "/key/file"));
  }
  const auto lines = recovered();
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_THAT(lines[0], HasSubstr("and its workspace key"));
  EXPECT_FALSE(fs::exists(root_ + "/key"));
  EXPECT_FALSE(fs::exists(root_ + "/.tai-sandbox/key.json"));
  EXPECT_THAT(traces_of_sessions(root_), IsEmpty());
}

TEST_F(RecoveryTest, S25_AWishWithoutAnySessionIsFulfilled) {
  fs::create_directory(root_ + "/key");
  put(root_ + "/.tai-sandbox/.caisson/keys/key.remove", "");
  put(root_ + "/.tai-sandbox/.caisson/keys/not a key.remove", "");
  EXPECT_EQ(recovered().size(), 1U);
  EXPECT_FALSE(fs::exists(root_ + "/key"));
  fs::remove(root_ + "/.tai-sandbox/.caisson/keys/not a key.remove");
  EXPECT_THAT(traces_of_sessions(root_), IsEmpty());
}

TEST_F(RecoveryTest, S29_WhatCannotBeLookedAtIsLeftForTheNextTime) {
  make_dead({{one_id, Durability::ephemeral}, {other_id, Durability::persistent}});
  {
    const test::Faults faults({test::error_at("files.look", EIO)});
    EXPECT_EQ(recovered().size(), 1U) << "the rest is handled all the same";
  }
  EXPECT_TRUE(fs::exists(record(one_id)));
  EXPECT_TRUE(fs::exists(scratch(one_id) + "/file"));
  EXPECT_THAT(recovered(), ElementsAre("session " + one_id));
  EXPECT_THAT(traces_of_sessions(root_), IsEmpty());
}

TEST_F(RecoveryTest, S29_ALiveSessionsScratchStaysWhoseMarkerCannotBeLookedFor) {
  const auto session = make(one_id, Durability::ephemeral);
  {
    const test::Faults faults({test::error_always("files.look", EIO)});
    EXPECT_THAT(recovered(), IsEmpty());
  }
  EXPECT_EQ(text_of(scratch(one_id) + "/file"), "work");
  session->remove(false);
}

TEST_F(RecoveryTest, S29_ACgroupWhoseOwnerLivesIsNotKilled) {
  const auto place = os::find_cgroup_place();
  if (!place) GTEST_SKIP() << place.error();
  auto pool = os::CgroupLeafPool::create(*place, os::new_cgroup_name(), 0);
  ASSERT_TRUE(pool);
  // What a create leaves that fails, and whose removal fails too.
  {
    auto session = make(one_id, Durability::ephemeral, (*pool)->path());
    const test::Faults faults({test::error_at("remove.scratch", EIO)});
    session->abandon();
  }
  ASSERT_TRUE(fs::exists(record(one_id)));
  EXPECT_THAT(recovered(), IsEmpty());
  EXPECT_TRUE(fs::exists((*pool)->path())) << "it holds what other sessions of its owner run";
  EXPECT_THAT(remembered_.text(), HasSubstr(one_id + " is left for the next recovery"));
  pool->reset();
  EXPECT_THAT(recovered(), ElementsAre("session " + one_id));
  EXPECT_THAT(traces_of_sessions(root_), IsEmpty());
}

TEST_F(RecoveryTest, S29_TheLockOfAKeyThatNobodyUsesGoes) {
  const std::string lock = root_ + "/.tai-sandbox/.caisson/keys/key.lock";
  put(lock, "");
  EXPECT_THAT(recovered(), IsEmpty());
  EXPECT_THAT(traces_of_sessions(root_), IsEmpty());
  const auto session = make(one_id, Durability::persistent);
  EXPECT_THAT(recovered(), IsEmpty());
  EXPECT_TRUE(fs::exists(lock)) << "the control: one that is used stays";
  session->remove(true);
}

TEST_F(RecoveryTest, S29_WhatAnOwnerLeftHalfMadeIsRemoved) {
  const std::string records = root_ + "/.tai-sandbox/.caisson/";
  put(records + one_id + ".lock", "");
  put(records + one_id + ".new", R"({"half)");
  put(records + other_id + ".lock", "");
  put(records + other_id + ".json", "no marker");
  fs::create_directories(records + other_id + ".tmp/x");
  fs::create_directories(scratch(other_id));
  put(records + "unknown", "");
  EXPECT_THAT(recovered(), ElementsAre("session " + other_id))
      << "a marker that makes no sense is still ours";
  EXPECT_TRUE(fs::exists(records + "unknown")) << "what is not named as ours is not ours";
  fs::remove(records + "unknown");
  EXPECT_THAT(traces_of_sessions(root_), IsEmpty());
}

TEST_F(RecoveryTest, S94_ADeadOwnersProcessesAreKilled) {
  const auto place = os::find_cgroup_place();
  if (!place) GTEST_SKIP() << place.error();
  fs::create_directories(place->directory);
  Child owner([&] {
    const std::string cgroup = place->directory + "/" + os::new_cgroup_name();
    fs::create_directory(cgroup);
    const pid_t pid = ::fork();
    if (pid == 0) {
      put(cgroup + "/cgroup.procs", "0");
      put(directory_ / "in-cgroup", "");
      for (;;) ::pause();
    }
    put(directory_ / "pid", std::to_string(pid));
    static_cast<void>(make(one_id, Durability::ephemeral, cgroup).release());
  });
  const int pid = std::stoi(text_of(directory_ / "pid"));
  const os::Fd process = os::Fd::adopt(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  ASSERT_TRUE(process);
  ASSERT_TRUE(test::eventually([&] { return fs::exists(directory_ / "in-cgroup"); }));
  owner.kill();
  pollfd end = {process.number(), POLLIN, 0};
  ASSERT_EQ(::poll(&end, 1, 0), 0) << "the control: its owner's death leaves it running";
  EXPECT_THAT(recovered(), ElementsAre("session " + one_id));
  EXPECT_EQ(::poll(&end, 1, 10000), 1);
  EXPECT_THAT(traces_of_sessions(root_), IsEmpty());
  std::error_code in_use;
  fs::remove(place->directory, in_use);
}

TEST_F(RecoveryTest, S94_ASessionWhoseProcessesCannotBeSeenStaysWhileItsScratchIsUsed) {
  const auto place = os::find_cgroup_place();
  if (!place) GTEST_SKIP() << place.error();
  // Names that no other test's processes use.
  const std::string unseen = os::random_hex_id();
  const std::string seen = os::random_hex_id();
  // Of an owner who saw that path in another cgroup namespace, and of one who saw it in this.
  Child owner([&] {
    const std::string cgroup = place->directory + "/" + os::new_cgroup_name();
    os::ProcessIdentity other = os::own_identity();
    ++other.cgroup_namespace;
    for (const auto& [id, identity] : {std::pair(unseen, other), std::pair(seen, os::own_identity())}) {
      static_cast<void>(
          std::make_unique<SessionOnDisk>(layout_, record_of(id, Durability::ephemeral), identity, cgroup)
              .release());
    }
  });
  owner.kill();
  {
    const Child in_one([&] { fs::current_path(scratch(unseen)); });
    const Child in_other([&] { fs::current_path(scratch(seen)); });
    EXPECT_THAT(recovered(), ElementsAre("session " + seen))
        << "the control: that cgroup is known to be gone";
    EXPECT_THAT(remembered_.text(), HasSubstr("processes of it live"));
    EXPECT_TRUE(fs::exists(scratch(unseen)));
    EXPECT_TRUE(fs::exists(record(unseen)));
  }
  EXPECT_THAT(recovered(), ElementsAre("session " + unseen));
  EXPECT_THAT(traces_of_sessions(root_), IsEmpty());
}

TEST_F(RecoveryTest, S92_ScratchWithoutAMarkerIsRemovedUnlessItIsUsed) {
  if (!os::is_root())
    GTEST_SKIP() << "an ordinary user may not look into others' processes, and so keeps all";
  for (const char* name : {"tmpidle", "tmpcwd", "tmpopen", "tmpdeep", "tmpgone"}) {
    fs::create_directories(scratch(name) + "/deep/er");
    put(scratch(name) + "/file", "");
  }
  put(scratch("a-file"), "");
  {
    const Child in_it([&] { fs::current_path(scratch("tmpcwd")); });
    const Child has_file(
        [&] { static_cast<void>(::open((scratch("tmpopen") + "/file").c_str(), O_RDONLY)); });
    const Child below([&] { fs::current_path(scratch("tmpdeep") + "/deep/er"); });
    const Child deleted([&] {
      static_cast<void>(::open((scratch("tmpgone") + "/file").c_str(), O_RDONLY));
      fs::remove(scratch("tmpgone") + "/file");
    });
    const auto lines = recovered_in_the_end(1);
    ASSERT_EQ(lines.size(), 1U) << remembered_.text();
    EXPECT_THAT(lines[0], HasSubstr("tmpidle"));
    EXPECT_THAT(entries_of(root_ + "/.ephemeral"),
                ElementsAre("a-file", "tmpcwd", "tmpdeep", "tmpgone", "tmpopen"));
    EXPECT_THAT(remembered_.text(), HasSubstr("a process uses it"));
  }
  EXPECT_EQ(recovered_in_the_end(4).size(), 4U) << "the control: nobody uses them any more";
  EXPECT_THAT(entries_of(root_ + "/.ephemeral"), ElementsAre("a-file"));
}

TEST_F(RecoveryTest, S92_ScratchIsKeptWhereAProcessCannotBeLookedInto) {
  if (!os::is_root()) GTEST_SKIP() << "needs root, to have processes of two users";
  fs::permissions(directory_.path(), fs::perms(0711));
  fs::permissions(fs::path(directory_.path()).parent_path(), fs::perms(0711));
  const std::string root = directory_ / "of-nobody";
  fs::create_directory(root);
  ASSERT_EQ(::chown(root.c_str(), 65534, 65534), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    // Processes of root's, this test program among them, are closed to this one.
    if (::setresgid(65534, 65534, 65534) != 0 || ::setresuid(65534, 65534, 65534) != 0) ::_exit(2);
    const Layout layout = Layout::open(root);
    fs::create_directory(root + "/.ephemeral/tmpidle");
    ::_exit(recover(layout, {}).empty() && fs::exists(root + "/.ephemeral/tmpidle") ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  const Layout layout = Layout::open(root);
  EXPECT_TRUE(test::eventually([&] { return recover(layout, {}).size() == 1; }))
      << "the control: root can look into all";
}

TEST_F(RecoveryTest, S30_WhatCannotBeRemovedIsLeftForTheNextTime) {
  make_dead({{one_id, Durability::ephemeral}, {other_id, Durability::ephemeral}});
  // Not held open: that would be a use.
  const auto set_flags = [this](int flags) {
    const os::Fd file = os::Fd::adopt(::open((scratch(one_id) + "/file").c_str(), O_RDONLY | O_CLOEXEC));
    return ::ioctl(file.number(), FS_IOC_SETFLAGS, &flags) == 0;
  };
  if (!set_flags(FS_IMMUTABLE_FL)) {
    GTEST_SKIP() << "needs CAP_LINUX_IMMUTABLE and a file system with that flag";
  }
  EXPECT_THAT(recovered(), ElementsAre("session " + other_id)) << "the rest is handled all the same";
  EXPECT_TRUE(fs::exists(record(one_id)));
  EXPECT_THAT(remembered_.text(), HasSubstr(one_id + " is left for the next recovery"));
  ASSERT_TRUE(set_flags(0));
  EXPECT_THAT(recovered(), ElementsAre("session " + one_id));
  EXPECT_THAT(traces_of_sessions(root_), IsEmpty());
}

TEST_F(RecoveryTest, S30_NeverLeavesTheRoot) {
  put(directory_ / "outside", "kept");
  const std::string records = root_ + "/.tai-sandbox/.caisson/";
  fs::create_directory_symlink(directory_.path(), scratch(one_id));
  put(records + one_id + ".json", "");
  fs::create_directory_symlink(directory_.path(), records + one_id + ".tmp");
  EXPECT_EQ(recovered().size(), 1U);
  EXPECT_EQ(text_of(directory_ / "outside"), "kept");
  EXPECT_THAT(traces_of_sessions(root_), IsEmpty());
}

TEST_F(RecoveryTest, ManyRecoveriesAtOnceHandleEachThingOnce) {
  make_dead({{one_id, Durability::ephemeral}, {other_id, Durability::persistent}});
  std::vector<std::vector<std::string>> lines(4);
  std::vector<std::thread> threads;
  for (auto& mine : lines) threads.emplace_back([&] { mine = recover(*layout_, {}); });
  for (std::thread& thread : threads) thread.join();
  std::size_t all = 0;
  for (const auto& mine : lines) all += mine.size();
  EXPECT_EQ(all, 2U);
  EXPECT_THAT(traces_of_sessions(root_), IsEmpty());
}

}  // namespace
}  // namespace caisson::local
