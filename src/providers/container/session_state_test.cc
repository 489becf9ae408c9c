// What a session has on disk: recorded before it is made, and removed with it (D-7, S-24 to S-27).
#include "providers/container/session_state.h"

#include <gmock/gmock.h>

#include "providers/container/storage_bed_test.h"

namespace caisson::container {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class SessionStateTest : public testing::Test {
 protected:
  std::unique_ptr<SessionOnDisk> make(const kit::SessionRecord& session, SessionCgroups cgroups = {}) {
    return std::make_unique<SessionOnDisk>(storage_, session, os::own_identity(), std::move(cgroups));
  }
  std::string record(char digit) const {
    return text_of(bed_.runtime + "/sessions/" + std::string(32, digit) + "/session.json");
  }

  const test::Faults faults_{no_bounds()};
  StorageBed bed_;
  std::shared_ptr<const Storage> storage_ = bed_.open();
};

TEST_F(SessionStateTest, AnEphemeralOneHasIdsOfItsOwn) {
  const auto one = make(ephemeral('1'));
  const auto other = make(ephemeral('2'));
  EXPECT_EQ(one->volume_path(), "") << "its workspace is in the box";
  EXPECT_EQ(one->state_path(), bed_.runtime + "/sessions/" + std::string(32, '1'));
  EXPECT_EQ(test::mode_of(one->state_path()), 0700U);
  EXPECT_EQ(test::mode_of(one->state_path() + "/session.json"), 0600U);
  if (!one->slot_is_shared()) {
    EXPECT_NE(one->slot(), other->slot()) << "S-103";
  }
  one->remove(true);
  other->remove(false);
  EXPECT_THAT(bed_.left(), IsEmpty());
}

TEST_F(SessionStateTest, S24_S32_APersistentOneHasItsVolumesAndKeepsIt) {
  auto session = make(persistent('1'));
  EXPECT_EQ(session->volume_path(), bed_.volume());
  const UidSlot slot = session->slot();
  put(session->volume_path() + "/file", "work");
  session->remove(false);
  EXPECT_EQ(text_of(bed_.volume() + "/file"), "work");
  EXPECT_THAT(bed_.left(), Not(Contains(HasSubstr("sessions"))));
  session = make(persistent('2'));
  EXPECT_EQ(session->slot(), slot);
  session->remove(true);
  EXPECT_THAT(bed_.left(), IsEmpty());
}

TEST_F(SessionStateTest, D7_ItsRecordSaysAllButTheEnvironment) {
  const std::string name = cgroup_name(os::own_identity(), std::string(32, '1'));
  const SessionCgroups cgroups{"/sys/fs/cgroup/caisson/" + name, {"/sys/fs/cgroup/pids/caisson/" + name}};
  const auto session = make(persistent('1'), cgroups);
  const std::string text = record('1');
  EXPECT_THAT(text, AllOf(HasSubstr(R"("workspace_key":"key")"), HasSubstr(R"("durability":"persistent")"),
                          HasSubstr(R"("image":"host")"), HasSubstr(R"("created_at":")"),
                          HasSubstr(R"("tai42.sandbox":"1")"), HasSubstr(R"("ids":{"first_user":)"),
                          HasSubstr("\"volume\":\"" + bed_.volume()), HasSubstr(R"("boot_id":")")));
  EXPECT_THAT(text, AllOf(Not(HasSubstr("canary")), Not(HasSubstr("TOKEN")))) << "S-6";
  const auto read = read_session_record(*storage_->layout, std::string(32, '1'));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->workspace_key, "key");
  EXPECT_EQ(read->cgroups, cgroups);
  EXPECT_EQ(read->owner.pid, ::getpid());
  EXPECT_EQ(read->owner.boot_id, os::own_identity().boot_id);
  session->remove(true);
  EXPECT_EQ(read_session_record(*storage_->layout, std::string(32, '1')).error(), os::error_of(ENOENT));
}

TEST_F(SessionStateTest, D7_WhoseItIsByNowIsRecorded) {
  const auto session = make(ephemeral('1'), {"/sys/fs/cgroup/a", {}});
  kit::SessionRecord later = ephemeral('1');
  later.spec.labels = {{"team", "blue"}};
  session->pass_on(later);
  const std::string text = record('1');
  EXPECT_THAT(text, AllOf(HasSubstr(R"("team":"blue")"), HasSubstr("/sys/fs/cgroup/a"),
                          HasSubstr(R"("ids":{"first_user":)"), Not(HasSubstr("canary"))));
  {
    const test::Faults fault(no_bounds({test::error_at("record.rename", ENOSPC)}));
    EXPECT_EQ(code_of_call([&] { session->pass_on(ephemeral('1')); }), ErrorCode::root_unusable);
  }
  EXPECT_EQ(record('1'), text) << "what was recorded stays";
  EXPECT_THAT(entries_of(session->state_path()), testing::ElementsAre("session.json"));
  session->remove(false);
}

TEST_F(SessionStateTest, D7_TheRecordComesFirst) {
  // Dead where the ids are about to be had: the record is there, and says nothing of them yet.
  const pid_t child = ::fork();
  if (child == 0) {
    os::arm_faults(no_bounds({{"volume.recorded", 0}}));
    static_cast<void>(make(persistent('1')));
    ::_exit(0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_THAT(record('1'), AllOf(HasSubstr(R"("workspace_key":"key")"), Not(HasSubstr(R"("ids":)"))));
}

TEST_F(SessionStateTest, S27_AFailedCreateLeavesNothing) {
  for (const char* point : {"session.lock", "session.directory", "record.open", "record.rename",
                            "volume.making", "volume.record", "volume.directory", "files.look"}) {
    {
      const test::Faults fault(no_bounds({test::error_at(point, EIO)}));
      EXPECT_EQ(code_of_call([&] { static_cast<void>(make(persistent('1'))); }), ErrorCode::root_unusable)
          << point;
    }
    EXPECT_THAT(bed_.left(), IsEmpty()) << point;
  }
  const test::Faults fault(no_bounds());
  const auto session = make(persistent('1'));
  session->abandon();
  EXPECT_THAT(bed_.left(), IsEmpty()) << "nor does one that fails later on";
  session->abandon();
  session->remove(true);
  EXPECT_THAT(bed_.left(), IsEmpty()) << "what is over is over";
  const auto last = make(ephemeral('1'));
  last->abandon();
  EXPECT_THAT(bed_.left(), IsEmpty());
}

TEST_F(SessionStateTest, S27_AFailedCreateTakesNoWorkspaceThatItFound) {
  make(persistent('1'))->remove(false);
  put(bed_.volume() + "/file", "work");
  {
    const test::Faults fault(no_bounds({test::error_at("record.rename", EIO, 2)}));
    EXPECT_EQ(code_of_call([&] { static_cast<void>(make(persistent('2'))); }), ErrorCode::root_unusable);
  }
  EXPECT_EQ(text_of(bed_.volume() + "/file"), "work");
  make(persistent('3'))->remove(true);
  EXPECT_THAT(bed_.left(), IsEmpty());
}

TEST_F(SessionStateTest, S26_ARemovalThatFailedIsTriedAgain) {
  const auto session = make(persistent('1'));
  {
    const test::Faults fault(no_bounds({test::error_at("session.remove", EIO)}));
    EXPECT_EQ(code_of_call([&] { session->remove(false); }), ErrorCode::removal_failed);
  }
  EXPECT_TRUE(fs::exists(bed_.volume())) << "the control";
  EXPECT_TRUE(fs::exists(session->state_path() + "/session.json")) << "it stays listed";
  session->remove(true);
  EXPECT_THAT(bed_.left(), IsEmpty()) << "S-24: a destroy after a release that failed removes the workspace";
}

TEST_F(SessionStateTest, S26_WhatTheSessionPutThereGoesWithIt) {
  const auto session = make(ephemeral('1'));
  fs::create_directories(session->state_path() + "/deep/er");
  fs::create_directory_symlink(bed_.directory.path(), session->state_path() + "/link");
  put(bed_.directory / "outside", "kept");
  session->remove(false);
  EXPECT_EQ(text_of(bed_.directory / "outside"), "kept");
  EXPECT_THAT(bed_.left(), IsEmpty());
}

TEST_F(SessionStateTest, S28_OfOneIdThereIsOneSession) {
  const auto session = make(ephemeral('1'));
  EXPECT_EQ(code_of_call([&] { static_cast<void>(make(ephemeral('1'))); }), ErrorCode::root_unusable);
  EXPECT_TRUE(fs::exists(session->state_path() + "/session.json"));
  session->remove(false);
}

}  // namespace
}  // namespace caisson::container
