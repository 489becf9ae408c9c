// The system calls that a box may make (D-12, S-101), compiled into a filter.
#pragma once

#include <string>

namespace caisson::os {

/// The filter's program, for install_seccomp() (seccomp.h).
///
/// Native calls that need no privilege are allowed; those whose only use is to leave or change a box, or that
/// have been the way into kernels, answer EPERM: mounts, namespaces, modules, keys, bpf, perf events,
/// io_uring, userfaultfd and their like. What the policy does not name answers ENOSYS, and so does any call
/// of the i386 and x32 ABIs and clone3, whose flags no filter can see: libc falls back to clone, which is
/// EPERM with a flag for a new namespace. A socket of another family than AF_UNIX, AF_INET, AF_INET6 and
/// AF_NETLINK is EAFNOSUPPORT. The ioctls that put characters into a terminal's input are EPERM, and so is a
/// personality(2) of anything but address layout and uname(2)'s answers. ptrace(2) is allowed: PID and user
/// namespaces bound it.
std::string compile_seccomp_policy();

}  // namespace caisson::os
