// Tests of the program caisson-init from outside: a whole box, as root and as an ordinary user.
#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "init/host_plan_test.h"
#include "init/init_process_test.h"
#include "os/beneath.h"
#include "os/capabilities.h"
#include "tests/support/eventually.h"
#include "tests/support/forked.h"
#include "tests/support/guests.h"
#include "tests/support/temporary_directory.h"

namespace caisson::init {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::StartsWith;

constexpr uid_t first_uid = 524288;

os::IdMaps range_maps() { return {{{0, first_uid, 65536}}, {{0, first_uid, 65536}}}; }

// A box of image `host`, in which init has an id of its own and the user is root.
class InitProgram : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root maps a range of ids";
    plan_.ids = {65535, 65535};
    plan_.directories = {{"/workspace", 0755, 0, 0}};
  }
  // Starts init and has it build the box.
  void build() {
    auto sockets = os::make_socket_pair();
    init_ = std::make_unique<InitProcess>(init_program(), std::move(sockets->second), range_maps());
    ASSERT_EQ(init_->failure(), "");
    host_ = std::make_unique<TestHost>(std::move(sockets->first));
    ASSERT_TRUE(std::holds_alternative<HelloReply>(host_->ask(Hello{}).reply));
    ASSERT_EQ(in_words(host_->ask(BuildBox{plan_}).reply), "done");
  }
  Outcome run(const std::string& script, const std::string& input = {}) {
    return init::run(*host_, shell(script), input, first_uid + plan_.user.uid);
  }

  BoxPlan plan_ = host_plan();
  std::unique_ptr<InitProcess> init_;
  std::unique_ptr<TestHost> host_;
};

TEST_F(InitProgram, S101_CommandIsInABox) {
  build();
  const Outcome outcome = run("echo hi; id -u; hostname; pwd; cat /proc/self/status");
  EXPECT_EQ(outcome.end, "code 0");
  EXPECT_EQ(outcome.err, "");
  EXPECT_THAT(outcome.out, StartsWith("hi\n0\nbox\n/workspace\n"));
  EXPECT_THAT(outcome.out, HasSubstr("Seccomp:\t2"));
  EXPECT_THAT(outcome.out, HasSubstr("NoNewPrivs:\t1"));
  EXPECT_THAT(outcome.out, HasSubstr("CapEff:\t0000000000000000"));
  EXPECT_THAT(outcome.out, HasSubstr("CapBnd:\t0000000000000000"));
  // The control: what tells is not always so.
  EXPECT_THAT(text_of("/proc/self/status"), HasSubstr("Seccomp:\t0"));
}

TEST_F(InitProgram, S101_NamespacesAreItsOwn) {
  build();
  const Outcome outcome = run("for n in user pid mnt net ipc uts cgroup; do readlink /proc/self/ns/$n; done");
  std::istringstream lines(outcome.out);
  for (const char* name : {"user", "pid", "mnt", "net", "ipc", "uts", "cgroup"}) {
    std::string link;
    std::getline(lines, link);
    EXPECT_THAT(link, StartsWith(name));
    EXPECT_NE(link, fs::read_symlink(std::string("/proc/self/ns/") + name)) << name;
  }
}

TEST_F(InitProgram, S101_ProcShowsOnlyTheBoxesProcesses) {
  build();
  EXPECT_EQ(run("cd /proc; echo [0-9]*").out, "1 2\n");
  const std::string host_pid = std::to_string(::getpid());
  EXPECT_EQ(run("kill -0 1 2>/dev/null && echo can; kill -0 " + host_pid + " 2>/dev/null || echo cannot").out,
            "cannot\n");
  // Nothing of init is to be read.
  EXPECT_EQ(run("cat /proc/1/environ /proc/1/maps 2>/dev/null; readlink /proc/1/fd/3 /proc/1/cwd "
                "/proc/1/exe; cat /proc/1/comm")
                .out,
            "caisson-init\n");
  EXPECT_EQ(run("readlink /proc/self/cwd").out, "/workspace\n");
}

TEST_F(InitProgram, D5_StandardStreamsCanBeOpenedAgain) {
  build();
  const Outcome outcome = run("echo x > /dev/stderr; echo y > /dev/stdout; cat /dev/stdin", "in");
  EXPECT_EQ(outcome.err, "x\n");
  EXPECT_EQ(outcome.out, "y\nin");
  // S-43.
  EXPECT_EQ(run("cat; echo end").out, "end\n");
}

TEST_F(InitProgram, S44_DescriptorsAreTheStandardOnes) {
  build();
  EXPECT_EQ(run("ls /proc/self/fd").out, "0\n1\n2\n3\n");  // The last is of ls itself.
  EXPECT_EQ(
      run("umask; ulimit -c; cat /proc/self/status | grep -E '^Sig(Blk|Ign|Cgt)' | grep -vc 0000000000000000")
          .out,
      "0022\n0\n0\n");
  StartExec limited = shell("ulimit -Sn");
  limited.descriptor_limit_soft = 123;
  EXPECT_EQ(init::run(*host_, limited).out, "123\n");
}

TEST_F(InitProgram, S41_EnvironmentIsTheBasesAndTheRequests) {
  plan_.environment = {"PATH=/nowhere", "A=base", "B=base"};
  build();
  StartExec request{{"env"}, {"A=own", "C=", "PATH=/usr/bin"}, "", {}, false, 0, "", 0};
  EXPECT_EQ(init::run(*host_, request).out, "HOME=/root\nPATH=/usr/bin\nA=own\nB=base\nC=\n");
  // S-40: the PATH is that of the command.
  request.env = {};
  EXPECT_EQ(init::run(*host_, request).end, in_words(Failed{Step::exec, ENOENT, ""}));
}

TEST_F(InitProgram, S40_ACommandThatCannotRunSaysWhy) {
  build();
  run("printf '#!/no/such\\n' > /tmp/script; printf 'x' > /tmp/text; printf 'junk' > /tmp/junk; chmod +x "
      "/tmp/script /tmp/junk");
  const auto end = [&](const std::string& program) {
    return init::run(*host_, {{program}, {}, "", {}, false, 0, "", 0}).end;
  };
  EXPECT_EQ(end("no-such"), in_words(Failed{Step::exec, ENOENT, ""}));
  EXPECT_EQ(end("/tmp/script"), in_words(Failed{Step::exec, ENOENT, "/tmp/script"}));
  EXPECT_EQ(end("/tmp/text"), in_words(Failed{Step::exec, EACCES, "/tmp/text"}));
  EXPECT_EQ(end("/tmp/junk"), in_words(Failed{Step::exec, ENOEXEC, "/tmp/junk"}));
  EXPECT_EQ(end("/bin/true"), "code 0");
}

TEST_F(InitProgram, S42_WorkingDirectories) {
  build();
  run("mkdir -p sub/dir; ln -s /workspace/sub in; ln -s /etc out");
  const auto in = [&](const std::string& cwd) {
    StartExec request = shell("pwd -P");
    request.cwd = cwd;
    const Outcome outcome = init::run(*host_, request);
    return outcome.out + outcome.end;
  };
  EXPECT_EQ(in(""), "/workspace\ncode 0");
  EXPECT_EQ(in("sub/dir"), "/workspace/sub/dir\ncode 0");
  EXPECT_EQ(in("in/dir"), "/workspace/sub/dir\ncode 0");
  EXPECT_EQ(in("/etc"), "/etc\ncode 0");
  EXPECT_EQ(in("/../.."), "/\ncode 0");
  EXPECT_EQ(in("out"), in_words(Failed{Step::cwd, EXDEV, "out"}));
  EXPECT_EQ(in(".."), in_words(Failed{Step::cwd, EXDEV, ".."}));
  EXPECT_EQ(in("none"), in_words(Failed{Step::cwd, ENOENT, "none"}));
  EXPECT_EQ(in("/etc/passwd"), in_words(Failed{Step::cwd, ENOTDIR, "/etc/passwd"}));
}

TEST_F(InitProgram, S48_EndsAreToldAsTheyAre) {
  build();
  EXPECT_EQ(run("exit 0").end, "code 0");
  EXPECT_EQ(run("exit 137").end, "code 137");
  EXPECT_EQ(run("kill -TERM $$").end, "signal 15");
  EXPECT_EQ(run("kill -KILL $$").end, "signal 9");
}

TEST_F(InitProgram, S64_SignalsReachTheLeader) {
  build();
  CommandPipes pipes(false);
  auto answer = host_->ask(shell("trap 'echo got; exit 5' USR1; echo ready; while :; do sleep 0.01; done"),
                           std::move(pipes.theirs));
  const std::uint64_t exec = std::get<Started>(answer.reply).exec;
  EXPECT_EQ(test::read_until(pipes.output, "ready"), "ready\n");
  EXPECT_EQ(in_words(host_->ask(SignalExec{exec, SIGUSR1}).reply), "done");
  EXPECT_EQ(test::read_until(pipes.output, "got"), "got\n");
  EXPECT_THAT(in_words(host_->news()), StartsWith("code 5"));
  EXPECT_EQ(in_words(host_->ask(SignalExec{exec, SIGUSR1}).reply), in_words(Failed{Step::signal, ESRCH, ""}));
  EXPECT_EQ(in_words(host_->ask(SignalExec{exec + 1, SIGUSR1}).reply),
            in_words(Failed{Step::protocol, 0, "no such exec"}));
}

TEST_F(InitProgram, S63_KillEmptiesTheTree) {
  build();
  CommandPipes pipes(false);
  // A child, one in a session of its own, and one that lost its parent in another session.
  auto answer = host_->ask(shell("sleep 1000 & setsid sleep 1000 & (setsid sleep 1000 & setsid sh -c 'sleep "
                                 "1000 & exec sleep 1000' &) ; echo ready; wait"),
                           std::move(pipes.theirs));
  const std::uint64_t exec = std::get<Started>(answer.reply).exec;
  EXPECT_EQ(test::read_until(pipes.output, "ready"), "ready\n");
  EXPECT_EQ(in_words(host_->ask(KillExec{exec}).reply), "done");
  const std::string end = in_words(host_->news());
  EXPECT_THAT(end, StartsWith("signal 9"));
  if (end == "signal 9 left") {
    EXPECT_EQ(in_words(host_->news()), "empty");
  }
  EXPECT_EQ(run("pgrep -c sleep").out, "0\n");
  EXPECT_EQ(in_words(host_->ask(KillExec{exec}).reply), "done");
}

TEST_F(InitProgram, S45_WhatALeaderLeavesBehindIsKnown) {
  build();
  const auto leave = [&](const std::string& script) {
    CommandPipes pipes(false);
    auto answer = host_->ask(shell(script), std::move(pipes.theirs));
    return std::get<Started>(answer.reply).exec;
  };
  const std::uint64_t one = leave("sleep 1000 >/dev/null 2>&1 & exit 3");
  EXPECT_EQ(in_words(host_->news()), "code 3 left");
  // One that starts later and ends without anything left is not taken for its owner.
  EXPECT_EQ(run("exit 4").end, "code 4");
  const std::uint64_t other = leave("sleep 1000 >/dev/null 2>&1 & exit 5");
  EXPECT_EQ(in_words(host_->news()), "code 5 left");
  // Known is also whose each is, by its session: killing one spares the other's.
  EXPECT_EQ(in_words(host_->ask(AckExit{one}).reply), "done");
  EXPECT_EQ(in_words(host_->ask(KillExec{other}).reply), "done");
  EXPECT_EQ(in_words(host_->news()), "empty");
  EXPECT_EQ(run("pgrep -c sleep").out, "1\n");
}

TEST_F(InitProgram, S64_ATerminalIsTheBoxesOwn) {
  build();
  StartExec request = shell(
      "tty; stty size; echo $((1 + 1)); test -e /dev/tty && echo tty > /dev/tty; read x; stty size; exit 6");
  request.tty = TtySize{91, 17};
  auto answer = host_->ask(request);
  ASSERT_EQ(answer.descriptors.size(), 1U);
  const std::uint64_t exec = std::get<Started>(answer.reply).exec;
  EXPECT_EQ(test::read_until(answer.descriptors[0], "tty"), "/dev/pts/0\r\n17 91\r\n2\r\ntty\r\n");
  EXPECT_EQ(in_words(host_->ask(ResizeTty{exec, {132, 43}}).reply), "done");
  ASSERT_TRUE(os::write_all(answer.descriptors[0], "\n"));
  EXPECT_THAT(test::read_until(answer.descriptors[0], "43 132"), HasSubstr("43 132"));
  EXPECT_EQ(in_words(host_->news()), "code 6");
  EXPECT_EQ(in_words(host_->ask(ResizeTty{exec + 7, {1, 1}}).reply),
            in_words(Failed{Step::protocol, 0, "no such exec"}));
}

TEST_F(InitProgram, S103_UserHasHisIdsAndOnlyThePlansCapabilities) {
  plan_.user = {1000, 1001, {7, 8}, "/workspace", "user"};
  plan_.capabilities = os::capability(CAP_CHOWN) | os::capability(CAP_DAC_OVERRIDE);
  build();
  const Outcome user = run("id -u; id -g; id -G; grep Cap /proc/self/status; cat /proc/self/uid_map");
  EXPECT_THAT(user.out, StartsWith("1000\n1001\n1001 7 8\n"));
  EXPECT_THAT(user.out, HasSubstr("CapPrm:\t0000000000000000"));
  EXPECT_THAT(user.out, HasSubstr("CapBnd:\t0000000000000003"));
}

TEST_F(InitProgram, S103_RootOfABoxKeepsThePlansCapabilities) {
  plan_.capabilities = os::capability(CAP_CHOWN) | os::capability(CAP_DAC_OVERRIDE);
  build();
  EXPECT_THAT(run("grep Cap /proc/self/status").out, HasSubstr("CapEff:\t0000000000000003"));
  EXPECT_EQ(run("touch /tmp/f && chown 5:6 /tmp/f && stat -c %u:%g /tmp/f").out, "5:6\n");
}

TEST_F(InitProgram, D12_FilterHoldsInTheBoxAndNotInInit) {
  build();
  EXPECT_THAT(run("unshare -U true 2>&1; mount -t tmpfs x /tmp 2>&1; true").out,
              HasSubstr("unshare failed: Operation not permitted"));
  EXPECT_THAT(text_of("/proc/" + std::to_string(init_->process().pid()) + "/status"),
              HasSubstr("Seccomp:\t0"));
}

TEST_F(InitProgram, S71_FilesArePutAndGot) {
  build();
  auto put = host_->ask(BeginPut{"sub/file", {}});
  ASSERT_EQ(put.descriptors.size(), 1U);
  ASSERT_TRUE(os::write_all(put.descriptors[0], "from outside"));
  const std::uint64_t number = std::get<PutOpened>(put.reply).put;
  EXPECT_EQ(run("cat sub/file 2>/dev/null").out, "");
  EXPECT_EQ(in_words(host_->ask(CommitPut{number}).reply), "done");
  EXPECT_EQ(run("cat sub/file; stat -c '%a %u' sub/file").out, "from outside644 0\n");
  run("echo and inside >> sub/file");
  auto opened = host_->ask(OpenFile{"/workspace/sub/file", ""});
  ASSERT_EQ(opened.descriptors.size(), 1U);
  EXPECT_EQ(std::get<Opened>(opened.reply).size, 23U);
  EXPECT_EQ(os::read_all(opened.descriptors[0], 100).value(), "from outsideand inside\n");
  EXPECT_EQ(in_words(host_->ask(OpenFile{"../etc/passwd", ""}).reply),
            in_words(Failed{Step::open, EXDEV, "../etc/passwd"}));
  EXPECT_EQ(in_words(host_->ask(CommitPut{number}).reply),
            in_words(Failed{Step::protocol, 0, "no such put"}));
}

TEST_F(InitProgram, S29_WithAListenerTheBoxOutlivesEachConnection) {
  test::TemporaryDirectory temporary;
  const os::Fd directory = os::open_directory(temporary.path()).value();
  {
    os::Fd listener = os::bind_socket_at(directory, "control", 0600).value();
    init_ = std::make_unique<InitProcess>(init_program(), std::move(listener), range_maps());
    ASSERT_EQ(init_->failure(), "");
  }
  const auto connect = [&] {
    os::Fd socket;
    EXPECT_TRUE(test::eventually([&] {
      auto connected = os::connect_socket_at(directory, "control");
      if (connected) socket = std::move(*connected);
      return connected.has_value();
    }));
    host_ = std::make_unique<TestHost>(std::move(socket));
    EXPECT_TRUE(std::holds_alternative<HelloReply>(host_->ask(Hello{}).reply));
  };
  connect();
  // Who listens is init, whoever made the socket.
  EXPECT_EQ(os::peer_credentials(host_->channel().socket())->pid, init_->process().pid());
  ASSERT_EQ(in_words(host_->ask(BuildBox{plan_}).reply), "done");
  CommandPipes pipes(true);
  StartExec waiting = shell("read x; exit 8");
  waiting.input = true;
  const std::uint64_t exec = std::get<Started>(host_->ask(waiting, std::move(pipes.theirs)).reply).exec;
  auto put = host_->ask(BeginPut{"file", {}});
  ASSERT_EQ(put.descriptors.size(), 1U);
  host_.reset();
  // It ends while nobody is there to hear of it.
  pipes.input.reset();
  EXPECT_EQ(os::read_all(pipes.output, 100).value(), "");
  connect();
  EXPECT_EQ(in_words(host_->news()), "code 8");
  EXPECT_EQ(in_words(host_->ask(CommitPut{std::get<PutOpened>(put.reply).put}).reply),
            in_words(Failed{Step::protocol, 0, "no such put"}));
  // Told again until it is acknowledged.
  connect();
  EXPECT_EQ(in_words(host_->news()), "code 8");
  EXPECT_EQ(in_words(host_->ask(AckExit{exec}).reply), "done");
  connect();
  EXPECT_EQ(run("ls; exit 9").end, "code 9");

  // D-5: a command goes on while nobody reads, and who comes back has its streams, with all that was written.
  CommandPipes talk(true, first_uid);
  StartExec talking = shell("echo before; read x; echo got $x; echo err >&2; cat; exit 3");
  talking.input = true;
  const std::uint64_t talker = std::get<Started>(host_->ask(talking, std::move(talk.theirs)).reply).exec;
  StartExec screen = shell("read x; stty size");
  screen.tty = TtySize{80, 24};
  const std::uint64_t viewer = std::get<Started>(host_->ask(screen).reply).exec;
  host_.reset();
  talk = CommandPipes(false);
  connect();
  const auto list = std::get<ExecList>(host_->ask(ListExecs{}).reply);
  ASSERT_EQ(list.execs.size(), 2U);
  EXPECT_EQ(list.execs[0].exec, talker);
  EXPECT_EQ(list.execs[1].exec, viewer);
  EXPECT_FALSE(list.execs[0].ended);
  auto streams = host_->ask(TakeStreams{talker});
  ASSERT_EQ(in_words(streams.reply), in_words(Reply(Streams{false, true, true, true})));
  ASSERT_EQ(streams.descriptors.size(), 3U);
  ASSERT_TRUE(os::write_all(streams.descriptors[0], "it\nrest"));
  streams.descriptors[0].reset();
  EXPECT_EQ(in_words(host_->ask(CloseInput{talker}).reply), "done");
  EXPECT_EQ(in_words(host_->news()), "code 3");
  EXPECT_EQ(os::read_all(streams.descriptors[1], 100).value(), "before\ngot it\nrest");
  EXPECT_EQ(os::read_all(streams.descriptors[2], 100).value(), "err\n");
  EXPECT_EQ(in_words(host_->ask(AckExit{talker}).reply), "done");
  EXPECT_EQ(in_words(host_->ask(TakeStreams{talker}).reply),
            in_words(Failed{Step::protocol, 0, "no such exec"}));
  auto terminal = host_->ask(TakeStreams{viewer});
  ASSERT_EQ(terminal.descriptors.size(), 1U);
  ASSERT_TRUE(os::write_all(terminal.descriptors[0], "\n"));
  EXPECT_THAT(test::read_until(terminal.descriptors[0], "24 80"), HasSubstr("24 80"));
  EXPECT_EQ(in_words(host_->news()), "code 0");
}

TEST_F(InitProgram, S29_WithoutAListenerTheEndOfTheSocketIsTheEndOfTheBox) {
  build();
  CommandPipes pipes(false, first_uid);
  host_->ask(shell("setsid sh -c 'echo ready; exec sleep 1000' & exec sleep 1000"), std::move(pipes.theirs));
  EXPECT_EQ(test::read_until(pipes.output, "ready"), "ready\n");
  host_.reset();
  EXPECT_TRUE(init_->ends());
  // Nobody is left who could write.
  EXPECT_EQ(os::read_all(pipes.output, 100).value(), "");
}

TEST_F(InitProgram, RequestsAtTheWrongTimeAreRefused) {
  auto sockets = os::make_socket_pair();
  init_ = std::make_unique<InitProcess>(init_program(), std::move(sockets->second), range_maps());
  host_ = std::make_unique<TestHost>(std::move(sockets->first));
  const auto refusal = [](const char* why) { return in_words(Failed{Step::protocol, 0, why}); };
  EXPECT_EQ(in_words(host_->ask(Ping{}).reply), refusal("no Hello yet"));
  EXPECT_TRUE(std::holds_alternative<HelloReply>(host_->ask(Hello{}).reply));
  EXPECT_EQ(in_words(host_->ask(Ping{}).reply), "done");
  EXPECT_EQ(in_words(host_->ask(KillExec{1}).reply), refusal("no box yet"));
  EXPECT_EQ(in_words(host_->ask(BuildBox{plan_}).reply), "done");
  EXPECT_EQ(in_words(host_->ask(BuildBox{plan_}).reply), refusal("there is a box already"));
  EXPECT_EQ(in_words(host_->ask(AckExit{1}).reply), refusal("no such exec"));
}

// S-103: the one id that anybody may map.
TEST_F(InitProgram, S103_OrdinaryUserHasABoxOfASingleId) {
  const os::Fd program = init_program();
  plan_.ids = {0, 0};
  plan_.directories.clear();
  const std::string outcome = test::in_child([&] {
    if (::setgroups(0, nullptr) != 0 || ::setresgid(54321, 54321, 54321) != 0 ||
        ::setresuid(54321, 54321, 54321) != 0)
      return std::string("ids");
    // As a user's own program is, and what it starts until that runs.
    ::prctl(PR_SET_DUMPABLE, 1);
    auto sockets = os::make_socket_pair();
    InitProcess init(program, std::move(sockets->second), os::single_id_maps(0, 0));
    if (!init.failure().empty()) return init.failure();
    TestHost host(std::move(sockets->first));
    host.ask(Hello{});
    const std::string built = in_words(host.ask(BuildBox{plan_}).reply);
    if (built != "done") return built;
    const Outcome ran =
        init::run(host, shell("id -u; cat /proc/self/uid_map; touch x && ls; echo e > /dev/stderr; "
                              "grep -E 'CapEff|Seccomp:|NoNewPrivs' /proc/self/status; exit 7"));
    std::istringstream words(ran.out + ran.err + ran.end);
    std::string text;
    for (std::string word; words >> word;) text += word + " ";
    return text;
  });
  EXPECT_EQ(outcome, "0 0 54321 1 x CapEff: 0000000000000000 NoNewPrivs: 1 Seccomp: 2 e code 7 ");
}

}  // namespace
}  // namespace caisson::init
