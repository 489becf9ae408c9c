// Tests of the subreaper shim.
#include "os/shim.h"

#include <dirent.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "os/shim_image.h"
#include "os/tty.h"
#include "tests/support/eventually.h"
#include "tests/support/guests.h"

namespace caisson::os {
namespace {

using test::Command;
using test::eventually;
using test::guest;
using test::values_of;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::UnorderedElementsAre;

class Shim : public testing::Test {
 protected:
  // Starts it with its output captured, and reads that up to the line of `word`.
  ShimTree start(std::vector<std::string> argv, std::string_view word = "ready",
                 std::vector<std::string> env = {}) {
    auto pipe = make_pipe();
    auto empty = open_empty_input();
    Command command(std::move(argv), std::move(env));
    SpawnPlan plan = command.plan();
    plan.descriptors[0] = *empty;
    plan.descriptors[1] = pipe->write;
    auto tree = spawn_under_shim(plan);
    pipe->write.reset();
    if (!tree) {
      ADD_FAILURE() << "step " << int{static_cast<std::uint8_t>(tree.error().step)} << " errno "
                    << tree.error().number;
      std::abort();
    }
    output_ = test::read_until(pipe->read, word);
    read_end_ = std::move(pipe->read);
    return std::move(*tree);
  }

  static Reaped end_of(ShimTree& tree) {
    EXPECT_TRUE(eventually([&] {
      tree.poll();
      return tree.leader().has_value();
    }));
    return tree.leader().value_or(Reaped{});
  }
  static bool becomes_empty(ShimTree& tree, std::chrono::milliseconds patience = std::chrono::seconds(10)) {
    return eventually(
        [&] {
          tree.poll();
          return tree.empty();
        },
        patience);
  }
  // Ends the tree, and waits for the shim.
  static void finish(ShimTree tree) {
    tree.kill();
    EXPECT_TRUE(becomes_empty(tree));
    tree.take_shim().reap();
  }

  std::string output_;
  Fd read_end_;
};

SpawnFailure failure_of(const SpawnPlan& plan) {
  auto tree = spawn_under_shim(plan);
  if (tree) {
    ADD_FAILURE() << "it started";
    tree->kill();
    tree->take_shim().reap();
    return {SpawnStep::clone, 0};
  }
  return tree.error();
}
MATCHER_P2(FailsAt, step, number, "") { return arg.step == step && arg.number == number; }

TEST_F(Shim, WorksHere) { EXPECT_TRUE(probe_shim()); }

TEST_F(Shim, S48_ReportsTheLeadersEndAndThatNobodyIsLeft) {
  ShimTree tree = start({"/bin/sh", "-c", "echo ready; exit 7"});
  const Reaped end = end_of(tree);
  ASSERT_TRUE(end.status);
  EXPECT_FALSE(end.status->signaled);
  EXPECT_EQ(end.status->code, 7);
  EXPECT_TRUE(becomes_empty(tree));
  EXPECT_EQ(tree.signal(SIGTERM).error(), error_of(ESRCH));
  // The shim goes by itself.
  EXPECT_EQ(tree.take_shim().reap().status->code, 0);
}

TEST_F(Shim, EventsAreReadableWhenThereIsNews) {
  ShimTree tree = start({guest("guest_tree"), "stay"});
  pollfd events{tree.events().number, POLLIN, 0};
  EXPECT_EQ(::poll(&events, 1, 0), 0);
  ASSERT_TRUE(tree.signal(SIGTERM));
  EXPECT_EQ(::poll(&events, 1, 10000), 1);
  const Reaped end = end_of(tree);
  EXPECT_TRUE(end.status->signaled);
  EXPECT_EQ(end.status->code, SIGTERM);
  finish(std::move(tree));
}

TEST_F(Shim, S44_LeaderStartsCleanAndWithoutTheShimsWays) {
  ShimTree tree = start({guest("guest_state"), "argument"}, "directory", {"A=1", "B="});
  EXPECT_THAT(values_of(output_, "argument"), ElementsAre(guest("guest_state"), "argument"));
  EXPECT_THAT(values_of(output_, "variable"), ElementsAre("A=1", "B="));
  EXPECT_THAT(values_of(output_, "descriptor"), UnorderedElementsAre("0", "1", "2"));
  EXPECT_THAT(values_of(output_, "blocked"), ElementsAre("0"));
  EXPECT_THAT(values_of(output_, "ignored"), ElementsAre("0"));
  EXPECT_THAT(values_of(output_, "session"), ElementsAre("own"));
  EXPECT_THAT(values_of(output_, "terminal"), ElementsAre("no"));
  EXPECT_THAT(values_of(output_, "umask"), ElementsAre("022"));
  EXPECT_THAT(values_of(output_, "subreaper"), ElementsAre("0"));
  finish(std::move(tree));
}

TEST_F(Shim, S42_S64_DirectoryLimitAndTerminalAreThePlans) {
  auto pty = open_pty(77, 33);
  const Fd directory = Fd::adopt(::open("/usr/bin", O_PATH | O_DIRECTORY | O_CLOEXEC));
  Command command({guest("guest_state")});
  SpawnPlan plan = command.plan();
  for (FdRef& descriptor : plan.descriptors) descriptor = pty->terminal;
  plan.terminal = true;
  plan.directory = directory;
  plan.descriptor_limit_soft = 123;
  auto tree = spawn_under_shim(plan);
  ASSERT_TRUE(tree);
  pty->terminal.reset();
  // To the end, which comes only if the shim holds no end of the terminal.
  std::string output;
  char buffer[4096];
  for (;;) {
    const auto count = read_some(pty->master, buffer, sizeof buffer);
    if (!count) break;
    output.append(buffer, *count);
  }
  std::erase(output, '\r');
  EXPECT_THAT(values_of(output, "terminal"), ElementsAre("yes"));
  EXPECT_THAT(values_of(output, "directory"), ElementsAre("/usr/bin"));
  EXPECT_THAT(values_of(output, "descriptor_limit"), ElementsAre("123"));
  finish(std::move(*tree));
}

TEST_F(Shim, S45_HoldsNoEndOfTheStreamsNorTheWorkingDirectory) {
  ShimTree tree = start({guest("guest_tree"), "leave", "silent"});
  const auto left = test::watch_all(output_);
  ASSERT_EQ(left.size(), 1u);
  // The leader has gone, its descendant has closed its streams: that leaves only the shim, and the end comes.
  EXPECT_EQ(end_of(tree).status->code, 0);
  EXPECT_EQ(read_all(read_end_, 100).value(), "");
  EXPECT_FALSE(test::any_ended(left));
  tree.poll();
  EXPECT_FALSE(tree.empty());
  const Process shim = tree.take_shim();
  char cwd[64] = {};
  ASSERT_GT(::readlink(("/proc/" + std::to_string(shim.pid()) + "/cwd").c_str(), cwd, sizeof cwd - 1), 0);
  EXPECT_STREQ(cwd, "/");
  tree.kill();
  EXPECT_TRUE(becomes_empty(tree));
  EXPECT_TRUE(test::all_ended(left, std::chrono::seconds(10)));
  shim.reap();
}

// S-6: the environment passes through the shim's memory and is in none of what others may read of it.
TEST_F(Shim, S6_EnvironmentIsNotTheShimsOwn) {
  ShimTree tree = start({guest("guest_tree"), "stay"}, "ready", {"TOKEN=canary-in-the-mine"});
  const Process shim = tree.take_shim();
  const std::string proc = "/proc/" + std::to_string(shim.pid());
  const auto text_of = [](const std::string& path) {
    std::ifstream file(path);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  EXPECT_EQ(text_of(proc + "/comm"), "caisson-shim\n");
  EXPECT_EQ(text_of(proc + "/cmdline"), std::string("caisson-shim\0", 13));
  EXPECT_EQ(text_of(proc + "/environ"), "");
  // Its memory neither, for it was wiped: every readable private mapping is searched. The leader's is the
  // control.
  const auto holds_canary = [](const std::string& process) {
    std::ifstream maps(process + "/maps");
    std::ifstream memory(process + "/mem", std::ios::binary);
    for (std::string line; std::getline(maps, line);) {
      unsigned long start = 0;
      unsigned long end = 0;
      char mode[5] = {};
      if (std::sscanf(line.c_str(), "%lx-%lx %4s", &start, &end, mode) != 3 || mode[0] != 'r') continue;
      std::string text(end - start, '\0');
      memory.clear();
      memory.seekg(static_cast<std::streamoff>(start));
      memory.read(text.data(), static_cast<std::streamsize>(text.size()));
      if (text.find("canary-in-the-mine") != std::string::npos) return true;
    }
    return false;
  };
  EXPECT_FALSE(holds_canary(proc));
  std::ifstream children(proc + "/task/" + std::to_string(shim.pid()) + "/children");
  std::string leader;
  children >> leader;
  EXPECT_TRUE(holds_canary("/proc/" + leader));
  tree.kill();
  EXPECT_TRUE(becomes_empty(tree));
  shim.reap();
}

// S-46, S-94: every shape of tree, those whose leader has gone too.
TEST_F(Shim, S46_S94_KillEndsEveryShapeOfTree) {
  for (const char* leader : {"leave", "stay"}) {
    ShimTree tree = start({guest("guest_tree"), leader, "plain", "setsid", "double", "deep", "ignore", "stop",
                           "silent", "flood", "relay"});
    const auto processes = test::watch_all(output_);
    ASSERT_EQ(processes.size(), 13u) << output_;
    EXPECT_FALSE(test::any_ended(processes));
    tree.poll();
    EXPECT_FALSE(tree.empty());
    tree.kill();
    EXPECT_TRUE(becomes_empty(tree));
    EXPECT_TRUE(test::all_ended(processes, std::chrono::seconds(10)));
    ASSERT_TRUE(end_of(tree).status);
    tree.take_shim().reap();
  }
}

// S-46: processes that each fork the next and exit, as fast as they can. By themselves they would go on for
// far longer than is waited for here.
TEST_F(Shim, S46_RelayEnds) {
  for (const std::size_t runners : {1u, 4u}) {
    std::vector<std::string> argv{guest("guest_tree"), "leave"};
    argv.insert(argv.end(), runners, "sprint");
    ShimTree tree = start(std::move(argv));
    EXPECT_EQ(end_of(tree).status->code, 0);
    tree.poll();
    EXPECT_FALSE(tree.empty());
    finish(std::move(tree));
  }
}

TEST_F(Shim, S65_ClosingTheSocketKillsTheTree) {
  std::optional<ShimTree> tree = start({guest("guest_tree"), "stay", "setsid", "stop"});
  const auto processes = test::watch_all(output_);
  ASSERT_EQ(processes.size(), 2u);
  EXPECT_FALSE(test::any_ended(processes));
  const Process shim = tree->take_shim();
  tree.reset();
  EXPECT_TRUE(test::all_ended(processes, std::chrono::seconds(10)));
  shim.reap();
}

// The program that started it dies while a fork of it holds the socket open.
TEST_F(Shim, S29_EndOfTheProcessThatStartedItKillsTheTree) {
  auto pipe = make_pipe();
  auto hold = make_pipe();
  const pid_t program = ::fork();
  if (program == 0) {
    auto empty = open_empty_input();
    Command command({guest("guest_tree"), "stay", "setsid"});
    SpawnPlan plan = command.plan();
    plan.descriptors[0] = *empty;
    plan.descriptors[1] = pipe->write;
    auto tree = spawn_under_shim(plan);
    if (!tree) _exit(1);
    if (::fork() == 0) {
      char byte;
      hold->write.reset();
      static_cast<void>(read_some(hold->read, &byte, 1));
      _exit(0);
    }
    ::pause();
    _exit(0);
  }
  pipe->write.reset();
  const std::string output = test::read_until(pipe->read, "ready");
  const auto processes = test::watch_all(output);
  ASSERT_EQ(processes.size(), 1u);
  EXPECT_FALSE(test::any_ended(processes));
  ::kill(program, SIGKILL);
  ::waitpid(program, nullptr, 0);
  EXPECT_TRUE(test::all_ended(processes, std::chrono::seconds(10)));
}

TEST_F(Shim, ShimsOwnDeathTakesTheLeaderAndIsLost) {
  ShimTree tree = start({guest("guest_tree"), "stay"});
  const Process shim = tree.take_shim();
  std::ifstream children("/proc/" + std::to_string(shim.pid()) + "/task/" + std::to_string(shim.pid()) +
                         "/children");
  pid_t pid = 0;
  children >> pid;
  const test::Watched leader(pid);
  ASSERT_TRUE(leader);
  EXPECT_FALSE(leader.ended());
  ASSERT_TRUE(shim.signal(SIGKILL));
  shim.reap();
  EXPECT_TRUE(leader.ended(std::chrono::seconds(10)));
  const Reaped end = end_of(tree);
  EXPECT_FALSE(end.status);
  EXPECT_EQ(end.lost, error_of(ECONNRESET));
  EXPECT_TRUE(tree.empty());
  tree.kill();
  EXPECT_EQ(tree.signal(SIGTERM).error(), error_of(ESRCH));
}

TEST_F(Shim, IgnoresEverySignalThatCanBeIgnored) {
  ShimTree tree = start({guest("guest_tree"), "stay"});
  const Process shim = tree.take_shim();
  for (int number = 1; number <= 64; ++number) {
    if (number != SIGKILL && number != SIGSTOP) static_cast<void>(shim.signal(number));
  }
  ASSERT_TRUE(tree.signal(SIGTERM));
  EXPECT_EQ(end_of(tree).status->code, SIGTERM);
  EXPECT_TRUE(becomes_empty(tree));
  EXPECT_EQ(shim.reap().status->code, 0);
}

// A shim that somebody has stopped blocks nobody, whatever is asked of it.
TEST_F(Shim, StoppedShimBlocksNobody) {
  ShimTree tree = start({guest("guest_tree"), "stay"});
  const Process shim = tree.take_shim();
  ASSERT_TRUE(shim.signal(SIGSTOP));
  int refused = 0;
  for (int i = 0; i < 1 << 20 && refused == 0; ++i) {
    if (!tree.signal(SIGURG)) ++refused;
  }
  EXPECT_GT(refused, 0);
  tree.poll();
  EXPECT_FALSE(tree.leader());
  tree.kill();
  ASSERT_TRUE(shim.signal(SIGCONT));
  EXPECT_TRUE(becomes_empty(tree));
  shim.reap();
}

TEST_F(Shim, S40_FailuresAreTheCommandsAndLeaveNoShim) {
  const auto empty = open_empty_input();
  Command missing({"/nowhere/at/all"});
  EXPECT_THAT(failure_of(missing.plan()), FailsAt(SpawnStep::exec, ENOENT));
  Command refused({"/etc/passwd"});
  EXPECT_THAT(failure_of(refused.plan()), FailsAt(SpawnStep::exec, EACCES));
  Command too_long({"/bin/true", std::string(256 << 10, 'x')});
  EXPECT_THAT(failure_of(too_long.plan()), FailsAt(SpawnStep::exec, E2BIG));
  Command fine({"/bin/true"});
  SpawnPlan plan = fine.plan();
  plan.directory = *empty;
  EXPECT_THAT(failure_of(plan), FailsAt(SpawnStep::directory, ENOTDIR));
  plan = fine.plan();
  plan.descriptors[0] = *empty;
  plan.terminal = true;
  EXPECT_THAT(failure_of(plan), FailsAt(SpawnStep::terminal, ENOTTY));
}

TEST_F(Shim, LargeEnvironmentPasses) {
  std::vector<std::string> env;
  for (int i = 0; i < 40; ++i) env.push_back("V" + std::to_string(i) + "=" + std::string(30000, 'x'));
  ShimTree tree = start({"/bin/sh", "-c", "echo ready ${#V39}"}, "ready", env);
  EXPECT_THAT(output_, HasSubstr("ready 30000"));
  finish(std::move(tree));
}

// S-46: a child that is stopped before it runs its program holds the shim's main thread; the order to kill is
// heard.
TEST_F(Shim, S46_CancelReachesALeaderThatHasNotRunItsProgramYet) {
  // execve of a FIFO is refused at once, so a stop is made as others would make it: by a signal, as soon as
  // the child is there to be seen.
  auto cancel = Cancel::make();
  ASSERT_TRUE(cancel);
  auto empty = open_empty_input();
  std::vector<std::string> argv{"/bin/sleep", "1000"};
  Command command(argv);
  SpawnPlan plan = command.plan();
  for (FdRef& descriptor : plan.descriptors) descriptor = *empty;
  // Long enough a list of candidates that the child is met while it is on its way.
  const std::string missing = "/nowhere/" + std::string(200, 'n');
  std::vector<const char*> candidates(200000, missing.c_str());
  candidates.push_back("/bin/sleep");
  plan.candidates = candidates;
  std::optional<boost::system::result<ShimTree, SpawnFailure>> outcome;
  std::atomic<bool> back = false;
  std::thread starter([&] {
    outcome = spawn_under_shim(plan, cancel->events());
    back = true;
  });
  // The shim is this process's child, and its leader the shim's.
  const auto child_of = [](pid_t parent) {
    std::string all;
    for (const auto& entry :
         std::filesystem::directory_iterator("/proc/" + std::to_string(parent) + "/task")) {
      std::ifstream children(entry.path() / "children");
      pid_t pid = 0;
      if (children >> pid) return pid;
    }
    return pid_t{0};
  };
  pid_t leader = 0;
  EXPECT_TRUE(eventually([&] {
    const pid_t shim = child_of(::getpid());
    leader = shim == 0 ? 0 : child_of(shim);
    return leader != 0;
  }));
  ASSERT_NE(leader, 0);
  const test::Watched watched(leader);
  ::kill(leader, SIGSTOP);
  EXPECT_FALSE(back);
  cancel->cancel();
  EXPECT_TRUE(watched.ended(std::chrono::seconds(10)));
  starter.join();
  ASSERT_TRUE(outcome);
  if (*outcome) finish(std::move(**outcome));
}

[[noreturn]] void shim_as_nobody() {
  if (::setgroups(0, nullptr) != 0 || ::setgid(65534) != 0 || ::setuid(65534) != 0) _exit(2);
  if (!probe_shim()) _exit(3);
  auto empty = open_empty_input();
  Command command({"/bin/sleep", "1000"});
  SpawnPlan plan = command.plan();
  for (FdRef& descriptor : plan.descriptors) descriptor = *empty;
  auto tree = spawn_under_shim(plan);
  if (!tree) _exit(4);
  tree->poll();
  if (tree->empty()) _exit(5);
  tree->kill();
  const bool killed = eventually([&] {
    tree->poll();
    return tree->empty();
  });
  _exit(killed && tree->leader()->status->code == SIGKILL ? 0 : 6);
}

TEST(ShimDeathTest, WorksAsAnOrdinaryUser) { EXPECT_EXIT(shim_as_nobody(), testing::ExitedWithCode(0), ""); }

TEST(ShimImage, IsAnElfFile) {
  ASSERT_GT(shim_image().size(), 1000u);
  EXPECT_EQ(shim_image().substr(0, 4),
            "\x7f"
            "ELF");
}

}  // namespace
}  // namespace caisson::os
