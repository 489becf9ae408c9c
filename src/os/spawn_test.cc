// Tests of spawn: what the started program finds itself with, and what comes back when it cannot start.
#include "os/spawn.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "os/rlimits.h"
#include "os/tty.h"
#include "tests/support/guests.h"
#include "tests/support/temporary_directory.h"

namespace caisson::os {
namespace {

using test::Command;
using test::guest;
using test::values_of;
using testing::ElementsAre;
using testing::UnorderedElementsAre;

struct Ran {
  std::string output;
  Reaped end;
};

Fd open_null() { return Fd::adopt(::open("/dev/null", O_RDWR | O_CLOEXEC)); }

// Runs the plan with its standard output captured.
Ran run(SpawnPlan plan) {
  auto pipe = make_pipe();
  const Fd null = open_null();
  plan.descriptors[0] = null;
  plan.descriptors[1] = pipe->write;
  if (plan.descriptors[2].number == 2) plan.descriptors[2] = null;
  auto process = spawn(plan);
  pipe->write.reset();
  if (!process) {
    ADD_FAILURE() << "step " << int{static_cast<std::uint8_t>(process.error().step)} << " errno "
                  << process.error().number;
    return {};
  }
  std::string output = read_all(pipe->read, 1 << 20).value();
  return {std::move(output), process->reap()};
}

TEST(Spawn, RunsAProgramAndReportsItsExit) {
  Command command({"/bin/sh", "-c", "echo out; exit 7"});
  const Ran ran = run(command.plan());
  EXPECT_EQ(ran.output, "out\n");
  ASSERT_TRUE(ran.end.status);
  EXPECT_FALSE(ran.end.status->signaled);
  EXPECT_EQ(ran.end.status->code, 7);
}

TEST(Spawn, S41_ArgumentsAndEnvironmentAreExactlyThePlans) {
  Command command({guest("guest_state"), "two words", ""}, {"A=1", "B=with=equals"});
  const Ran ran = run(command.plan());
  EXPECT_THAT(values_of(ran.output, "argument"), ElementsAre(guest("guest_state"), "two words", ""));
  EXPECT_THAT(values_of(ran.output, "variable"), ElementsAre("A=1", "B=with=equals"));
}

TEST(Spawn, S44_StartsCleanWhateverTheHostProgramHas) {
  // Descriptors without close-on-exec, ignored, handled and blocked signals, a tight umask.
  const int leaky = ::open("/dev/null", O_RDONLY);
  const int high = ::fcntl(leaky, F_DUPFD, 700);
  ASSERT_GE(high, 700);
  struct sigaction before_usr1{};
  struct sigaction before_rt{};
  struct sigaction ignore{};
  ignore.sa_handler = SIG_IGN;
  struct sigaction handle{};
  handle.sa_handler = [](int) {};
  ::sigaction(SIGUSR1, &ignore, &before_usr1);
  ::sigaction(SIGRTMAX, &handle, &before_rt);
  sigset_t blocked;
  sigset_t before_mask;
  sigfillset(&blocked);
  ::pthread_sigmask(SIG_BLOCK, &blocked, &before_mask);
  const mode_t before_umask = ::umask(0077);

  Command command({guest("guest_state")});
  const Ran ran = run(command.plan());

  sigset_t after_mask;
  ::pthread_sigmask(SIG_SETMASK, &before_mask, &after_mask);
  ::umask(before_umask);
  ::sigaction(SIGUSR1, &before_usr1, nullptr);
  ::sigaction(SIGRTMAX, &before_rt, nullptr);
  ::close(leaky);
  ::close(high);

  EXPECT_THAT(values_of(ran.output, "descriptor"), UnorderedElementsAre("0", "1", "2"));
  EXPECT_THAT(values_of(ran.output, "blocked"), ElementsAre("0"));
  EXPECT_THAT(values_of(ran.output, "ignored"), ElementsAre("0"));
  EXPECT_THAT(values_of(ran.output, "caught"), ElementsAre("0"));
  EXPECT_THAT(values_of(ran.output, "session"), ElementsAre("own"));
  EXPECT_THAT(values_of(ran.output, "terminal"), ElementsAre("no"));
  EXPECT_THAT(values_of(ran.output, "umask"), ElementsAre("022"));
  EXPECT_THAT(values_of(ran.output, "subreaper"), ElementsAre("0"));
  // The caller's own mask is as it was.
  EXPECT_EQ(sigismember(&after_mask, SIGUSR2), 1);
}

TEST(Spawn, S44_DescriptorLimitIsThePlansOrTheCallers) {
  struct rlimit own{};
  ::getrlimit(RLIMIT_NOFILE, &own);
  Command command({guest("guest_state")});
  EXPECT_THAT(values_of(run(command.plan()).output, "descriptor_limit"),
              ElementsAre(std::to_string(own.rlim_cur)));
  SpawnPlan plan = command.plan();
  plan.descriptor_limit_soft = 123;
  EXPECT_THAT(values_of(run(plan).output, "descriptor_limit"), ElementsAre("123"));
  // More than the hard limit is as much as may be.
  plan.descriptor_limit_soft = ~std::uint64_t{0};
  EXPECT_THAT(values_of(run(plan).output, "descriptor_limit"), ElementsAre(std::to_string(own.rlim_max)));
}

TEST(Spawn, S42_WorkingDirectoryIsTheGivenOne) {
  const Fd directory = Fd::adopt(::open("/usr/bin", O_PATH | O_DIRECTORY | O_CLOEXEC));
  Command command({guest("guest_state")});
  SpawnPlan plan = command.plan();
  plan.directory = directory;
  EXPECT_THAT(values_of(run(plan).output, "directory"), ElementsAre("/usr/bin"));
  // A relative candidate is looked up there.
  Command relative({"./true"});
  plan = relative.plan();
  plan.directory = directory;
  EXPECT_EQ(run(plan).end.status->code, 0);
}

TEST(Spawn, S64_TerminalBecomesTheControllingOne) {
  auto pty = open_pty(77, 33);
  ASSERT_TRUE(pty);
  Command command({guest("guest_state")});
  SpawnPlan plan = command.plan();
  for (FdRef& descriptor : plan.descriptors) descriptor = pty->terminal;
  plan.terminal = true;
  auto process = spawn(plan);
  ASSERT_TRUE(process);
  pty->terminal.reset();
  std::string output;
  char buffer[4096];
  for (;;) {
    // EIO is how a master says that the last terminal is closed.
    const auto count = read_some(pty->master, buffer, sizeof buffer);
    if (!count) break;
    output.append(buffer, *count);
  }
  std::erase(output, '\r');
  EXPECT_THAT(values_of(output, "terminal"), ElementsAre("yes"));
  EXPECT_THAT(values_of(output, "size"), ElementsAre("77 33"));
  EXPECT_EQ(process->reap().status->code, 0);
}

TEST(Spawn, SubreaperAndExtraDescriptorAndProgram) {
  const Fd program = Fd::adopt(::open(guest("guest_state").c_str(), O_RDONLY | O_CLOEXEC));
  const Fd extra = open_null();
  Command command({"nowhere"});
  SpawnPlan plan = command.plan();
  plan.subreaper = true;
  plan.extra = extra;
  plan.program = program;
  const Ran ran = run(plan);
  EXPECT_THAT(values_of(ran.output, "subreaper"), ElementsAre("1"));
  EXPECT_THAT(values_of(ran.output, "descriptor"), UnorderedElementsAre("0", "1", "2", "3"));
  EXPECT_THAT(values_of(ran.output, "argument"), ElementsAre("nowhere"));
}

// In a process whose descriptors 0 to 3 are what the plan names, in every order.
[[noreturn]] void spawn_with_low_descriptors() {
  auto pipe = make_pipe();
  auto program = Fd::adopt(::open(guest("guest_state").c_str(), O_RDONLY | O_CLOEXEC));
  const int read_end = ::fcntl(pipe->read.number(), F_DUPFD_CLOEXEC, 100);
  const int write_end = ::fcntl(pipe->write.number(), F_DUPFD_CLOEXEC, 100);
  const int program_copy = ::fcntl(program.number(), F_DUPFD_CLOEXEC, 100);
  const int orders[][4] = {{1, 0, 3, 2}, {3, 2, 1, 0}, {0, 1, 2, 3}, {2, 2, 0, 0}, {1, 1, 1, 1}};
  for (const auto& order : orders) {
    for (int number = 0; number < 5; ++number) ::close(number);
    for (int number = 0; number < 4; ++number) {
      if (::dup3(write_end, number, O_CLOEXEC) != number) _exit(2);
    }
    if (::dup3(program_copy, 4, O_CLOEXEC) != 4) _exit(2);
    Command command({"guest_state"});
    SpawnPlan plan = command.plan();
    for (int i = 0; i < 3; ++i) plan.descriptors[i].number = order[i];
    plan.extra.number = order[3];
    plan.program.number = 4;
    auto process = spawn(plan);
    if (!process) _exit(3);
    const Reaped end = process->reap();
    if (!end.status || end.status->code != 0) _exit(4);
    char output[65536];
    const auto count = read_some(FdRef{read_end}, output, sizeof output);
    if (values_of(std::string(output, count.value()), "descriptor").size() != 4) _exit(5);
  }
  _exit(0);
}

TEST(SpawnDeathTest, S44_GivenDescriptorsMayThemselvesBeTheLowOnes) {
  EXPECT_EXIT(spawn_with_low_descriptors(), testing::ExitedWithCode(0), "");
}

[[noreturn]] void spawn_without_standard_streams() {
  for (int number = 0; number < 3; ++number) ::close(number);
  auto pipe = make_pipe();
  Command command({guest("guest_state")});
  SpawnPlan plan = command.plan();
  for (FdRef& descriptor : plan.descriptors) descriptor = pipe->write;
  auto process = spawn(plan);
  if (!process || process->pidfd().number < 3) _exit(1);
  pipe->write.reset();
  const std::string output = read_all(pipe->read, 1 << 20).value();
  if (values_of(output, "descriptor").size() != 3) _exit(2);
  _exit(process->reap().status->code);
}

TEST(SpawnDeathTest, S44_HostProgramMayHaveClosedItsStandardStreams) {
  EXPECT_EXIT(spawn_without_standard_streams(), testing::ExitedWithCode(0), "");
}

// --- failures
// -------------------------------------------------------------------------------------------------

SpawnFailure failure_of(const SpawnPlan& plan) {
  auto process = spawn(plan);
  if (process) {
    process->reap();
    ADD_FAILURE() << "it started";
    return {SpawnStep::clone, 0};
  }
  return process.error();
}

MATCHER_P2(FailsAt, step, number, "") { return arg.step == step && arg.number == number; }

TEST(Spawn, S40_FailuresNameTheStepAndTheErrno) {
  const auto temporary = test::TemporaryDirectory();
  const std::string plain = temporary.path() + "/plain";
  const std::string garbage = temporary.path() + "/garbage";
  std::ofstream(plain) << "text";
  std::ofstream(garbage) << "\x01\x02";
  ::chmod(garbage.c_str(), 0755);
  Command missing({"/nowhere/at/all"});
  EXPECT_THAT(failure_of(missing.plan()), FailsAt(SpawnStep::exec, ENOENT));
  Command not_executable({plain});
  EXPECT_THAT(failure_of(not_executable.plan()), FailsAt(SpawnStep::exec, EACCES));
  Command bad_format({garbage});
  EXPECT_THAT(failure_of(bad_format.plan()), FailsAt(SpawnStep::exec, ENOEXEC));
  Command too_long({"/bin/true", std::string(256 << 10, 'x')});
  EXPECT_THAT(failure_of(too_long.plan()), FailsAt(SpawnStep::exec, E2BIG));
  Command fine({"/bin/true"});
  SpawnPlan plan = fine.plan();
  const Fd file = open_null();
  plan.directory = file;
  EXPECT_THAT(failure_of(plan), FailsAt(SpawnStep::directory, ENOTDIR));
  plan = fine.plan();
  plan.descriptors[2] = FdRef{};
  EXPECT_THAT(failure_of(plan), FailsAt(SpawnStep::descriptors, EBADF));
  plan = fine.plan();
  plan.descriptors[0] = file;
  plan.terminal = true;
  EXPECT_THAT(failure_of(plan), FailsAt(SpawnStep::terminal, ENOTTY));
  plan = fine.plan();
  plan.cgroup = file;
  EXPECT_THAT(failure_of(plan), FailsAt(SpawnStep::clone, EBADF));
}

// S-40: as execvp(3), a refusal is remembered while later directories are tried.
TEST(Spawn, S40_CandidatesAreTriedInOrder) {
  const auto temporary = test::TemporaryDirectory();
  const std::string refused = temporary.path() + "/refused";
  std::ofstream(refused) << "text";
  const std::string loop = temporary.path() + "/loop";
  ASSERT_EQ(::symlink("loop", loop.c_str()), 0);
  const std::string long_name(300, 'n');
  const char* argv[] = {"true", nullptr};
  const char* envp[] = {nullptr};
  SpawnPlan plan;
  plan.argv = argv;
  plan.envp = envp;
  for (int i = 0; i < 3; ++i) plan.descriptors[i].number = i;
  const std::string under_a_file = refused + "/x";
  const std::string too_long = "/" + long_name;
  const char* all[] = {"/nowhere",       under_a_file.c_str(), refused.c_str(),    loop.c_str(),
                       too_long.c_str(), "/bin/true",          "/nowhere/after/it"};
  plan.candidates = all;
  auto process = spawn(plan);
  ASSERT_TRUE(process);
  EXPECT_EQ(process->reap().status->code, 0);
  const char* only_refused[] = {refused.c_str(), "/nowhere"};
  plan.candidates = only_refused;
  EXPECT_THAT(failure_of(plan), FailsAt(SpawnStep::exec, EACCES));
  plan.candidates = {};
  EXPECT_THAT(failure_of(plan), FailsAt(SpawnStep::exec, ENOENT));
}

TEST(Spawn, S40_LookUpIsExecvps) {
  EXPECT_THAT(exec_candidates("ls", "/a:/b"), ElementsAre("/a/ls", "/b/ls"));
  EXPECT_THAT(exec_candidates("x/ls", "/a"), ElementsAre("x/ls"));
  EXPECT_THAT(exec_candidates("ls", "/a::b:"), ElementsAre("/a/ls", "./ls", "b/ls", "./ls"));
  EXPECT_THAT(exec_candidates("ls", ""), ElementsAre("./ls"));
  EXPECT_THAT(exec_candidates("", "/a"), ElementsAre());
}

TEST(Spawn, S40_TellsAMissingInterpreterFromAMissingCommand) {
  const auto temporary = test::TemporaryDirectory();
  const std::string script = temporary / "script";
  std::ofstream(script) << "#!/nowhere/at/all\n";
  ::chmod(script.c_str(), 0755);
  Command command({script});
  EXPECT_THAT(failure_of(command.plan()), FailsAt(SpawnStep::exec, ENOENT));
  EXPECT_TRUE(candidate_exists({}, script));
  EXPECT_FALSE(candidate_exists({}, script + "x"));
  const Fd directory = Fd::adopt(::open(temporary.path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  EXPECT_TRUE(candidate_exists(directory, "script"));
  EXPECT_FALSE(candidate_exists({}, "script"));
}

// --- the host program's own ways
// ------------------------------------------------------------------------------

TEST(Spawn, ManyThreadsAtOnce) {
  std::vector<std::thread> threads;
  std::atomic<int> good = 0;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&good] {
      for (int i = 0; i < 25; ++i) {
        Command command({"/bin/sh", "-c", "exit 5"});
        SpawnPlan plan = command.plan();
        auto process = spawn(plan);
        if (process && process->reap().status->code == 5) ++good;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 100);
}

// D-3: a spawn copies no page tables, however big the host program is. A fork of the same process is the
// control.
TEST(Spawn, D3_CostDoesNotGrowWithTheHeap) {
  using Microseconds = std::chrono::duration<double, std::micro>;
  constexpr std::size_t size = 256 << 20;
  void* heap = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(heap, MAP_FAILED);
  ::madvise(heap, size, MADV_NOHUGEPAGE);
  for (std::size_t i = 0; i < size; i += 4096) static_cast<volatile char*>(heap)[i] = 1;
  Microseconds spawned(1e9);
  Microseconds forked(1e9);
  Command command({"/bin/true"});
  for (int i = 0; i < 10; ++i) {
    auto start = std::chrono::steady_clock::now();
    auto process = spawn(command.plan());
    spawned = std::min<Microseconds>(spawned, std::chrono::steady_clock::now() - start);
    ASSERT_TRUE(process);
    process->reap();
    start = std::chrono::steady_clock::now();
    const pid_t child = ::fork();
    if (child == 0) _exit(0);
    forked = std::min<Microseconds>(forked, std::chrono::steady_clock::now() - start);
    ::waitpid(child, nullptr, 0);
  }
  ::munmap(heap, size);
  EXPECT_LT(spawned.count() * 2, forked.count());
}

}  // namespace
}  // namespace caisson::os
