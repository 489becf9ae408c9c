// Records on disk, and what they may get killed.
#include "kit/disk_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "os/beneath.h"
#include "os/cgroup.h"
#include "os/clock.h"
#include "tests/support/faults.h"
#include "tests/support/on_disk.h"
#include "tests/support/temporary_directory.h"

namespace caisson::kit {
namespace {

using testing::ElementsAre;

TEST(DiskRecordTest, IsReplacedWholeOrNotAtAll) {
  test::TemporaryDirectory directory;
  const os::Fd opened = os::open_directory(directory.path()).value();
  const auto replace = [&](std::string_view text) {
    return replace_disk_record(opened, "new", opened, "record.json", text, 0640);
  };
  ASSERT_TRUE(replace(R"({"a": 1})"));
  EXPECT_EQ(test::mode_of(directory / "record.json"), 0640U);
  for (const char* point : {"record.open", "record.write", "record.rename"}) {
    const test::Faults faults({test::error_at(point, ENOSPC)});
    EXPECT_EQ(replace(R"({"a": 2})").error(), os::error_of(ENOSPC)) << point;
  }
  const auto record = read_disk_record(opened, "record.json");
  ASSERT_TRUE(record);
  EXPECT_EQ(number_field<int>(record->object, "a"), 1);
  EXPECT_THAT(test::entries_of(directory.path()), ElementsAre("record.json"));
}

TEST(DiskRecordTest, WhatIsNoObjectIsAnError) {
  test::TemporaryDirectory directory;
  const os::Fd opened = os::open_directory(directory.path()).value();
  EXPECT_EQ(read_disk_record(opened, "none").error(), os::error_of(ENOENT));
  for (const char* text : {"", "[]", "{", "7", R"({"a": })"}) {
    test::put(directory / "record", text);
    EXPECT_EQ(read_disk_record(opened, "record").error(), os::error_of(EBADMSG)) << text;
  }
}

TEST(DiskRecordTest, FieldsOfOtherTypesAreNotThere) {
  const boost::json::object object = {{"text", "x"}, {"number", 7}, {"large", 1LL << 40}, {"owner", 3}};
  EXPECT_EQ(text_field(object, "text"), "x");
  EXPECT_EQ(text_field(object, "number"), "");
  EXPECT_EQ(text_field(object, "none"), "");
  EXPECT_EQ(number_field<int>(object, "number"), 7);
  EXPECT_EQ(number_field<int>(object, "text"), 0);
  EXPECT_EQ(number_field<int>(object, "large"), 0);
  EXPECT_EQ(owner_field(object).pid, 0);
}

TEST(DiskRecordTest, S29_NoOtherCgroupIsKilled) {
  const std::string hex = "fedcba9876543210fedcba9876543210";
  const std::string cgroup = "/sys/fs/cgroup/caisson/77-" + hex;
  const os::ProcessIdentity owner = {77, 123456789, os::boot_id()};
  EXPECT_EQ(cgroup_to_kill(cgroup, owner), cgroup) << "the control";
  for (const std::string& path :
       {std::string(), std::string("/sys/fs/cgroup"), std::string("/sys/fs/cgroup/system.slice"),
        "/sys/fs/cgroup/caisson/78-" + hex, "/sys/fs/cgroup/caisson/77-" + hex + "/", "relative/77-" + hex,
        "/sys/fs/cgroup/caisson/../77-" + hex, std::string("/sys/fs/cgroup/77-1"), "/sys/fs/cgroup/" + hex}) {
    EXPECT_EQ(cgroup_to_kill(path, owner), std::nullopt) << path;
  }
  EXPECT_EQ(cgroup_to_kill(cgroup, {77, 123456789, "another"}), std::nullopt)
      << "of the last boot no process is left";
  const std::string own = "/sys/fs/cgroup/" + os::new_cgroup_name();
  EXPECT_EQ(cgroup_to_kill(own, os::own_identity()), own);
  EXPECT_EQ(owner_field({{"owner", json_of(os::own_identity())}}).start_time, os::own_identity().start_time);
}

}  // namespace
}  // namespace caisson::kit
