// Tests of commands by the library itself, under sanitizers: this process's fork is process 1 of a box.
#include "init/exec_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sstream>

#include "init/cgroup_tree_test.h"
#include "init/exec_start.h"
#include "init/in_box_test.h"
#include "os/cgroup.h"
#include "tests/support/cgroups.h"
#include "tests/support/eventually.h"

namespace caisson::init {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(MergedEnvironment, S41_LaterWins) {
  EXPECT_THAT(merged_environment("/root", {"A=1", "B=2"}, {"B=3", "C=", "C=4"}),
              ElementsAre("HOME=/root", "A=1", "B=3", "C=4"));
  EXPECT_THAT(merged_environment("/root", {"HOME=/x"}, {}), ElementsAre("HOME=/x"));
  EXPECT_THAT(merged_environment("", {"AB=1"}, {"A=2"}), ElementsAre("AB=1", "A=2"));
}

class ExecServerTest : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root maps a range of ids";
    plan_.ids = {65535, 65535};
    plan_.directories = {{"/workspace", 0755, 0, 0}};
  }
  BoxPlan plan_ = host_plan();
};

std::string in_words(const ExecServer::News& news) {
  return std::visit([](const auto& each) { return init::in_words(Reply(each)); }, news);
}

// What is told until there are so many.
std::string news_of(ExecServer& server, std::size_t count) {
  std::string text;
  const bool all = test::eventually([&] {
    for (const auto& news : server.reap()) {
      text += in_words(news) + ";";
      --count;
    }
    return count == 0;
  });
  return all ? text : text + "no more";
}

std::uint64_t start(ExecServer& server, const std::string& script, CommandPipes& pipes) {
  auto started = server.start(shell(script), std::move(pipes.theirs));
  return started ? started->started.exec : 0;
}

// A command's script, which says "ready" when what is to be seen of it is there.
template <class Then>
std::string with_command(const Box& box, const std::string& script, Then then) {
  auto server = ExecServer(box, false);
  CommandPipes pipes(false);
  const std::uint64_t exec = start(server, script, pipes);
  char byte = 0;
  while (os::read_some(pipes.output, &byte, 1).value() == 1 && byte != '\n') {
  }
  return then(server, exec);
}

TEST_F(ExecServerTest, S48_EndsAreToldOnceAndKeptUntilAcknowledged) {
  EXPECT_EQ(in_box(plan_,
                   [](const Box& box) {
                     return with_command(box, "exit 9", [](ExecServer& server, std::uint64_t exec) {
                       std::string text = news_of(server, 1);
                       text += std::to_string(server.reap().size());
                       text += std::to_string(server.unacknowledged().size());
                       text += std::to_string(server.acknowledge({exec}).has_value());
                       text += std::to_string(server.unacknowledged().size());
                       return text + std::to_string(server.acknowledge({exec}).has_value());
                     });
                   }),
            "code 9;01100");
}

TEST_F(ExecServerTest, S63_KillReachesWhatTheLeaderLeft) {
  EXPECT_EQ(in_box(plan_,
                   [](const Box& box) {
                     return with_command(
                         box, "(setsid sleep 1000 & sleep 1000 &) >/dev/null 2>&1; echo; exit 1",
                         [](ExecServer& server, std::uint64_t exec) {
                           std::string text = news_of(server, 1) + std::to_string(server.pause_ms()) + ";";
                           text += std::to_string(server.acknowledge({exec}).has_value());
                           text += std::to_string(server.kill({exec}).has_value());
                           text += std::to_string(server.pause_ms() > 0) + ";";
                           text += news_of(server, 1);
                           // It is forgotten, having been acknowledged.
                           return text + std::to_string(server.kill({exec}).has_value());
                         });
                   }),
            "code 1 left;-1;111;empty;0");
}

TEST_F(ExecServerTest, S46_KillOutrunsAProcessThatForks) {
  EXPECT_EQ(in_box(plan_,
                   [](const Box& box) {
                     return with_command(
                         box,
                         "f() { while :; do (f 2>/dev/null &) ; sleep 0.02; done; }; trap '' TERM; echo; f",
                         [](ExecServer& server, std::uint64_t exec) {
                           static_cast<void>(server.kill({exec}));
                           const std::string text = news_of(server, 1);
                           return text == "signal 9 left;" ? news_of(server, 1) : std::string("empty;");
                         });
                   }),
            "empty;");
}

// Whoever they are the children of by now, and whatever session they have begun.
TEST_F(ExecServerTest, S45_AMarkTellsWhoseALeftoverIs) {
  const auto leaves_one = [](int code) {
    return "(setsid sh -c 'sleep 1000 & exit' &) >/dev/null 2>&1; sleep 0.1; exit " + std::to_string(code);
  };
  EXPECT_EQ(in_box(plan_,
                   [&](const Box& box) {
                     auto server = ExecServer(box, false);
                     CommandPipes pipes[3] = {CommandPipes(false), CommandPipes(false), CommandPipes(false)};
                     const std::uint64_t one = start(server, leaves_one(1), pipes[0]);
                     const std::uint64_t other = start(server, leaves_one(1), pipes[2]);
                     std::string text = news_of(server, 2);
                     start(server, "exit 2", pipes[1]);
                     text += news_of(server, 1);
                     static_cast<void>(server.kill({other}));
                     text += news_of(server, 1);
                     text += std::to_string(server.pause_ms()) + ";";
                     static_cast<void>(server.kill({one}));
                     return text + news_of(server, 1);
                   }),
            "code 1 left;code 1 left;code 2;empty;-1;empty;");
}

// One that nobody may look at (prctl PR_SET_DUMPABLE), and one whose first thread has ended.
TEST_F(ExecServerTest, S45_NoProcessHidesItsMark) {
  const std::string wait = "close STDOUT; close STDERR; sleep 1000";
  for (const std::string& script : std::vector<std::string>{
           "syscall(157, 4, 0, 0, 0, 0); " + wait,
           "use threads; threads->create(sub { sleep 1000 }); close STDOUT; close STDERR; syscall(60, 0)"}) {
    EXPECT_EQ(in_box(plan_,
                     [&](const Box& box) {
                       return with_command(box, "perl -e '" + script + "' & sleep 0.2; echo; exit 1",
                                           [](ExecServer& server, std::uint64_t exec) {
                                             std::string text = news_of(server, 1);
                                             static_cast<void>(server.kill({exec}));
                                             return text + news_of(server, 1);
                                           });
                     }),
              "code 1 left;empty;")
        << script;
  }
}

// Without descriptors nothing can be looked at, as where a command of init's own id lowers its limit.
TEST_F(ExecServerTest, S45_WhatCannotBeLookedAtIsNotGone) {
  EXPECT_EQ(in_box(plan_,
                   [](const Box& box) {
                     return with_command(box, "sleep 1000 >/dev/null 2>&1 & echo; exit 1",
                                         [](ExecServer& server, std::uint64_t exec) {
                                           std::string text = news_of(server, 1);
                                           struct rlimit before{};
                                           ::getrlimit(RLIMIT_NOFILE, &before);
                                           const struct rlimit none{3, before.rlim_max};
                                           ::setrlimit(RLIMIT_NOFILE, &none);
                                           static_cast<void>(server.kill({exec}));
                                           for (int i = 0; i < 3; ++i)
                                             text += std::to_string(server.reap().size());
                                           ::setrlimit(RLIMIT_NOFILE, &before);
                                           return text + news_of(server, 1);
                                         });
                   }),
            "code 1 left;000empty;");
}

TEST_F(ExecServerTest, D4_ACommandIsInTheCgroupsThatRodeAlong) {
  const std::string mount = test::writable_cgroup();
  if (mount.empty()) GTEST_SKIP() << "no cgroups";
  const std::string name = os::new_cgroup_name();
  ASSERT_EQ(::mkdir((mount + "/" + name).c_str(), 0755), 0);
  os::Fd procs = os::Fd::adopt(::open((mount + "/" + name + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC));
  EXPECT_EQ(in_box(plan_,
                   [&](const Box& box) {
                     auto server = ExecServer(box, false);
                     CommandPipes pipes(false);
                     StartExec request = shell("cat /proc/self/cgroup");
                     request.joined = 1;
                     pipes.theirs.push_back(std::move(procs));
                     static_cast<void>(server.start(request, std::move(pipes.theirs)));
                     const std::string out = os::read_all(pipes.output, 10000).value();
                     const std::string end = news_of(server, 1);
                     return end + (out.find("/" + name + "\n") != std::string::npos ? "inside" : out);
                   }),
            "code 0;inside");
  EXPECT_EQ(::rmdir((mount + "/" + name).c_str()), 0);
}

// The cgroup of the first line of /proc/self/cgroup that is of v2.
std::string unified_of(const std::string& text) {
  const std::size_t at = text.find("0::");
  return at == std::string::npos ? "none" : text.substr(at, text.find('\n', at) - at);
}

// How a command ends that is to be in that cgroup, and which that is.
std::string cgroup_of(ExecServer& server, const std::string& name) {
  CommandPipes pipes(false);
  StartExec request = shell("cat /proc/self/cgroup");
  request.cgroup = name;
  const auto started = server.start(request, std::move(pipes.theirs));
  if (!started) return in_words(started.error());
  const std::string out = os::read_all(pipes.output, 10000).value();
  return news_of(server, 1) + unified_of(out);
}

TEST_F(ExecServerTest, D4_ACommandIsBornInTheCgroupThatIsNamed) {
  if (test::writable_cgroup().empty()) GTEST_SKIP() << "no cgroups";
  const uid_t init = 100000 + plan_.ids.uid;
  const CgroupTree tree(init);
  CgroupTree::add(tree.path() + "/execs/foreign", 0);
  plan_.cgroup = true;
  std::vector<os::Fd> along;
  along.push_back(tree.mount());
  const os::Fd procs =
      os::Fd::adopt(::open((tree.path() + "/init/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC));
  const auto body = [&] {
    if (!os::write_all(procs, "0")) return std::string("joining");
    auto box = build_box(plan_, std::move(along));
    if (!box) return in_words(box.error());
    auto server = ExecServer(*box, false);
    std::string text = unified_of(text_of("/proc/self/cgroup")) + "\n" + cgroup_of(server, "leaf") + "\n" +
                       cgroup_of(server, "") + "\n";
    // One that init's ids do not own, one that is not there, and one beside them.
    for (const char* name : {"foreign", "none", "init"}) text += cgroup_of(server, name) + "\n";
    // Nothing of the hierarchy is above the box's own cgroup.
    const auto inode = [&](const char* path) {
      struct stat is{};
      return ::fstatat(box->cgroups.number(), path, &is, 0) == 0 ? is.st_ino : 0;
    };
    return text + (inode("..") == inode("../../../..") ? "closed" : "open");
  };
  EXPECT_EQ(test::in_child(body, all_namespaces, "0 100000 65536"),
            "0::/init\ncode 0;0::/execs/leaf\ncode 0;0::/init\n" +
                in_words(failure(Step::clone, EACCES, "/bin/sh")) + "\n" +
                in_words(failure(Step::cgroup, ENOENT, "none")) + "\n" +
                in_words(failure(Step::cgroup, ENOENT, "init")) + "\nclosed");
}

TEST_F(ExecServerTest, D4_ABoxWithoutACgroupHasNoneForCommands) {
  EXPECT_EQ(in_box(plan_,
                   [](const Box& box) {
                     auto server = ExecServer(box, false);
                     return cgroup_of(server, "leaf");
                   }),
            in_words(failure(Step::cgroup, ENODEV, "leaf")));
}

TEST_F(ExecServerTest, D4_V1CgroupsAreJoinedByInitAndByCommands) {
  const V1Cgroup init("pids");
  if (init.path().empty()) GTEST_SKIP() << "no v1 hierarchy of pids";
  const V1Cgroup exec(init, "exec");
  plan_.joined = 1;
  std::vector<os::Fd> along;
  along.push_back(init.tasks());
  os::Fd tasks = exec.tasks();
  const std::string said = in_box(
      plan_,
      [&](const Box& box) {
        auto server = ExecServer(box, false);
        std::string text;
        for (const bool joins : {false, true}) {
          CommandPipes pipes(false);
          StartExec request = shell("grep :pids: /proc/self/cgroup | cut -d: -f3");
          request.joined = joins ? 1 : 0;
          if (joins) pipes.theirs.push_back(std::move(tasks));
          static_cast<void>(server.start(request, std::move(pipes.theirs)));
          text += os::read_all(pipes.output, 10000).value() + news_of(server, 1);
        }
        return text;
      },
      "0 100000 65536", std::move(along));
  EXPECT_EQ(said, "/\ncode 0;/exec\ncode 0;");
}

// The rights of the box's user are for what is his: a directory that only he may enter.
TEST_F(ExecServerTest, S42_AWorkingDirectoryOfTheUsersAlone) {
  plan_.user = {1000, 1000, {}, "/workspace", "user"};
  plan_.directories = {{"/workspace", 0700, 1000, 1000}, {"/run/other", 0700, 0, 0}};
  EXPECT_EQ(in_box(plan_,
                   [](const Box& box) {
                     auto server = ExecServer(box, false);
                     CommandPipes pipes(false);
                     static_cast<void>(server.start(shell("pwd; touch mine"), std::move(pipes.theirs)));
                     std::string text = os::read_all(pipes.output, 100).value() + news_of(server, 1);
                     StartExec other = shell("pwd");
                     other.cwd = "/run/other";
                     pipes = CommandPipes(false);
                     text += in_words(server.start(other, std::move(pipes.theirs)).error());
                     return text + ";" + std::filesystem::current_path().string();
                   }),
            "/workspace\ncode 0;" + in_words(failure(Step::cwd, EACCES, "/run/other")) + ";/");
}

// By a link of the box's to a descriptor of init's, which nothing in the box may reach.
TEST_F(ExecServerTest, D5_AWorkingDirectoryIsNoneOfInitsDescriptors) {
  plan_.directories = {{"/workspace", 0777, 0, 0}};
  EXPECT_EQ(in_box(plan_,
                   [](const Box& box) {
                     auto server = ExecServer(box, false);
                     std::string text;
                     for (const std::string& target :
                          {std::string("/tmp"), "/proc/self/fd/" + std::to_string(box.root.number())}) {
                       std::filesystem::remove("/workspace/link");
                       std::filesystem::create_symlink(target, "/workspace/link");
                       CommandPipes pipes(false);
                       StartExec request = shell("pwd -P");
                       request.cwd = "/workspace/link";
                       const auto started = server.start(request, std::move(pipes.theirs));
                       text += started ? os::read_all(pipes.output, 100).value() + news_of(server, 1)
                                       : in_words(started.error());
                     }
                     return text;
                   }),
            "/tmp\ncode 0;" + in_words(failure(Step::cwd, ELOOP, "/workspace/link")));
}

TEST_F(ExecServerTest, AStartThatFailsLeavesNothing) {
  EXPECT_EQ(in_box(plan_,
                   [](const Box& box) {
                     auto server = ExecServer(box, false);
                     const auto count = [] {
                       return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
                     };
                     const auto before = count();
                     StartExec request = shell("true");
                     request.argv[0] = "/none";
                     CommandPipes pipes(false);
                     std::vector<os::Fd> theirs = std::move(pipes.theirs);
                     const auto started = server.start(request, std::move(theirs));
                     pipes = CommandPipes(false);
                     pipes.theirs.clear();
                     std::string text =
                         in_words(started.error()) + ";" + std::to_string(server.reap().size());
                     request = shell("true");
                     request.cwd = "/none";
                     text += in_words(server.start(request, {}).error()) + ";" +
                             std::to_string(server.reap().size());
                     return text + std::to_string(count() - before - 3);
                   }),
            in_words(failure(Step::exec, ENOENT, "")) + ";0" + in_words(failure(Step::cwd, ENOENT, "/none")) +
                ";00");
}

}  // namespace
}  // namespace caisson::init
