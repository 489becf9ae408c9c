// A vfork-like child that runs a function of ours on a stack of its own (clone3(2)).
#pragma once

#include <cstdint>

#include "os/fd.h"

namespace caisson::os {

struct ClonedChild {
  Fd pidfd;
  pid_t pid;
};

/// Clones with CLONE_VM, CLONE_VFORK and CLONE_PIDFD and runs `function(argument)` in the child, which shares
/// this process's memory: it may only make raw system calls, must be marked CAISSON_CHILD_CODE, and must end
/// by execve or exit_group. Every signal is blocked in the child. The calling thread stands still until then;
/// without CLONE_VFORK the child would run on this thread's thread-local storage while the thread does.
/// `cgroup`: where the child is born (CLONE_INTO_CGROUP), when given. `flags`: more of clone(2)'s, as
/// CLONE_NEW* for namespaces of its own, and CLONE_FILES for descriptors that it opens for the caller.
Result<ClonedChild> clone_child(void (*function)(void*), void* argument, FdRef cgroup,
                                std::uint64_t flags = 0) noexcept;

}  // namespace caisson::os
