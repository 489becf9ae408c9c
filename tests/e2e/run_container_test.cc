// caisson run in a container, as root and as an ordinary user.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "os/self.h"
#include "tests/e2e/program.h"
#include "tests/support/eventually.h"
#include "tests/support/guests.h"

namespace caisson::test {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
namespace fs = std::filesystem;

class RunContainerTest : public CaissonTest {
 protected:
  RunContainerTest() { env_.erase("TAI_MCP_SANDBOX_ISOLATION"); }
  static Words words(Words options, Words command) {
    Words all{"run"};
    all.insert(all.end(), options.begin(), options.end());
    all.push_back("--");
    all.insert(all.end(), command.begin(), command.end());
    return all;
  }
  Ended contained(Words options, Words command) {
    return caisson(words(std::move(options), std::move(command)));
  }
  Program start_contained(Words options, Words command) {
    Words argv = words(std::move(options), std::move(command));
    argv.insert(argv.begin(), CAISSON_PROGRAM);
    return start_program(std::move(argv));
  }
};

TEST_F(RunContainerTest, S100_ContainersAreTheDefaultAndNeedNoSetting) {
  const Ended ended = contained({}, {"sh", "-c", "echo $((2 + 2)); cat /proc/1/comm"});
  EXPECT_EQ(ended.code, 0) << ended;
  EXPECT_EQ(ended.out, "4\ncaisson-init\n");
  EXPECT_EQ(ended.err, "");
}

TEST_F(RunContainerTest, S100_AnOrdinaryUserNeedsNoneEither) {
  if (::geteuid() != 0) GTEST_SKIP() << "the test above was one";
  constexpr uid_t somebody = 61235;
  for (const char* name : {"root", "run"}) {
    const std::string path = containers_ / name;
    fs::create_directory(path);
    ASSERT_EQ(::chown(path.c_str(), somebody, somebody), 0);
  }
  ASSERT_EQ(::chmod(containers_.path().c_str(), 0755), 0);
  Words argv{"/usr/bin/setpriv",
             "--reuid",
             std::to_string(somebody),
             "--regid",
             std::to_string(somebody),
             "--clear-groups",
             CAISSON_PROGRAM,
             "run",
             "--",
             "sh",
             "-c",
             "id -u; cat /proc/self/uid_map; echo told > /dev/stderr; grep CapEff /proc/self/status"};
  const Ended ended = start_program(std::move(argv)).wait();
  EXPECT_EQ(ended.code, 0) << ended;
  EXPECT_THAT(ended.out, StartsWith("0\n"));
  EXPECT_THAT(ended.out, HasSubstr(std::to_string(somebody)));
  EXPECT_THAT(ended.out, HasSubstr("CapEff:\t0000000000000000"));
  EXPECT_EQ(ended.err, "told\n");
}

TEST_F(RunContainerTest, S103_TwoSessionsHaveIdsOfTheirOwn) {
  if (::geteuid() != 0) GTEST_SKIP() << "takes a range of ids";
  const Words show{"sh", "-c", "awk '{print $2}' /proc/self/uid_map; read line"};
  Program first = start_contained({"-i"}, show);
  Program second = start_contained({"-i"}, show);
  const std::string one = first.read_line();
  const std::string other = second.read_line();
  EXPECT_NE(one, "0");
  EXPECT_NE(one, other);
  first.close_in();
  second.close_in();
  EXPECT_EQ(first.wait().code, 1);
  EXPECT_EQ(second.wait().code, 1);
}

TEST_F(RunContainerTest, S29_ABoxEndsWithItsOwnerWhileNoOtherCaissonRuns) {
  const std::string time = long_time();
  Program program = start_contained({}, {"sh", "-c", "setsid sleep " + time + " & echo ready; wait"});
  EXPECT_EQ(program.read_line(), "ready");
  ASSERT_TRUE(eventually([&] { return runs(time); }));
  program.signal(SIGKILL);
  EXPECT_EQ(program.wait().signal, SIGKILL);
  EXPECT_TRUE(eventually([&] { return !runs(time); }, std::chrono::seconds(2)));
  EXPECT_THAT(caisson({"reap"}).out, HasSubstr("recovered session "));
  EXPECT_EQ(caisson({"reap"}).out, "nothing to do\n");
}

TEST_F(RunContainerTest, S25_APersistentWorkspaceIsFoundAgain) {
  // Only root can bound one on any file system.
  if (!os::is_root()) env_["CAISSON_CONTAINER_UNBOUNDED_DISK"] = "1";
  const Words options{"--workspace", "kept", "--persistent"};
  EXPECT_EQ(contained(options, {"sh", "-c", "echo one >> log"}).code, 0);
  write_file("more", "put\n");
  const Ended second = contained({"--workspace", "kept", "--persistent", "--put", path("more") + ":more"},
                                 {"sh", "-c", "cat more >> log; cat log; ls -ln log"});
  EXPECT_EQ(second.code, 0) << second;
  EXPECT_THAT(second.out, StartsWith("one\nput\n"));
  EXPECT_EQ(contained({"--workspace", "kept"}, {"cat", "log"}).code, 1)
      << "an ephemeral one shares nothing with it";
}

TEST_F(RunContainerTest, ADirectoryCanBeTheImage) {
  const std::string image = path("image");
  fs::create_directories(image + "/bin");
  fs::copy_file(guest("guest_state"), image + "/bin/state");
  const Ended ended = contained({"--image", image}, {"/bin/state", "an argument"});
  EXPECT_EQ(ended.code, 0) << ended;
  EXPECT_THAT(ended.out, HasSubstr("an argument"));
  EXPECT_EQ(contained({"--image", image}, {"sh"}).code, 127) << "the host's programs are not in it";
  const Ended none = contained({"--json", "--image", path("none")}, {"/bin/state"});
  EXPECT_EQ(none.code, 125);
  EXPECT_EQ(none.json().at("field"), "image");
}

TEST_F(RunContainerTest, S15_WhatIsNotThereYetIsRefusedByName) {
  for (const Words& options : std::vector<Words>{{"--network", "egress"}, {"--image", "debian:12"}}) {
    Words all{"--json"};
    all.insert(all.end(), options.begin(), options.end());
    const Ended ended = contained(all, {"true"});
    EXPECT_EQ(ended.code, 125) << ended;
    EXPECT_EQ(ended.json().at("code"), "not_enforceable");
    EXPECT_THAT(ended.err, HasSubstr(options[0].substr(2)));
  }
}

TEST_F(RunContainerTest, ATerminalIsTheBoxesOwn) {
  const Ended ended = contained({"-t"}, {"sh", "-c", "tty; echo $TERM"});
  EXPECT_EQ(ended.code, 0) << ended;
  EXPECT_THAT(ended.out, HasSubstr("/dev/pts/0"));
}

}  // namespace
}  // namespace caisson::test
