// Persistent workspaces, shared between sessions and processes (S-25, S-103).
#include "providers/container/volumes.h"

#include <gmock/gmock.h>

#include <atomic>
#include <boost/json.hpp>
#include <thread>

#include "os/clock.h"
#include "os/files.h"
#include "providers/container/storage_bed_test.h"

namespace caisson::container {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class VolumesTest : public testing::Test {
 protected:
  Volume take(const kit::SessionRecord& session) { return Volume::take(storage_, session); }
  std::string record(const std::string& key = "key") const { return bed_.volume(key) + ".json"; }
  uid_t owner(const std::string& key = "key") const {
    struct stat is = {};
    return ::lstat(bed_.volume(key).c_str(), &is) == 0 ? is.st_uid : ~uid_t{0};
  }

  const test::Faults faults_{no_bounds()};
  StorageBed bed_;
  std::shared_ptr<const Storage> storage_ = bed_.open();
};

TEST_F(VolumesTest, S103_ItKeepsTheIdsItWasMadeWith) {
  Volume first = take(persistent('1'));
  EXPECT_EQ(first.path(), bed_.volume());
  if (os::is_root()) {
    EXPECT_EQ(owner(), first.slot().first_user) << "its files are the box's root's";
  }
  Volume other = take(persistent('2', "other"));
  if (!first.slot_is_shared()) {
    EXPECT_NE(other.slot(), first.slot()) << "no two workspaces have the same";
  }
  const UidSlot slot = first.slot();
  Volume second = take(persistent('3'));
  EXPECT_EQ(second.slot(), slot) << "with another session on it";
  first.give_up(false);
  second.give_up(false);
  storage_ = bed_.open();
  Volume later = take(persistent('4'));
  EXPECT_EQ(later.slot(), slot) << "with sessions of a later process";
  later.give_up(true);
  other.give_up(true);
  EXPECT_THAT(bed_.left(), IsEmpty());
}

TEST_F(VolumesTest, ItsRecordSaysWhatItIsAndNoSecret) {
  Volume volume = take(persistent('1'));
  const std::string text = text_of(record());
  EXPECT_EQ(test::mode_of(record()), 0600U);
  EXPECT_THAT(text, HasSubstr(R"("workspace_key":"key")"));
  EXPECT_THAT(text, HasSubstr(R"("team":"red")"));
  EXPECT_THAT(text, Not(HasSubstr("canary"))) << "S-6";
  EXPECT_THAT(text, Not(HasSubstr("TOKEN")));
  const auto read = read_volume_record(*storage_->layout, "key");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->slot, volume.slot());
  EXPECT_EQ(read->bound, volume.bound());
  volume.give_up(true);
}

TEST_F(VolumesTest, TheOperatorsSettingsAreUsed) {
  ContainerSettings settings;
  settings.root = bed_.root;
  settings.runtime_directory = bed_.runtime;
  settings.uid_base = 3 * first_id;
  settings.workspace_bytes = 7U << 20U;
  const auto refusing = Storage::open(settings);
  EXPECT_EQ(code_of_call([&] { static_cast<void>(Volume::take(refusing, persistent('1'))); }),
            ErrorCode::not_enforceable);
  settings.unbounded_disk = true;
  const auto storage = Storage::open(settings);
  Volume volume = Volume::take(storage, persistent('1'));
  if (os::is_root()) {
    EXPECT_EQ(volume.slot().first_user, 3 * first_id);
  }
  volume.give_up(true);
  if (!no_images_because().empty()) return;
  const test::Faults no_quota({test::error_always("bound.quota", ENOTTY)});
  Volume bounded = Volume::take(storage, persistent('1'));
  EXPECT_EQ(bounded.bound().bytes, 7U << 20U);
  bounded.give_up(true);
}

TEST_F(VolumesTest, S25_TheLastSessionFulfilsTheWish) {
  Volume first = take(persistent('1'));
  Volume last = take(persistent('2'));
  put(last.path() + "/file", "work");
  first.give_up(true);
  EXPECT_EQ(text_of(last.path() + "/file"), "work") << "never under another";
  EXPECT_EQ(code_of_call([&] { static_cast<void>(take(persistent('3'))); }), ErrorCode::workspace_conflict);
  last.give_up(false);
  EXPECT_THAT(bed_.left(), IsEmpty()) << "its ids are free too";
}

TEST_F(VolumesTest, S24_AWishMayComeWhenAllHaveLeft) {
  Volume volume = take(persistent('1'));
  put(volume.path() + "/file", "work");
  volume.give_up(false);
  ASSERT_TRUE(fs::exists(bed_.volume() + "/file")) << "the control";
  Volume::remove_when_unused(*storage_, "key");
  // Ids that one would have freed while another looked at them are the next one's to find.
  storage_->slots->recover();
  EXPECT_THAT(bed_.left(), IsEmpty());
}

TEST_F(VolumesTest, S27_AFailedCreateTakesBackItsOwnAndNothingElse) {
  take(persistent('1')).abandon();
  EXPECT_THAT(bed_.left(), IsEmpty());
  Volume first = take(persistent('1'));
  Volume second = take(persistent('2'));
  put(second.path() + "/file", "of another session");
  first.abandon();
  EXPECT_TRUE(fs::exists(bed_.volume() + "/file"));
  second.abandon();
  EXPECT_TRUE(fs::exists(bed_.volume() + "/file")) << "it had not made it";
  EXPECT_TRUE(fs::exists(record()));
  Volume::remove_when_unused(*storage_, "key");
  EXPECT_THAT(bed_.left(), IsEmpty());
}

TEST_F(VolumesTest, S103_AWorkspaceOfUnknownIdsIsRefused) {
  const auto refusal = [&] {
    const auto error = error_of_call([&] { static_cast<void>(take(persistent('1'))); });
    return error && error->code() == ErrorCode::workspace_conflict ? error->what() : std::string();
  };
  fs::create_directory(bed_.volume());
  EXPECT_THAT(refusal(), HasSubstr("no record"));
  EXPECT_THAT(bed_.left(), ElementsAre("root/volumes/key")) << "S-27: nothing of it is left";
  fs::remove(bed_.volume());
  put(bed_.volume() + ".img", "");
  EXPECT_THAT(refusal(), HasSubstr("no record"));
  fs::remove(bed_.volume() + ".img");

  take(persistent('1')).give_up(false);
  const std::string good = text_of(record());
  for (const char* text :
       {"", "[]", "{}", R"({"ids":{"first_user":524288,"first_group":524288,"count":65536}})",
        R"({"ids":{"first_user":-1,"count":0},"bound":{"kind":"none"}})",
        R"({"ids":{"first_user":524288,"count":9},"bound":{"kind":"image"}})"}) {
    put(record(), text);
    EXPECT_THAT(refusal(), HasSubstr("makes no sense")) << text;
    EXPECT_EQ(text_of(record()), text) << "it is left for people to look at";
  }
  if (os::is_root()) {
    put(record(), R"({"ids":{"first_user":0,"first_group":0,"count":65536},"bound":{"kind":"none"}})");
    EXPECT_THAT(refusal(), HasSubstr("the ids 0 to 65535")) << "ids of the machine's own";
  }
  put(record(), good);
  EXPECT_NO_THROW(take(persistent('1')).give_up(true)) << "the control";
}

TEST_F(VolumesTest, S102_WhatIsNoDirectoryIsNotFollowed) {
  take(persistent('1')).give_up(false);
  fs::remove(bed_.volume());
  const std::string outside = bed_.directory / "outside";
  fs::create_directory(outside);
  fs::create_directory_symlink(outside, bed_.volume());
  EXPECT_EQ(code_of_call([&] { static_cast<void>(take(persistent('1'))); }), ErrorCode::workspace_conflict);
  struct stat is = {};
  ASSERT_EQ(::stat(outside.c_str(), &is), 0);
  EXPECT_EQ(is.st_uid, os::own_user()) << "nobody gave it away";
  Volume::remove_when_unused(*storage_, "key");
  EXPECT_TRUE(fs::exists(outside));
  EXPECT_THAT(bed_.left(), IsEmpty());
}

TEST_F(VolumesTest, S25_NeverUnderAnotherProcess) {
  Child other([&] {
    auto* const held = new Volume(Volume::take(bed_.open(), persistent('1')));
    put(held->path() + "/file", "work");
  });
  take(persistent('2')).give_up(true);
  EXPECT_TRUE(fs::exists(bed_.volume() + "/file"));
  EXPECT_FALSE(settle_volume(*storage_, "key")) << "the other process uses it";
  other.kill();
  EXPECT_TRUE(settle_volume(*storage_, "key"));
  EXPECT_THAT(bed_.left(), IsEmpty());
}

// On one key, in threads of many processes; each session is the first, the last, or neither.
TEST_F(VolumesTest, S25_S103_ProcessesRaceOnOneKey) {
  constexpr int processes = 3, threads = 3, rounds = 15;
  std::vector<pid_t> children;
  for (int process = 0; process < processes; ++process) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child != 0) {
      children.push_back(child);
      continue;
    }
    std::atomic<int> wrong = 0, taken = 0;
    std::vector<std::thread> all;
    for (int thread = 0; thread < threads; ++thread) {
      all.emplace_back([&, thread] {
        const auto storage = bed_.open();
        for (int round = 0; round < rounds; ++round) {
          kit::SessionRecord session = persistent('0');
          session.id = os::random_hex_id();
          try {
            Volume volume = Volume::take(storage, session);
            ++taken;
            const auto record = read_volume_record(*storage->layout, "key");
            if (!record || record->slot != volume.slot() || !fs::is_directory(volume.path())) ++wrong;
            if ((round + thread) % 3 == 0) {
              volume.abandon();
            } else {
              volume.give_up((round + thread) % 3 == 1);
            }
          } catch (const SandboxError& error) {
            if (error.code() != ErrorCode::workspace_conflict) ++wrong;
          }
        }
      });
    }
    for (std::thread& thread : all) thread.join();
    ::_exit(wrong != 0 ? 1 : taken == 0 ? 2 : 0);
  }
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  Volume::remove_when_unused(*storage_, "key");
  EXPECT_THAT(bed_.left(), IsEmpty());
}

TEST_F(VolumesTest, S103_OneOfADeadCreateIsMadeToItsEnd) {
  for (const char* point : {"volume.kept", "volume.recorded", "volume.directory_made", "volume.unmaking"}) {
    const pid_t child = ::fork();
    if (child == 0) {
      os::arm_faults(no_bounds({{point, 0}}));
      static_cast<void>(Volume::take(bed_.open(), persistent('1')));
      ::_exit(0);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << point;
    ASSERT_THAT(bed_.left(), Not(IsEmpty())) << "the control";
    Volume volume = take(persistent('2'));
    EXPECT_EQ(volume.slot().first_user, os::is_root() ? first_id : volume.slot().first_user) << point;
    if (os::is_root()) {
      EXPECT_EQ(owner(), first_id) << point;
    }
    volume.give_up(true);
    static_cast<void>(storage_->slots->recover());
    EXPECT_THAT(bed_.left(), IsEmpty()) << point;
  }
}

}  // namespace
}  // namespace caisson::container
