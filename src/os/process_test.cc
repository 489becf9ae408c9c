// Tests of waiting for children by their pidfds.
#include "os/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/spawn.h"
#include "tests/support/eventually.h"
#include "tests/support/guests.h"

namespace caisson::os {
namespace {

Process start(std::vector<std::string> argv) {
  test::Command command(std::move(argv));
  return spawn(command.plan()).value();
}

class SigchldIs {
 public:
  explicit SigchldIs(void (*handler)(int), int flags = 0) {
    struct sigaction action{};
    action.sa_handler = handler;
    action.sa_flags = flags;
    ::sigaction(SIGCHLD, &action, &before_);
  }
  ~SigchldIs() { ::sigaction(SIGCHLD, &before_, nullptr); }
  SigchldIs(const SigchldIs&) = delete;
  SigchldIs& operator=(const SigchldIs&) = delete;

 private:
  struct sigaction before_;
};

TEST(Process, TryReapTellsRunningFromEnded) {
  const Process process = start({"/bin/sleep", "1000"});
  EXPECT_FALSE(process.try_reap());
  ASSERT_TRUE(process.signal(SIGTERM));
  const Reaped end = process.reap();
  ASSERT_TRUE(end.status);
  EXPECT_TRUE(end.status->signaled);
  EXPECT_EQ(end.status->code, SIGTERM);
  EXPECT_FALSE(end.status->core);
  EXPECT_EQ(process.signal(SIGTERM).error(), error_of(ESRCH));
}

// An event loop makes the descriptors it watches non-blocking, pidfds too, and waitid(2) answers EAGAIN then.
TEST(Process, NonBlockingPidfdIsAnOrdinaryOne) {
  const Process process = start({"/bin/sleep", "1000"});
  int on = 1;
  ASSERT_EQ(::ioctl(process.pidfd().number, FIONBIO, &on), 0);
  EXPECT_FALSE(process.try_reap());
  ASSERT_TRUE(process.signal(SIGKILL));
  EXPECT_EQ(process.reap().status->code, SIGKILL);
}

TEST(Process, S48_StatusIsKnownWhereTheHostProgramIgnoresSigchld) {
  EXPECT_TRUE(children_are_waitable());
  for (const bool no_wait : {false, true}) {
    const SigchldIs ignored(no_wait ? SIG_DFL : SIG_IGN, no_wait ? SA_NOCLDWAIT : 0);
    EXPECT_FALSE(children_are_waitable());
    const Process exits = start({"/bin/sh", "-c", "exit 6"});
    const Reaped exited = exits.reap();
    const Process sleeps = start({"/bin/sleep", "1000"});
    EXPECT_FALSE(sleeps.try_reap());
    ASSERT_TRUE(sleeps.signal(SIGKILL));
    const Reaped killed = sleeps.reap();
    if (exited.status) {  // Linux 6.15 or newer.
      EXPECT_EQ(exited.status->code, 6);
      ASSERT_TRUE(killed.status);
      EXPECT_TRUE(killed.status->signaled);
      EXPECT_EQ(killed.status->code, SIGKILL);
    } else {
      EXPECT_EQ(exited.lost, error_of(ECHILD));
      EXPECT_EQ(killed.lost, error_of(ECHILD));
    }
  }
}

TEST(Process, S48_StatusIsKnownWhereTheHostProgramReapsForUs) {
  const Process process = start({"/bin/sh", "-c", "exit 6"});
  int status = 0;
  ASSERT_EQ(::waitpid(process.pid(), &status, 0), process.pid());
  const auto end = process.try_reap();
  ASSERT_TRUE(end);
  if (end->status) {
    EXPECT_EQ(end->status->code, 6);
  } else {
    EXPECT_EQ(end->lost, error_of(ECHILD));
  }
}

// A zombie of somebody else is no news yet, and no busy loop either: reap() waits until it was reaped.
TEST(Process, StrangersZombieIsNotTheEnd) {
  auto pipe = make_pipe();
  ASSERT_TRUE(pipe);
  const pid_t parent = ::fork();
  if (parent == 0) {
    const pid_t child = ::fork();
    if (child == 0) _exit(3);
    siginfo_t info;
    ::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT);
    if (!write_all(pipe->write, std::string_view(reinterpret_cast<const char*>(&child), sizeof child)))
      _exit(1);
    ::pause();
    _exit(0);
  }
  pid_t child = 0;
  ASSERT_EQ(read_some(pipe->read, &child, sizeof child).value(), sizeof child);
  const Process stranger(Fd::adopt(static_cast<int>(::syscall(SYS_pidfd_open, child, 0))), child);
  const auto early = stranger.try_reap();
  const bool told_later = !early;  // Linux 6.15 or newer.
  ::kill(parent, SIGKILL);
  ::waitpid(parent, nullptr, 0);
  if (told_later) {
    const Reaped end = stranger.reap();
    ASSERT_TRUE(end.status);
    EXPECT_EQ(end.status->code, 3);
  } else {
    EXPECT_EQ(early->lost, error_of(ECHILD));
  }
}

}  // namespace
}  // namespace caisson::os
