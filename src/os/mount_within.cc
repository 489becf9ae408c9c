// The copy is made by a child that enters the namespace: no thread of a larger program can.
#include "os/mount_within.h"

#include <fcntl.h>
#include <linux/mount.h>
#include <linux/sched.h>
#include <sys/syscall.h>

#include "os/clone_child.h"
#include "os/process.h"
#include "os/raw_syscall.h"

namespace caisson::os {
namespace {

// What the child, on our memory and with our descriptors, leaves for us.
struct Copier {
  int user_namespace;
  const char* path;
  mount_attr attributes{};
  volatile int step = 0;
  volatile int result = -1;  // The mount, or the negated errno of the step.
};
constexpr const char* steps[] = {"entering a user namespace", "making a mount namespace",
                                 "copying the mount of ", "setting attributes of the mount of "};

CAISSON_CHILD_CODE void copy_mount(void* argument) noexcept {
  auto* copier = static_cast<Copier*>(argument);
  const char here[] = "";
  long result = raw_syscall(SYS_setns, raw(copier->user_namespace), CLONE_NEWUSER);
  if (result == 0) {
    copier->step = 1;
    result = raw_syscall(SYS_unshare, CLONE_NEWNS);
  }
  if (result == 0) {
    copier->step = 2;
    result =
        raw_syscall(SYS_open_tree, raw(AT_FDCWD), raw(copier->path), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
  }
  if (result >= 0 && copier->step == 2) {
    copier->step = 3;
    const long set = raw_syscall(SYS_mount_setattr, raw(static_cast<int>(result)), raw(here), AT_EMPTY_PATH,
                                 raw(&copier->attributes), sizeof copier->attributes);
    if (set != 0) {
      raw_syscall(SYS_close, raw(static_cast<int>(result)));
      result = set;
    }
  }
  copier->result = static_cast<int>(result);
  for (;;) raw_syscall(SYS_exit_group, 0);
}

}  // namespace

ExplainedResult<Fd> clone_tree_within(FdRef user_namespace, const std::string& path) {
  Copier copier{user_namespace.number, path.c_str()};
  copier.attributes.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
  auto child = clone_child(&copy_mount, &copier, {}, CLONE_FILES);
  if (!child) return explained(child.error(), "a process to copy a mount");
  Process(std::move(child->pidfd), child->pid).reap();
  if (copier.result >= 0) return Fd::adopt(copier.result);
  const std::string step = steps[copier.step];
  return explained(-copier.result, step.ends_with(" of ") ? step + path : step);
}

}  // namespace caisson::os
