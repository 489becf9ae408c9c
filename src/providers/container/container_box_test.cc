// Boxes with the real caisson-init: commands and what they see (S-40 to S-64, S-100 to S-103).
#include "providers/container/container_box.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "os/tty.h"
#include "providers/container/box_bed_test.h"

namespace caisson::container {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

class ContainerBoxTest : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root maps a range of ids";
  }
  std::string out_of(const std::shared_ptr<ContainerBox>& box, const std::string& script) {
    const Ran ran = bed_.run(box, script);
    return ran.out + ran.err;
  }
  std::string failure_to_start(const std::shared_ptr<ContainerBox>& box, kit::ExecPlan plan) {
    return failure_of([&] { bed_.start(box, std::move(plan)); });
  }
  // How a command ends whose exit is known, in words.
  std::string end_of(const std::shared_ptr<ContainerBox>& box, const std::string& script) {
    const ExecEnded ended = bed_.run(box, script).ended;
    return std::string(to_string(ended.how)) + " " + std::to_string(ended.exit_code);
  }
  BoxBed bed_;
};

TEST_F(ContainerBoxTest, S40_APythonProgramRuns) {
  const auto box = bed_.make();
  const Ran ran = bed_.run(box, plan_of({"python3", "-c", "print(2+2)"}));
  EXPECT_EQ(ran.err, "");
  EXPECT_EQ(ran.out, "4\n");
  EXPECT_EQ(ran.ended.how, ExecEnd::exited);
  EXPECT_EQ(ran.ended.exit_code, 0);
}

TEST_F(ContainerBoxTest, S101_ABoxSeesNothingOfTheHostOrAnotherBox) {
  const auto box = bed_.make();
  const auto other = bed_.make(second_slot);
  std::ofstream(bed_.temporary / "host-file") << "host";
  kit::StartedExec started = bed_.start(
      other, shell("touch /tmp/others /workspace/others /dev/shm/others; echo ready; exec sleep 1000"));
  EXPECT_EQ(BoxBed::read_until(started.out, "ready"), "ready\n");
  EXPECT_TRUE(test::eventually([&] { return out_of(other, "ls /tmp; pgrep -c sleep") == "others\n1\n"; }))
      << "the control";
  EXPECT_EQ(out_of(box, "ls /tmp /workspace /dev/shm | grep -c others; pgrep -c sleep"), "0\n0\n");
  EXPECT_EQ(out_of(box, "cat " + bed_.temporary / "host-file" + " 2>/dev/null || echo none"), "none\n");
  EXPECT_EQ(out_of(box, "ls /etc/shadow /home /var/lib 2>/dev/null; ls /sys /boot /mnt 2>/dev/null"), "");
  EXPECT_EQ(out_of(box, "hostname; cat /etc/hostname; id -u"), "box\nbox\n0\n");
  EXPECT_EQ(out_of(box, "cd /sys 2>/dev/null; cat /proc/net/dev | grep -c :"), "1\n") << "only lo";
  EXPECT_EQ(out_of(box, "ls /dev"),
            "fd\nfull\nnull\nptmx\npts\nrandom\nshm\nstderr\nstdin\nstdout\ntty\nurandom\nzero\n");
}

TEST_F(ContainerBoxTest, S101_OnlyWhatIsBoundedIsWritable) {
  const auto box = bed_.make();
  const auto write = [&](const std::string& path) {
    return out_of(box, "echo x 2>/dev/null > " + path + " && echo can || echo cannot");
  };
  for (const char* path : {"/tmp/x", "/var/tmp/x", "/root/x", "/run/x", "/workspace/x", "/dev/shm/x"})
    EXPECT_EQ(write(path), "can\n") << path;
  for (const char* path : {"/x", "/usr/x", "/etc/x", "/etc/passwd", "/dev/x", "/proc/sys/kernel/hostname"})
    EXPECT_THAT(write(path), HasSubstr("cannot\n")) << path;
  for (const char* place : {"/tmp", "/var/tmp", "/root", "/run", "/workspace", "/dev/shm"}) {
    EXPECT_THAT(out_of(box, std::string("head -c 9M /dev/zero > ") + place + "/big"),
                HasSubstr("No space left"))
        << place;
    EXPECT_EQ(out_of(box, std::string("rm ") + place + "/big; head -c 5M /dev/zero > " + place +
                              "/some; rm " + place + "/some"),
              "")
        << place;
  }
}

TEST_F(ContainerBoxTest, S103_BoxesHaveDisjointIds) {
  const auto box = bed_.make();
  const auto other = bed_.make(second_slot);
  const auto ids = [&](const auto& one) {
    return out_of(one, "cat /proc/self/uid_map /proc/self/gid_map | tr -s ' '; id -u");
  };
  EXPECT_EQ(ids(box), " 0 524288 65536\n 0 524288 65536\n0\n");
  EXPECT_EQ(ids(other), " 0 589824 65536\n 0 589824 65536\n0\n");
  // As this machine sees them: init by an id of its own, the commands as the first of the slot.
  const auto user_of = [](const std::string& pid) {
    struct stat is{};
    return ::stat(("/proc/" + pid).c_str(), &is) == 0 ? is.st_uid : 0;
  };
  struct stat is{};
  kit::StartedExec started = bed_.start(other, shell("echo ready; exec sleep 1000"));
  EXPECT_EQ(BoxBed::read_until(started.out, "ready"), "ready\n");
  const os::Fd pipe = os::duplicate(os::FdRef{started.out.native_handle()}).value();
  ASSERT_EQ(::fstat(pipe.number(), &is), 0);
  EXPECT_EQ(is.st_uid, 589824U);
  const std::string init = std::to_string(other->process()->pid());
  std::ifstream children("/proc/" + init + "/task/" + init + "/children");
  std::string child;
  ASSERT_TRUE(children >> child);
  EXPECT_EQ(user_of(child), 589824U);
  EXPECT_THAT(box_text_of("/proc/" + init + "/status"), HasSubstr("Uid:\t655359\t655359\t655359"));
}

TEST_F(ContainerBoxTest, S103_ABoxOfTheHostsProgramsHasNoCapabilities) {
  const auto box = bed_.make();
  EXPECT_EQ(
      out_of(box, "grep -E 'Cap(Prm|Eff|Bnd|Amb)|NoNewPrivs|Seccomp:' /proc/self/status | tr -s '\\t' ' '"),
      "CapPrm: 0000000000000000\nCapEff: 0000000000000000\nCapBnd: 0000000000000000\n"
      "CapAmb: 0000000000000000\nNoNewPrivs: 1\nSeccomp: 2\n");
}

TEST_F(ContainerBoxTest, D5_StandardStreamsCanBeOpenedAgain) {
  const auto box = bed_.make();
  const Ran ran = bed_.run(box, "echo x > /dev/stderr; echo y > /dev/stdout; cat /dev/stdin", "in");
  EXPECT_EQ(ran.err, "x\n");
  EXPECT_EQ(ran.out, "y\nin");
}

TEST_F(ContainerBoxTest, S40_WhatCannotBeRunIsTyped) {
  const auto box = bed_.make();
  bed_.run(box,
           "printf '#!/no/such\\n' > /tmp/script; printf x > /tmp/text; printf junk > /tmp/junk; chmod +x "
           "/tmp/script /tmp/junk");
  EXPECT_THAT(failure_to_start(box, plan_of({"no-such"})),
              StartsWith("command_not_found : command \"no-such\""));
  EXPECT_THAT(failure_to_start(box, plan_of({"/no/such"})), StartsWith("command_not_found "));
  EXPECT_THAT(failure_to_start(box, plan_of({"/tmp/script"})), StartsWith("bad_format "));
  EXPECT_THAT(failure_to_start(box, plan_of({"/tmp/text"})), StartsWith("not_executable "));
  EXPECT_THAT(failure_to_start(box, plan_of({"/tmp/junk"})), StartsWith("bad_format "));
  EXPECT_THAT(failure_to_start(box, plan_of({"/tmp"})), StartsWith("not_executable "));
  EXPECT_THAT(failure_to_start(box, plan_of({"true", std::string(200000, 'x')})),
              StartsWith("argument_list_too_long "));
  EXPECT_THAT(failure_to_start(box, plan_of({"true", std::string(7 << 20, 'x')})),
              StartsWith("argument_list_too_long "));
  EXPECT_EQ(end_of(box, "true"), "exited 0");
}

TEST_F(ContainerBoxTest, S42_WorkingDirectoriesAreTheBoxesOwn) {
  const auto box = bed_.make();
  bed_.run(box, "mkdir -p sub/dir; ln -s /workspace/sub in; ln -s /etc out");
  const auto in = [&](const std::string& cwd) {
    kit::ExecPlan plan = plan_of({"pwd", "-P"});
    plan.cwd = cwd;
    std::string text;
    const std::string failure = failure_of([&] { text = bed_.run(box, std::move(plan)).out; });
    return text.empty() ? failure.substr(0, failure.find(':')) : text;
  };
  EXPECT_EQ(box->workspace_path(), "/workspace");
  EXPECT_EQ(in(""), "/workspace\n");
  EXPECT_EQ(in("sub/dir"), "/workspace/sub/dir\n");
  EXPECT_EQ(in("in/dir"), "/workspace/sub/dir\n");
  EXPECT_EQ(in("/etc"), "/etc\n");
  EXPECT_EQ(in("out"), "path_escapes cwd");
  EXPECT_EQ(in(".."), "path_escapes cwd");
  EXPECT_EQ(in("none"), "cwd_missing cwd");
  EXPECT_EQ(in("/etc/passwd"), "cwd_missing cwd");
  EXPECT_EQ(in(std::string(5000, 'x')), "invalid_argument cwd");
}

TEST_F(ContainerBoxTest, S41_EnvironmentIsTheBasesAndThePlans) {
  const auto box = bed_.make();
  kit::ExecPlan plan = plan_of({"/usr/bin/env"});
  EXPECT_EQ(bed_.run(box, std::move(plan)).out,
            "HOME=/root\nPATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n");
  kit::ExecPlan own = plan_of({"env"});
  own.env["A"] = "secret";
  own.env["PATH"] = "/usr/bin";
  EXPECT_EQ(bed_.run(box, std::move(own)).out, "HOME=/root\nPATH=/usr/bin\nA=secret\n");
  kit::ExecPlan lookup = plan_of({"env"});
  lookup.env["PATH"] = "/nowhere";
  EXPECT_THAT(failure_to_start(box, std::move(lookup)), StartsWith("command_not_found "));
}

TEST_F(ContainerBoxTest, S44_ACommandBeginsClean) {
  const auto box = bed_.make();
  EXPECT_EQ(out_of(box,
                   "umask; ls /proc/self/fd; cat /proc/self/status | grep -E '^Sig(Blk|Ign|Cgt)' | grep -vc "
                   "0000000000000000; ps -o sid= -p $$ | tr -d ' ' | grep -c \"^$$\\$\""),
            "0022\n0\n1\n2\n3\n0\n1\n");
  EXPECT_EQ(out_of(box, "ulimit -c"), "0\n") << "1 byte is shown in blocks";
}

TEST_F(ContainerBoxTest, S48_EndsAreToldAsTheyAre) {
  const auto box = bed_.make();
  EXPECT_EQ(end_of(box, "exit 7"), "exited 7");
  EXPECT_EQ(end_of(box, "exit 137"), "exited 137");
  EXPECT_EQ(end_of(box, "kill -TERM $$"), "signaled 143");
  EXPECT_EQ(end_of(box, "kill -KILL $$"), "signaled 137");
}

TEST_F(ContainerBoxTest, S64_SignalsReachTheLeader) {
  const auto box = bed_.make();
  kit::StartedExec started =
      bed_.start(box, shell("trap 'echo got; exit 5' USR1; echo ready; while :; do sleep 0.01; done"));
  EXPECT_EQ(BoxBed::read_until(started.out, "ready"), "ready\n");
  started.tree->signal(SIGUSR1);
  EXPECT_EQ(BoxBed::read_until(started.out, "got"), "got\n");
  EXPECT_EQ(BoxBed::wait_for(*started.tree).exit_code, 5);
  started.tree->signal(SIGUSR1);
}

TEST_F(ContainerBoxTest, S64_ATerminalIsTheBoxesOwn) {
  const auto box = bed_.make();
  kit::ExecPlan plan = shell("tty; stty size; echo $TERM; echo tty > /dev/tty; read x; stty size; exit 6");
  plan.tty = TtySize{91, 17};
  plan.input = true;
  kit::StartedExec started = bed_.start(box, std::move(plan));
  EXPECT_FALSE(started.err.is_open());
  EXPECT_EQ(BoxBed::read_until(started.out, "tty"), "/dev/pts/0\r\n17 91\r\nxterm\r\ntty\r\n");
  ASSERT_TRUE(os::set_tty_size(os::FdRef{started.out.native_handle()}, 132, 43));
  ASSERT_TRUE(os::write_all(os::FdRef{started.in.native_handle()}, "\n"));
  EXPECT_THAT(BoxBed::read_until(started.out, "43 132"), HasSubstr("43 132"));
  EXPECT_EQ(BoxBed::wait_for(*started.tree).exit_code, 6);
}

TEST_F(ContainerBoxTest, S101_ProcessesAreLimited) {
  bed_.settings.pids = 12;
  const auto box = bed_.make();
  const std::string many =
      "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do sleep 1000 >/dev/null 2>&1 & done; echo all";
  EXPECT_THAT(out_of(box, many + " 2>&1"), AllOf(HasSubstr("fork"), Not(HasSubstr("all\n"))));
  const auto other = bed_.make(second_slot);
  EXPECT_EQ(out_of(other, "for i in 1 2 3 4 5 6; do sleep 0 & done; wait; echo all"), "all\n");
}

TEST_F(ContainerBoxTest, S25_APersistentWorkspaceIsSeenByEachBoxOnIt) {
  const std::string volume = bed_.temporary / "volume";
  fs::create_directory(volume);
  ASSERT_EQ(::chown(volume.c_str(), first_slot.first_user, first_slot.first_group), 0);
  const BoxRequest request{"host", BoxShape{"box", first_slot, volume, false}, {}, {}, {}};
  {
    const auto box = bed_.make(request);
    EXPECT_EQ(out_of(box, "echo kept > file; stat -c %u:%g file"), "0:0\n");
  }
  struct stat is{};
  ASSERT_EQ(::stat((volume + "/file").c_str(), &is), 0);
  EXPECT_EQ(is.st_uid, first_slot.first_user);
  EXPECT_EQ(out_of(bed_.make(request), "cat file"), "kept\n");
  const BoxRequest stranger{"host", BoxShape{"box", second_slot, volume, false}, {}, {}, {}};
  EXPECT_THAT(out_of(bed_.make(stranger), "cat file; echo x > new"), HasSubstr("Permission denied"));
}

class BoxTreeTest : public ContainerBoxTest, public testing::WithParamInterface<UseCgroups> {
 protected:
  void SetUp() override {
    ContainerBoxTest::SetUp();
    bed_.use_cgroups = GetParam();
    if (GetParam() == UseCgroups::yes && !IsSkipped() && bed_.core()->cgroups() == nullptr) {
      GTEST_SKIP() << "no cgroup can be made here";
    }
  }
};

TEST_P(BoxTreeTest, S63_KillEmptiesTheTree) {
  const auto box = bed_.make();
  kit::StartedExec started = bed_.start(
      box, shell("sleep 1000 & setsid sleep 1000 & (setsid sleep 1000 & setsid sh -c 'sleep 1000 & exec "
                 "sleep 1000' &) ; echo ready; wait"));
  EXPECT_EQ(BoxBed::read_until(started.out, "ready"), "ready\n");
  EXPECT_FALSE(started.tree->empty());
  EXPECT_FALSE(started.tree->try_reap());
  started.tree->kill();
  const ExecEnded ended = BoxBed::wait_for(*started.tree);
  EXPECT_EQ(ended.how, ExecEnd::signaled);
  EXPECT_EQ(ended.signal, SIGKILL);
  EXPECT_TRUE(test::eventually([&] { return started.tree->empty(); }));
  EXPECT_EQ(out_of(box, "pgrep -c sleep"), "0\n");
  started.tree->kill();
}

TEST_P(BoxTreeTest, S51_KillSparesOtherCommands) {
  const auto box = bed_.make();
  kit::StartedExec spared = bed_.start(box, shell("echo ready; exec sleep 1000"));
  EXPECT_EQ(BoxBed::read_until(spared.out, "ready"), "ready\n");
  // Whose a process is that has lost its parent in a session of its own only a cgroup tells.
  const bool cgroups = GetParam() == UseCgroups::yes;
  kit::StartedExec started =
      bed_.start(box, shell(cgroups ? "(setsid sleep 1000 &); sleep 1000 & echo ready; wait"
                                    : "sleep 1000 & echo ready; wait"));
  EXPECT_EQ(BoxBed::read_until(started.out, "ready"), "ready\n");
  started.tree->kill();
  EXPECT_TRUE(test::eventually([&] { return started.tree->try_reap() && started.tree->empty(); }));
  EXPECT_FALSE(spared.tree->try_reap());
  EXPECT_EQ(out_of(box, "pgrep -c sleep"), "1\n");
}

TEST_P(BoxTreeTest, S65_DroppingATreeEndsIt) {
  const auto box = bed_.make();
  {
    kit::StartedExec started = bed_.start(box, shell("echo ready; sleep 1000"));
    EXPECT_EQ(BoxBed::read_until(started.out, "ready"), "ready\n");
    EXPECT_TRUE(test::eventually([&] { return out_of(box, "pgrep -c sleep") == "1\n"; }));
  }
  EXPECT_TRUE(test::eventually([&] { return out_of(box, "pgrep -c sleep") == "0\n"; }));
}

TEST_P(BoxTreeTest, S45_DescendantsLiveOnUntilTheBoxEnds) {
  const auto box = bed_.make();
  kit::StartedExec started = bed_.start(box, shell("setsid sleep 1000 >/dev/null 2>&1 & exit 3"));
  EXPECT_EQ(BoxBed::wait_for(*started.tree).exit_code, 3);
  EXPECT_FALSE(started.tree->empty());
  EXPECT_TRUE(test::eventually([&] { return out_of(box, "pgrep -c sleep") == "1\n"; }));
  box->end_processes();
  EXPECT_TRUE(test::eventually([&] { return started.tree->empty(); }));
  EXPECT_TRUE(test::eventually([&] { return box->process()->ended(); }));
  EXPECT_EQ(started.tree->try_reap()->exit_code, 3);
}

TEST_P(BoxTreeTest, D4_LeavesServeAgainUnlessTheyWereKilled) {
  const auto box = bed_.make();
  for (int i = 0; i < 30; ++i) EXPECT_EQ(end_of(box, "exit 3"), "exited 3");
  for (int i = 0; i < 10; ++i) {
    kit::StartedExec started = bed_.start(box, shell("sleep 1000"));
    started.tree->kill();
    EXPECT_TRUE(test::eventually([&] { return started.tree->try_reap() && started.tree->empty(); }));
    started.tree->retire();
    EXPECT_TRUE(started.tree->try_reap() && started.tree->empty()) << "as before";
    EXPECT_EQ(end_of(box, "exit 4"), "exited 4");
  }
}

INSTANTIATE_TEST_SUITE_P(Cgroups, BoxTreeTest, testing::Values(UseCgroups::yes, UseCgroups::no),
                         [](const auto& use) { return use.param == UseCgroups::yes ? "Used" : "Unused"; });

class CappedBoxTest : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root maps a range of ids";
    bed_.settings.tmp_bytes = 256 << 20;
    bed_.settings.pids = 12;
  }
  std::shared_ptr<ContainerBox> make(std::optional<std::uint64_t> memory) {
    return bed_.make(BoxRequest{"host", BoxShape{"box", first_slot, {}, false}, {}, {}, memory});
  }
  std::string obstacle(os::CgroupController controller) { return bed_.core()->cap_obstacle(controller); }
  BoxBed bed_;
};

TEST_F(CappedBoxTest, S48_OutOfMemoryIsTheExecsThatPassedTheCap) {
  const std::string obstacle = this->obstacle(os::CgroupController::memory);
  if (!obstacle.empty()) GTEST_SKIP() << obstacle;
  const auto box = make(64 << 20);
  const std::string eat = "x = bytearray(200 << 20)";
  EXPECT_EQ(bed_.run(box, plan_of({"python3", "-c", "print(len(bytearray(10 << 20)))"})).out, "10485760\n");
  kit::StartedExec other = bed_.start(box, shell("echo ready; exec sleep 1000"));
  EXPECT_EQ(BoxBed::read_until(other.out, "ready"), "ready\n");
  const Ran ran = bed_.run(box, plan_of({"python3", "-c", eat}));
  EXPECT_EQ(ran.ended.how, ExecEnd::out_of_memory) << ran.err;
  EXPECT_EQ(ran.ended.exit_code, 137);
  EXPECT_THAT(ran.ended.limits_hit, ElementsAre(SandboxLimit::memory));
  EXPECT_FALSE(other.tree->try_reap());
  other.tree->kill();
  const ExecEnded killed = BoxBed::wait_for(*other.tree);
  EXPECT_EQ(killed.how, ExecEnd::signaled) << "killed, but not for memory";
  EXPECT_THAT(killed.limits_hit, IsEmpty());
  // A descendant's end for memory is not the leader's.
  const Ran parent = bed_.run(box, "python3 -c '" + eat + "' >/dev/null 2>&1; exit 5");
  EXPECT_EQ(parent.ended.exit_code, 5);
  EXPECT_EQ(parent.ended.how, ExecEnd::exited);
  EXPECT_THAT(parent.ended.limits_hit, ElementsAre(SandboxLimit::memory));
}

TEST_F(CappedBoxTest, S101_FilesInMemoryCountAgainstTheCap) {
  const std::string obstacle = this->obstacle(os::CgroupController::memory);
  if (!obstacle.empty()) GTEST_SKIP() << obstacle;
  const auto box = make(64 << 20);
  EXPECT_EQ(bed_.run(box, "head -c 20M /dev/zero > /tmp/some; echo fine").out, "fine\n");
  EXPECT_EQ(bed_.run(box, "exec head -c 150M /dev/zero > /tmp/big").ended.how, ExecEnd::out_of_memory);
}

TEST_F(CappedBoxTest, S101_ProcessesThatTheCapStoppedAreSaid) {
  const std::string obstacle = this->obstacle(os::CgroupController::pids);
  if (!obstacle.empty()) GTEST_SKIP() << obstacle;
  const auto box = make({});
  const std::string some = "for i in 1 2 3 4; do sleep 0 & done; wait";
  const std::string many = "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13; do sleep 1000 >/dev/null 2>&1 & done";
  EXPECT_THAT(bed_.run(box, some).ended.limits_hit, IsEmpty());
  const Ran ran = bed_.run(box, many);
  EXPECT_THAT(ran.err, HasSubstr("fork"));
  EXPECT_THAT(ran.ended.limits_hit, ElementsAre(SandboxLimit::pids));
}

}  // namespace
}  // namespace caisson::container
