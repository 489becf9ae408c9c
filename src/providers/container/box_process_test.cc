// Boxes that end, that never were, and that do not answer (S-16, S-29, S-102, S-103).
#include "providers/container/box_process.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <thread>

#include "providers/container/box_bed_test.h"
#include "providers/container/fake_init_test.h"
#include "tests/support/forked.h"

namespace caisson::container {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class BoxProcessTest : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root maps a range of ids";
  }
};

TEST_F(BoxProcessTest, D4_WithProcessOneEveryProcessOfTheBoxEnds) {
  BoxBed bed;
  const auto box = bed.make();
  kit::StartedExec started = bed.start(box, shell("setsid sleep 1000 & echo ready; wait"));
  EXPECT_EQ(BoxBed::read_until(started.out, "ready"), "ready\n");
  EXPECT_FALSE(box->process()->ended());
  EXPECT_EQ(box->process()->end_cause(), "");
  box->process()->kill("a test ends it");
  EXPECT_TRUE(box->process()->wait_ended(10s));
  EXPECT_EQ(box->process()->end_cause(), "a test ends it");
  // Nobody is left who could write.
  EXPECT_EQ(BoxBed::read_to_end(started.out), "");
  const ExecEnded ended = BoxBed::wait_for(*started.tree);
  EXPECT_EQ(ended.how, ExecEnd::lost);
  EXPECT_THAT(ended.lost_cause, HasSubstr("a test ends it"));
  EXPECT_TRUE(started.tree->empty());
}

TEST_F(BoxProcessTest, S48_AnInitThatDiesLeavesItsCommandsLost) {
  BoxBed bed;
  const auto box = bed.make();
  kit::StartedExec started = bed.start(box, shell("echo ready; exec sleep 1000"));
  EXPECT_EQ(BoxBed::read_until(started.out, "ready"), "ready\n");
  ASSERT_EQ(::kill(box->process()->pid(), SIGKILL), 0);
  const ExecEnded ended = BoxBed::wait_for(*started.tree);
  EXPECT_EQ(ended.how, ExecEnd::lost);
  EXPECT_EQ(ended.exit_code, 255);
  EXPECT_THAT(ended.lost_cause, HasSubstr("caisson-init has ended"));
  EXPECT_TRUE(test::eventually([&] { return started.tree->empty(); }));
  EXPECT_THAT(failure_of([&] { bed.start(box, shell("true")); }),
              StartsWith("unavailable : the session's box has ended"));
}

TEST_F(BoxProcessTest, S102_AnInitThatDoesNotAnswerCostsTheBoxItsLife) {
  BoxBed bed;
  bed.clock = std::make_shared<kit::ManualClock>();
  auto* const clock = static_cast<kit::ManualClock*>(bed.clock.get());
  const auto box = bed.make();
  EXPECT_EQ(bed.run(box, "echo fine").out, "fine\n");
  ASSERT_EQ(::kill(box->process()->pid(), SIGSTOP), 0);
  std::string failure;
  std::thread caller([&] { failure = failure_of([&] { bed.start(box, shell("true")); }); });
  EXPECT_TRUE(test::eventually([&] {
    clock->advance(1s);
    return box->process()->ended();
  }));
  caller.join();
  EXPECT_THAT(failure, AllOf(StartsWith("unavailable "), HasSubstr("did not answer in time")));
}

TEST_F(BoxProcessTest, S102_AKillThatInitDoesNotCarryOutEndsTheBox) {
  BoxBed bed;
  bed.clock = std::make_shared<kit::ManualClock>();
  auto* const clock = static_cast<kit::ManualClock*>(bed.clock.get());
  const auto box = bed.make();
  kit::StartedExec started = bed.start(box, shell("echo ready; exec sleep 1000"));
  EXPECT_EQ(BoxBed::read_until(started.out, "ready"), "ready\n");
  ASSERT_EQ(::kill(box->process()->pid(), SIGSTOP), 0);
  started.tree->kill();
  EXPECT_FALSE(started.tree->empty());
  EXPECT_TRUE(test::eventually([&] {
    clock->advance(1s);
    return started.tree->empty();
  }));
}

TEST_F(BoxProcessTest, S27_ABoxThatCannotBeBuiltLeavesNothing) {
  BoxBed bed;
  const BoxRequest request{"host", BoxShape{"box", first_slot, bed.temporary / "none", false}, {}, {}, {}};
  EXPECT_THAT(failure_of([&] { bed.make(request); }),
              AllOf(StartsWith("unavailable "), HasSubstr("the workspace cannot be mounted")));
  // What only init finds out.
  const auto process = BoxProcess::spawn(bed.core(), first_slot, {});
  PlannedBox planned = plan_box(bed.settings, Image(), {"box", first_slot, {}, false}, {}).value();
  planned.plan.mounts.emplace_back(init::Bind{"/no/such", "/x", false, {}});
  EXPECT_THAT(failure_of([&] {
                bed.get(BoxProcess::build(process, bed.context.get_executor(), std::move(planned)));
              }),
              AllOf(StartsWith("unavailable : a box could not be built"), HasSubstr("/no/such")));
  EXPECT_TRUE(process->wait_ended(10s));
}

TEST_F(BoxProcessTest, S16_WhatIsMissingIsNamed) {
  BoxBed bed;
  bed.settings.init_program = bed.temporary / "none";
  EXPECT_THAT(failure_of([&] { bed.core(); }),
              AllOf(StartsWith("unavailable "), HasSubstr("set CAISSON_INIT")));
  bed.settings.init_program = bed.temporary.path();
  EXPECT_THAT(failure_of([&] { bed.core(); }), HasSubstr("no regular file"));
  std::ofstream(bed.temporary / "text") << "text";
  ASSERT_EQ(::chmod((bed.temporary / "text").c_str(), 0755), 0);
  bed.settings.init_program = bed.temporary / "text";
  EXPECT_THAT(failure_of([&] { bed.make(); }), AllOf(StartsWith("unavailable "), HasSubstr("CAISSON_INIT")));
  EXPECT_THAT(failure_of([&] { bed.make(first_slot, "ubuntu"); }), StartsWith("invalid_argument image"));
}

// A program that is no init.
TEST_F(BoxProcessTest, S102_AnInitThatSpeaksOtherwiseLosesItsBox) {
  BoxBed bed;
  bed.settings.init_program = "/bin/true";
  EXPECT_THAT(failure_of([&] { bed.make(); }),
              AllOf(StartsWith("unavailable "), HasSubstr("a box could not be built")));
}

// An empty one of either version, with those beneath it.
void remove_cgroup(const std::string& path) {
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    if (entry.is_directory()) remove_cgroup(entry.path());
  }
  EXPECT_TRUE(test::eventually([&] { return ::rmdir(path.c_str()) == 0; })) << path;
}

TEST(BoxOwnerTest, S29_ABoxEndsWithTheProcessThatOwnsIt) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root maps a range of ids";
  const test::TemporaryDirectory keeps_the_base;
  auto pipe = os::make_pipe().value();
  const pid_t owner = ::fork();
  ASSERT_GE(owner, 0);
  if (owner == 0) {
    {
      BoxBed bed;
      const auto box = bed.make();
      kit::StartedExec started = bed.start(box, shell("setsid sleep 1000 & echo ready; exec sleep 1000"));
      BoxBed::read_until(started.out, "ready");
      std::string said = std::to_string(box->process()->pid()) + " " + bed.temporary.path();
      if (const auto cgroup = box->process()->cgroup()) {
        said += " " + cgroup->paths().unified;
        for (const std::string& path : cgroup->paths().v1) said += " " + path;
      }
      static_cast<void>(os::write_all(pipe.write, said + "\n"));
      ::pause();
    }
    _exit(0);
  }
  pipe.write.reset();
  std::istringstream said(test::read_until(pipe.read, ""));
  pid_t pid = 0;
  std::string directory;
  said >> pid >> directory;
  ASSERT_GT(pid, 1);
  const test::Watched init(pid);
  ASSERT_TRUE(init);
  EXPECT_FALSE(init.ended(100ms)) << "the control";
  ASSERT_EQ(::kill(owner, SIGKILL), 0);
  ::waitpid(owner, nullptr, 0);
  EXPECT_TRUE(init.ended(2s));
  // Process 1 ends when it has reaped every other of its namespace. What is left is for a recovery.
  std::filesystem::remove_all(directory);
  for (std::string cgroup; said >> cgroup;) {
    if (std::filesystem::exists(cgroup)) remove_cgroup(cgroup);
  }
}

// The one id that anybody may map.
TEST(BoxOwnerTest, S103_AnOrdinaryUserHasBoxesOfHisOwnId) {
  if (::geteuid() != 0) GTEST_SKIP() << "becoming an ordinary user takes root";
  constexpr uid_t user = 54321;
  // Only root may pass the directories that a build is in.
  test::TemporaryDirectory shared;
  const std::string program = shared / "caisson-init";
  std::filesystem::copy_file(CAISSON_INIT_PROGRAM, program);
  ASSERT_EQ(::chmod(test::temporary_base().c_str(), 0777), 0);
  ASSERT_EQ(::chmod(shared.path().c_str(), 0755), 0);
  const std::string own = shared / "own";
  std::filesystem::create_directories(own + "/image/bin");
  std::filesystem::create_directories(own + "/volume");
  for (const std::string& path : {own, own + "/image", own + "/image/bin", own + "/volume"})
    ASSERT_EQ(::chown(path.c_str(), user, user), 0);
  const std::string outcome = test::in_child([&] {
    if (::setgroups(0, nullptr) != 0 || ::setresgid(user, user, user) != 0 ||
        ::setresuid(user, user, user) != 0)
      return std::string("ids");
    // As a user's own program is, and what it starts until that runs.
    ::prctl(PR_SET_DUMPABLE, 1);
    std::string text;
    {
      BoxBed bed;
      bed.settings.init_program = program;
      const UidSlot slot{user, user, 1};
      const auto box =
          bed.make(BoxRequest{"host", BoxShape{"box", slot, own + "/volume", false}, {}, {}, {}});
      const Ran ran =
          bed.run(box,
                  "id -u; tr -s ' ' < /proc/self/uid_map; python3 -c 'print(2+2)'; echo kept > file; "
                  "echo e > /dev/stderr; grep -E 'CapEff|NoNewPrivs' /proc/self/status; exit 7");
      text = ran.out + ran.err + std::to_string(ran.ended.exit_code) + " ";
      bed.put(box, "/tmp/file", "put");
      text += bed.read(box, "/tmp/file") + " " + bed.read(box, "file");
      text += failure_of([&] { bed.make({user, user, 1}, "/usr"); }).substr(0, 22) + "; ";
      text += failure_of([&] { bed.make({user, user, 1}, own + "/image"); });
    }
    std::replace(text.begin(), text.end(), '\n', ' ');
    std::replace(text.begin(), text.end(), '\t', ' ');
    return text;
  });
  EXPECT_EQ(outcome,
            "0  0 54321 1 4 CapEff: 0000000000000000 NoNewPrivs: 1 e 7 put kept invalid_argument image; it "
            "succeeded");
  struct stat is{};
  ASSERT_EQ(::stat((own + "/volume/file").c_str(), &is), 0);
  EXPECT_EQ(is.st_uid, user);
}

// Of a machine that gives an ordinary user ids: in a mount namespace of its own its files are others.
bool give_ids(const std::string& directory, uid_t user) {
  const std::string line = "caisson-test:300000:65536\n";
  std::ofstream(directory + "/subuid") << line;
  std::ofstream(directory + "/subgid") << line;
  std::ofstream(directory + "/passwd")
      << box_text_of("/etc/passwd") << "caisson-test:x:" << user << ":" << user << "::/:/bin/sh\n";
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return false;
  for (const std::string name : {"subuid", "subgid", "passwd"}) {
    const std::string place = "/etc/" + name;
    if (::mount((directory + "/" + name).c_str(), place.c_str(), nullptr, MS_BIND, nullptr) != 0)
      return false;
  }
  return true;
}

TEST(BoxOwnerTest, S103_AnOrdinaryUserWithIdsHasBoxesOfThose) {
  if (::geteuid() != 0) GTEST_SKIP() << "becoming an ordinary user takes root";
  if (::access("/usr/bin/newuidmap", X_OK) != 0) GTEST_SKIP() << "newuidmap(1) is not installed";
  for (const char* file : {"/etc/subuid", "/etc/subgid"}) {
    if (::access(file, F_OK) != 0) GTEST_SKIP() << "there is no " << file;
  }
  constexpr uid_t user = 54321;
  test::TemporaryDirectory shared;
  const std::string program = shared / "caisson-init";
  std::filesystem::copy_file(CAISSON_INIT_PROGRAM, program);
  ASSERT_EQ(::chmod(test::temporary_base().c_str(), 0777), 0);
  ASSERT_EQ(::chmod(shared.path().c_str(), 0755), 0);
  const std::string outcome = test::in_child(
      [&] {
        if (!give_ids(shared.path(), user)) return std::string("mounts: ") + std::strerror(errno);
        if (::setgroups(0, nullptr) != 0 || ::setresgid(user, user, user) != 0 ||
            ::setresuid(user, user, user) != 0)
          return std::string("ids");
        ::prctl(PR_SET_DUMPABLE, 1);
        std::string text;
        {
          BoxBed bed;
          bed.settings.init_program = program;
          const auto box = bed.make(UidSlot{300000, 300000, 1024});
          const Ran ran =
              bed.run(box,
                      "id -u; tr -s ' ' < /proc/self/uid_map; touch /tmp/f && stat -c %u /tmp/f; echo e > "
                      "/dev/stderr; echo o > /dev/stdout; kill -9 1 2>/dev/null || echo spared; exit 7");
          text = ran.out + ran.err + std::to_string(ran.ended.exit_code) + " ";
          bed.put(box, "/tmp/file", "put");
          text += bed.read(box, "/tmp/file");
        }
        std::replace(text.begin(), text.end(), '\n', ' ');
        return text;
      },
      CLONE_NEWNS);
  EXPECT_EQ(outcome, "0  0 300000 1024 0 o spared e 7 put");
}

// A box whose init is the test's.
TEST(LyingTerminalTest, S102_WhatIsNoTerminalCostsTheBoxItsLife) {
  BoxBed bed;
  const auto pipe = os::make_pipe().value();
  FakeInit fake([&](FakeInit& init) {
    init.say(init.expect<init::Hello>().number, init::HelloReply());
    init.say(init.expect<init::BuildBox>().number, init::Done());
    init.say(init.expect<init::StartExec>().number, init::Started{1, 2, true}, {pipe.read});
    init.drain();
  });
  test::Command command({"sleep", "1000"});
  const os::Fd null = os::open_empty_input().value();
  os::SpawnPlan plan = command.plan();
  for (os::FdRef& descriptor : plan.descriptors) descriptor = null;
  auto process = os::spawn(plan);
  ASSERT_TRUE(process);
  auto started = BoxProcess::adopt(bed.core(), std::move(*process), fake.take_host_end());
  PlannedBox planned = plan_box(bed.settings, Image(), {"box", first_slot, {}, false}, {}).value();
  bed.get(BoxProcess::build(started, bed.context.get_executor(), std::move(planned)));
  const auto box = std::make_shared<ContainerBox>(started, first_slot);
  kit::ExecPlan tty = shell("true");
  tty.tty = TtySize{80, 24};
  EXPECT_THAT(failure_of([&] { bed.start(box, std::move(tty)); }),
              HasSubstr("something else for a terminal"));
  EXPECT_TRUE(started->wait_ended(10s));
}

}  // namespace
}  // namespace caisson::container
