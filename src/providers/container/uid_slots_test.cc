// Ranges of ids: which there are, and that no two boxes or workspaces have the same (S-103).
#include "providers/container/uid_slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "os/beneath.h"
#include "os/self.h"
#include "tests/support/on_disk.h"
#include "tests/support/temporary_directory.h"

namespace caisson::container {
namespace {

using test::Child;
using test::code_of_call;
using test::entries_of;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::UnorderedElementsAre;

constexpr std::uint32_t base = 524288;
constexpr std::uint32_t slot_size = 65536;

UidSlot root_slot(std::uint32_t place) {
  return {base + place * slot_size, base + place * slot_size, slot_size};
}

UidSources of_root() { return {0, 0, "", "", "root:x:0:0::/root:/bin/sh\n", "root:x:0:\n"}; }
UidSources of_user(std::string subuid, std::string subgid) {
  return {1000, 1001, std::move(subuid), std::move(subgid), "ann:x:1000:1001::/home/ann:/bin/sh\n", ""};
}

TEST(UidRangesTest, S103_RootsAre65536FromTheBaseUp) {
  const UidRanges ranges(of_root(), base, 1024);
  EXPECT_EQ(ranges.at(0), root_slot(0));
  EXPECT_EQ(ranges.at(1), root_slot(1));
  EXPECT_FALSE(ranges.common());
  const auto last = ranges.at(ranges.size() - 1);
  ASSERT_TRUE(last);
  EXPECT_LT(std::uint64_t{last->first_user} + last->count, 0xffffffffU);
}

TEST(UidRangesTest, S103_RootsAreNeverOnesThatOthersHave) {
  UidSources sources = of_root();
  sources.subuid = "ann:524288:1\n";
  sources.subgid = "bob:655359:2\n";  // The last id of slot 1 and the first of slot 2.
  sources.passwd = "carl:x:786432:5::/:/bin/sh\ndora:x:7:917503::/:/bin/sh\n";
  sources.group_file = "some:x:983040:\n";
  const UidRanges ranges(sources, base, 1024);
  for (const std::uint32_t place : {0U, 1U, 2U, 4U, 5U, 7U}) {
    EXPECT_FALSE(ranges.at(place)) << place;
    EXPECT_FALSE(ranges.may_use(root_slot(place))) << place;
  }
  for (const std::uint32_t place : {3U, 6U, 8U}) {
    EXPECT_EQ(ranges.at(place), root_slot(place)) << "the control";
    EXPECT_TRUE(ranges.may_use(root_slot(place))) << place;
  }
  EXPECT_FALSE(ranges.may_use({0, 0, slot_size})) << "the machine's own ids";
  EXPECT_FALSE(ranges.may_use({base, base, 0}));
}

TEST(UidRangesTest, S103_AUsersAreInWhatIsTheirs) {
  const UidRanges ranges(of_user("ann:100000:4096\nbob:1:9\n", "ann:200000:3072\n1000:300000:1100\n"), base,
                         1024);
  ASSERT_EQ(ranges.size(), 3U);
  EXPECT_EQ(ranges.at(0), (UidSlot{100000, 200000, 1024}));
  EXPECT_EQ(ranges.at(2), (UidSlot{102048, 202048, 1024}));
  EXPECT_EQ(ranges.common(), (UidSlot{103072, 300000, 1024}));
  EXPECT_TRUE(ranges.may_use({100000, 200000, 512})) << "one of other settings";
  EXPECT_FALSE(ranges.may_use({99999, 200000, 512}));
  EXPECT_FALSE(ranges.may_use({100000, 203000, 512}));
  EXPECT_FALSE(ranges.may_use({1000, 1001, 1}));
  EXPECT_THAT(ranges.description(), HasSubstr("1024"));
}

TEST(UidRangesTest, S103_WithoutARangeAllShareTheUsersId) {
  for (const auto& [subuid, subgid] :
       std::vector<std::pair<std::string, std::string>>{{"", ""},
                                                        {"ann:100000:65536\n", ""},
                                                        {"", "ann:100000:65536\n"},
                                                        {"ann:1:1023\n", "ann:1:1023\n"}}) {
    const UidRanges ranges(of_user(subuid, subgid), base, 1024);
    EXPECT_EQ(ranges.size(), 0U);
    EXPECT_EQ(ranges.common(), (UidSlot{1000, 1001, 1}));
    EXPECT_TRUE(ranges.may_use({1000, 1001, 1}));
    EXPECT_THAT(ranges.description(), HasSubstr("shared"));
    EXPECT_THAT(ranges.description(), HasSubstr("/etc/subuid"));
  }
}

TEST(UidRangesTest, OfThisMachine) {
  const UidSources sources = UidSources::of_this_machine();
  EXPECT_EQ(sources.user, os::own_user());
  EXPECT_THAT(sources.passwd, HasSubstr("root:"));
  const UidRanges ranges(sources, base, 1024);
  EXPECT_THAT(ranges.description(), Not(IsEmpty()));
}

class UidSlotsTest : public testing::Test {
 protected:
  // As another process has them.
  UidSlots slots(const UidSources& sources = of_root(), std::uint32_t from = base,
                 std::uint32_t per_box = 1024) {
    return {UidRanges(sources, from, per_box), os::open_directory(directory_.path()).value(),
            [this](const std::string& key, const os::IdRange& users) {
              const auto at = recorded_.find(key);
              return at != recorded_.end() && at->second.first_user == users.first &&
                     at->second.count == users.count;
            }};
  }
  std::vector<std::string> left() const { return entries_of(directory_.path()); }

  test::TemporaryDirectory directory_;
  std::map<std::string, UidSlot> recorded_;
};

TEST_F(UidSlotsTest, S103_TwoThatLiveNeverHaveTheSame) {
  UidSlots ours = slots();
  UidSlots theirs = slots();
  UidLease first = ours.take();
  UidLease second = theirs.take();
  UidLease third = ours.take();
  EXPECT_EQ(first.slot, root_slot(0));
  EXPECT_EQ(second.slot, root_slot(1));
  EXPECT_EQ(third.slot, root_slot(2));
  EXPECT_FALSE(first.shared);
  ours.give_back(std::move(first));
  UidLease again = theirs.take();
  EXPECT_EQ(again.slot, root_slot(0)) << "it came free";
  for (UidLease* lease : {&second, &third, &again}) ours.give_back(std::move(*lease));
  EXPECT_THAT(left(), IsEmpty());
}

TEST_F(UidSlotsTest, S29_ADeadProcessHasNone) {
  Child other([this] {
    auto* const theirs = new UidSlots(slots());
    new UidLease(theirs->take());
  });
  UidSlots ours = slots();
  UidLease lease = ours.take();
  EXPECT_EQ(lease.slot, root_slot(1)) << "the control";
  ours.give_back(std::move(lease));
  other.kill();
  UidLease free = ours.take();
  EXPECT_EQ(free.slot, root_slot(0));
  ours.give_back(std::move(free));
  EXPECT_THAT(left(), IsEmpty());
}

TEST_F(UidSlotsTest, S103_AWorkspaceKeepsItsOwn) {
  UidSlots ours = slots();
  UidLease lease = ours.take();
  ours.keep(lease, "key");
  recorded_["key"] = lease.slot;
  ours.give_back(std::move(lease));
  UidLease other = ours.take();
  EXPECT_EQ(other.slot, root_slot(1)) << "nobody uses it, and yet it is the workspace's";
  ours.give_back(std::move(other));
  for (int session = 0; session < 2; ++session) {
    const UidLease own = ours.take_recorded("key", root_slot(0));
    EXPECT_EQ(own.slot, root_slot(0));
    EXPECT_FALSE(own.shared) << "with sessions of the workspace alone";
  }
  ours.forget(root_slot(0));
  EXPECT_THAT(left(), UnorderedElementsAre("524288-65536.key")) << "it is recorded still";
  recorded_.clear();
  ours.forget(root_slot(0));
  EXPECT_THAT(left(), IsEmpty());
}

TEST_F(UidSlotsTest, S29_WhatADeadCreateKeptComesFree) {
  UidSlots ours = slots();
  {
    const UidLease dead = ours.take();
    ours.keep(dead, "key");
  }
  recorded_["key"] = root_slot(5);
  UidLease lease = ours.take();
  EXPECT_EQ(lease.slot, root_slot(0));
  ours.give_back(std::move(lease));
  EXPECT_THAT(left(), IsEmpty());
}

TEST_F(UidSlotsTest, S29_ARecoveryFreesWhatNobodyHasAndNothingElse) {
  UidSlots ours = slots();
  UidLease live = ours.take();
  {
    UidLease recorded = ours.take();
    ours.keep(recorded, "key");
    recorded_["key"] = recorded.slot;
    const UidLease half_made = ours.take();
    ours.keep(half_made, "lost");
    const UidLease ephemeral = ours.take();
  }
  test::put(directory_ / (std::string(32, 'a') + ".lock"), "");
  test::put(directory_ / "unknown", "");
  ASSERT_EQ(left().size(), 8U) << "the control";
  const auto freed = ours.recover();
  ASSERT_EQ(freed.size(), 1U);
  EXPECT_THAT(freed[0], HasSubstr(std::to_string(base + 2 * slot_size)));
  EXPECT_THAT(left(), UnorderedElementsAre("524288-65536.lock", "589824-65536.key", "unknown"));
  EXPECT_THAT(ours.recover(), IsEmpty());
  ours.give_back(std::move(live));
}

TEST_F(UidSlotsTest, S103_ARecordedSlotThatOthersHaveByNowIsRefused) {
  UidSources sources = of_root();
  sources.passwd += "new:x:524300:524300::/:/bin/sh\n";
  const UidSlots ours = slots(sources);
  const auto error = test::error_of_call([&] { static_cast<void>(ours.take_recorded("key", root_slot(0))); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::workspace_conflict);
  EXPECT_THAT(error->what(), HasSubstr("524288"));
  EXPECT_EQ(ours.take_recorded("key", root_slot(1)).slot, root_slot(1)) << "the control";
}

TEST_F(UidSlotsTest, S103_OtherSettingsDoNotMakeThemOverlap) {
  UidSlots ours = slots();
  UidSlots theirs = slots(of_root(), base + 1000);
  UidLease first = ours.take();
  UidLease second = theirs.take();
  EXPECT_EQ(second.slot.first_user, base + 1000 + slot_size) << "its own slot 0 has ids of ours";
  UidLease third = ours.take();
  EXPECT_EQ(third.slot, root_slot(3));
  for (UidLease* lease : {&first, &second, &third}) ours.give_back(std::move(*lease));
  {
    const UidLease dead = theirs.take();
  }
  EXPECT_THAT(left(), UnorderedElementsAre("525288-65536.lock"));
  UidLease free = ours.take();
  EXPECT_EQ(free.slot, root_slot(0)) << "a lock that nobody holds stands in nobody's way";
  ours.give_back(std::move(free));
  EXPECT_THAT(left(), IsEmpty());
}

TEST_F(UidSlotsTest, S103_AUserWhoseRangeIsExhaustedSharesAndIsTold) {
  UidSlots ours = slots(of_user("ann:100000:2048\n", "ann:100000:2048\n"));
  UidLease own = ours.take();
  EXPECT_EQ(own.slot.first_user, 100000U);
  EXPECT_FALSE(own.shared);
  UidLease common = ours.take();
  EXPECT_EQ(common.slot.first_user, 101024U);
  EXPECT_TRUE(common.shared);
  EXPECT_EQ(ours.take().slot, common.slot);
  ours.keep(common, "key");
  EXPECT_TRUE(ours.take_recorded("key", common.slot).shared);
  ours.give_back(std::move(common));
  ours.give_back(std::move(own));
  EXPECT_THAT(left(), IsEmpty());
}

TEST_F(UidSlotsTest, S103_RootWithoutAFreeOneIsToldSo) {
  UidSlots ours = slots(of_root(), 0xffff0000U - slot_size);
  UidLease last = ours.take();
  EXPECT_EQ(code_of_call([&] { static_cast<void>(ours.take()); }), ErrorCode::unavailable);
  ours.give_back(std::move(last));
}

TEST_F(UidSlotsTest, ADirectoryThatIsGoneIsTyped) {
  const std::string path = directory_ / "gone";
  std::filesystem::create_directory(path);
  UidSlots ours(UidRanges(of_root(), base, 1024), os::open_directory(path).value(),
                [](const std::string&, const os::IdRange&) { return true; });
  std::filesystem::remove(path);
  EXPECT_EQ(code_of_call([&] { static_cast<void>(ours.take()); }), ErrorCode::root_unusable);
}

TEST_F(UidSlotsTest, S103_ManyThreadsNeverShare) {
  UidSlots ours = slots();
  std::mutex mutex;
  std::set<std::uint32_t> live;
  std::vector<std::thread> threads;
  for (int number = 0; number < 4; ++number) {
    threads.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        UidLease lease = ours.take();
        {
          const std::lock_guard lock(mutex);
          EXPECT_TRUE(live.insert(lease.slot.first_user).second);
        }
        std::this_thread::yield();
        {
          const std::lock_guard lock(mutex);
          live.erase(lease.slot.first_user);
        }
        ours.give_back(std::move(lease));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(left(), IsEmpty());
}

}  // namespace
}  // namespace caisson::container
