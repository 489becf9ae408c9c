// Tests of id maps: the text of /etc/subuid, and maps written in each of the ways.
#include "os/id_map.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <linux/sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <fstream>

#include "os/capabilities.h"
#include "os/spawn.h"
#include "tests/support/forked.h"
#include "tests/support/guests.h"
#include "tests/support/temporary_directory.h"

namespace caisson::os {
namespace {

using test::Command;
using test::in_child;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr uid_t nobody_else = 54321;

TEST(SubordinateIds, AreTheLinesOfTheNameAndOfTheNumber) {
  const std::string text =
      "ann:100000:65536\n"
      "bob:200000:1000\n"
      "1000:300000:10\n"
      "ann:400000:1\n";
  EXPECT_THAT(parse_subordinate_ids(text, "ann", 1000),
              ElementsAre(IdRange{100000, 65536}, IdRange{300000, 10}, IdRange{400000, 1}));
  EXPECT_THAT(parse_subordinate_ids(text, "bob", 1001), ElementsAre(IdRange{200000, 1000}));
  EXPECT_THAT(parse_subordinate_ids(text, "", 1000), ElementsAre(IdRange{300000, 10}));
  EXPECT_THAT(parse_subordinate_ids(text, "an", 7), ElementsAre());
  EXPECT_THAT(parse_subordinate_ids("ann:1:2", "ann", 7), ElementsAre(IdRange{1, 2}));
  EXPECT_THAT(parse_subordinate_ids("", "ann", 7), ElementsAre());
}

TEST(SubordinateIds, OfAnybodyAreThoseOfAllLines) {
  EXPECT_THAT(parse_subordinate_ids("ann:100000:65536\nbob:x:1\n1000:300000:10\n"),
              ElementsAre(IdRange{100000, 65536}, IdRange{300000, 10}));
}

TEST(SubordinateIds, LinesThatMakeNoSenseAreLeftOut) {
  for (const char* line : {"ann", "ann:", "ann:1", "ann:1:", "ann::5", "ann:x:5", "ann:1:5x", "ann:1:5:6",
                           "ann:-1:5", "ann: 1:5", "ann:1:0", "ann:4294967290:100", "ann:4294967296:1",
                           "ann:4294967295:1", "", ":1:5", "#ann:1:5"}) {
    EXPECT_THAT(parse_subordinate_ids(std::string(line) + "\nann:7:8\n", "ann", 7),
                ElementsAre(IdRange{7, 8}))
        << line;
  }
  EXPECT_THAT(parse_subordinate_ids(":1:5\n", "", 7), ElementsAre());
  EXPECT_THAT(parse_subordinate_ids("ann:4294967294:1\n", "ann", 7), ElementsAre(IdRange{4294967294U, 1}));
}

// What a shell in a new user namespace says once its maps are written; it waits for that.
std::string said_with(const IdMaps& maps, const std::string& script, bool raise = false) {
  Command command({"/bin/sh", "-c", "read go; " + script});
  SpawnPlan plan = command.plan();
  auto go = make_pipe();
  auto answer = make_pipe();
  plan.descriptors[0] = go->read;
  plan.descriptors[1] = answer->write;
  plan.namespaces = CLONE_NEWUSER;
  plan.raise_capabilities = raise;
  auto process = spawn(plan);
  if (!process) return "spawn: " + error_of(process.error().number).message();
  answer->write.reset();
  const auto mapped = write_id_maps(*process, maps);
  if (mapped) static_cast<void>(write_all(go->write, "go\n"));
  go->write.reset();
  std::string said = read_all(answer->read, 1 << 16).value();
  process->reap();
  return mapped ? said : mapped.error().text;
}

const std::string show_maps = "cat /proc/self/uid_map /proc/self/gid_map /proc/self/setgroups";

// The words of a text with single spaces.
std::string squeezed(const std::string& text) {
  std::istringstream words(text);
  std::string all;
  for (std::string word; words >> word;) all += (all.empty() ? "" : " ") + word;
  return all;
}

class WriteIdMaps : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root writes any map, and becomes another user";
  }
};

// Drops to an ordinary user, in a fork.
bool become_ordinary() {
  return ::setgroups(0, nullptr) == 0 && ::setresgid(nobody_else, nobody_else, nobody_else) == 0 &&
         ::setresuid(nobody_else, nobody_else, nobody_else) == 0;
}

TEST_F(WriteIdMaps, RootWritesAnyMapAndGroupsCanStillBeSet) {
  const IdMaps maps{{{0, 100000, 1000}, {2000, 300000, 5}}, {{0, 200000, 1000}}};
  EXPECT_EQ(squeezed(said_with(maps, show_maps)), "0 100000 1000 2000 300000 5 0 200000 1000 allow");
}

// D-5: clone, execve, the maps, and then init takes its ids.
TEST_F(WriteIdMaps, D5_RaisedCapabilitiesLetTheProgramTakeItsIds) {
  const IdMaps maps{{{0, 100000, 10}}, {{0, 100000, 10}}};
  const std::string take = "setpriv --reuid 0 --regid 0 --clear-groups id -u 2>/dev/null";
  if (::access("/usr/bin/setpriv", X_OK) != 0) GTEST_SKIP() << "setpriv is not installed";
  EXPECT_EQ(squeezed(said_with(maps, take, true)), "0");
  EXPECT_EQ(squeezed(said_with(maps, take, false)), "");
}

TEST_F(WriteIdMaps, BadMapIsTheKernelsError) {
  EXPECT_THAT(said_with({{{0, 1, 0}}, {{0, 1, 1}}}, show_maps),
              HasSubstr("writing the uid_map of a user namespace: Invalid argument"));
  EXPECT_THAT(said_with({{{0, 1, 1}}, {{0, 1, 5}, {2, 9, 5}}}, show_maps),
              HasSubstr("writing the gid_map of a user namespace: Invalid argument"));
}

TEST_F(WriteIdMaps, AnybodyMapsItselfWithoutSetgroups) {
  const std::string said = in_child([] {
    if (!become_ordinary()) return std::string("ids");
    return squeezed(said_with(single_id_maps(0, 7), show_maps + "; id -u"));
  });
  EXPECT_EQ(said, "0 54321 1 7 54321 1 deny 0");
}

// With /etc/passwd, /etc/subuid and /etc/subgid of its own, in a mount namespace.
std::string as_user_with_ranges(const std::string& ranges, const IdMaps& maps) {
  const test::TemporaryDirectory temporary;
  std::ofstream(temporary / "passwd") << "root:x:0:0::/root:/bin/sh\nann:x:54321:54321::/:/bin/sh\n";
  std::ofstream(temporary / "ranges") << ranges;
  return in_child(
      [&] {
        for (const auto& [from, to] : {std::pair{"passwd", "/etc/passwd"}, std::pair{"ranges", "/etc/subuid"},
                                       std::pair{"ranges", "/etc/subgid"}}) {
          if (::mount((temporary / from).c_str(), to, nullptr, MS_BIND, nullptr) != 0)
            return std::string("mount");
        }
        if (!become_ordinary()) return std::string("ids");
        return squeezed(said_with(maps, show_maps + "; id -u"));
      },
      CLONE_NEWNS);
}

TEST_F(WriteIdMaps, OrdinaryUserGetsItsSubordinateIdsByTheProgram) {
  for (const char* file : {"/usr/bin/newuidmap", "/usr/bin/newgidmap", "/etc/subuid", "/etc/subgid"}) {
    if (::access(file, F_OK) != 0) GTEST_SKIP() << file << " is not there (package uidmap)";
  }
  const IdMaps maps{{{0, 200000, 65536}}, {{0, 200000, 65536}}};
  EXPECT_EQ(as_user_with_ranges("ann:200000:65536\n", maps), "0 200000 65536 0 200000 65536 allow 65534");
  EXPECT_THAT(as_user_with_ranges("ann:300000:65536\n", maps),
              HasSubstr("mapping ids by newuidmap: newuidmap: uid range"));
}

}  // namespace
}  // namespace caisson::os
