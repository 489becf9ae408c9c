// A cgroup namespace, made by a child that is born where its root is to be.
#include "os/cgroup_namespace.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <sys/syscall.h>

#include "os/clone_child.h"
#include "os/process.h"
#include "os/raw_syscall.h"

namespace caisson::os {

namespace {

// What the child, on our memory and with our descriptors, leaves for us.
struct Maker {
  volatile int opened = -1;    // The namespace.
  volatile int unshared = -1;  // 0, or the errno.
};

CAISSON_CHILD_CODE void make_namespace(void* argument) noexcept {
  auto* maker = static_cast<Maker*>(argument);
  const char path[] = "/proc/self/ns/cgroup";
  long result = raw_syscall(SYS_unshare, CLONE_NEWCGROUP);
  maker->unshared = static_cast<int>(-result);
  if (result == 0) {
    result = raw_syscall(SYS_openat, raw(AT_FDCWD), raw(path), O_RDONLY | O_CLOEXEC);
    maker->opened = static_cast<int>(result);
  }
  for (;;) raw_syscall(SYS_exit_group, 0);
}

}  // namespace

ExplainedResult<void> enter_new_cgroup_namespace(FdRef cgroup) {
  if (cgroup.number < 0) {
    if (::unshare(CLONE_NEWCGROUP) != 0) return explained(last_error(), "a cgroup namespace");
    return {};
  }
  Maker maker;
  auto child = clone_child(&make_namespace, &maker, cgroup, CLONE_FILES);
  if (!child) return explained(child.error(), "a process in the cgroup");
  Process(std::move(child->pidfd), child->pid).reap();
  if (maker.unshared != 0) {
    return explained(maker.unshared > 0 ? maker.unshared : EIO, "a cgroup namespace in the cgroup");
  }
  if (maker.opened < 0) return explained(-maker.opened, "/proc/self/ns/cgroup");
  const Fd made = Fd::adopt(maker.opened);
  if (::setns(made.number(), CLONE_NEWCGROUP) != 0) {
    return explained(last_error(), "entering the cgroup namespace");
  }
  return {};
}

}  // namespace caisson::os
