// Tests of namespace descriptors.
#include "os/namespaces.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/sched.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/files.h"
#include "os/spawn.h"
#include "tests/support/guests.h"

namespace caisson::os {
namespace {

constexpr std::uint64_t kinds[] = {CLONE_NEWUSER, CLONE_NEWNS,  CLONE_NEWPID,    CLONE_NEWNET,
                                   CLONE_NEWIPC,  CLONE_NEWUTS, CLONE_NEWCGROUP, CLONE_NEWTIME};

bool same_namespace(FdRef one, FdRef other) { return status(one)->st_ino == status(other)->st_ino; }

Fd own_pidfd() { return Fd::adopt(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0))); }

// A process that waits for the end of its input.
struct Waiting {
  Process process;
  Pipe pipe;
};
Waiting start_waiting(std::uint64_t namespaces) {
  test::Command command({"/bin/cat"});
  SpawnPlan plan = command.plan();
  auto pipe = make_pipe();
  plan.descriptors[0] = pipe->read;
  plan.namespaces = namespaces;
  auto process = spawn(plan);
  EXPECT_TRUE(process);
  return {process ? std::move(*process) : Process(), std::move(*pipe)};
}

TEST(Namespaces, OfAProcessAreItsOwn) {
  const Fd self = own_pidfd();
  for (const std::uint64_t kind : kinds) {
    const auto own = open_own_namespace(kind);
    const auto by_pidfd = open_namespace(self, kind);
    ASSERT_TRUE(own) << kind;
    ASSERT_TRUE(by_pidfd) << kind;
    EXPECT_TRUE(same_namespace(*own, *by_pidfd)) << kind;
    EXPECT_EQ(::fcntl(by_pidfd->number(), F_GETFD), FD_CLOEXEC);
  }
}

TEST(Namespaces, ChildInNewOnesHasThemAndTheyOutliveIt) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root makes every kind of namespace";
  auto [process, pipe] = start_waiting(CLONE_NEWUSER | CLONE_NEWNET);
  const auto user = open_namespace(process.pidfd(), CLONE_NEWUSER);
  const auto net = open_namespace(process.pidfd(), CLONE_NEWNET);
  const auto mounts = open_namespace(process.pidfd(), CLONE_NEWNS);
  ASSERT_TRUE(user && net && mounts);
  EXPECT_FALSE(same_namespace(*user, *open_own_namespace(CLONE_NEWUSER)));
  EXPECT_FALSE(same_namespace(*net, *open_own_namespace(CLONE_NEWNET)));
  EXPECT_TRUE(same_namespace(*mounts, *open_own_namespace(CLONE_NEWNS)));
  pipe.write.reset();
  // A zombie's namespaces are gone with it, a reaped process's all the more.
  pollfd end{process.pidfd().number, POLLIN, 0};
  ::poll(&end, 1, -1);
  EXPECT_EQ(open_namespace(process.pidfd(), CLONE_NEWUSER).error(), error_of(ESRCH));
  process.reap();
  EXPECT_EQ(open_namespace(process.pidfd(), CLONE_NEWUSER).error(), error_of(ESRCH));
  EXPECT_TRUE(status(*user));
}

TEST(Namespaces, WhatIsNoneIsAnError) {
  const Fd self = own_pidfd();
  EXPECT_EQ(open_namespace(self, 0).error(), error_of(EINVAL));
  EXPECT_EQ(open_own_namespace(CLONE_NEWNS | CLONE_NEWPID).error(), error_of(EINVAL));
  EXPECT_EQ(open_namespace({}, CLONE_NEWNS).error(), error_of(EBADF));
  const Fd null = Fd::adopt(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(open_namespace(null, CLONE_NEWNS).error(), error_of(EBADF));
}

}  // namespace
}  // namespace caisson::os
