// Traces: what a process has left of itself in the kernel and the file system, for the leak check.
#pragma once

#include <map>
#include <string>

namespace caisson::test {

/// For each descriptor, thread, child, cgroup, mount, network interface, temporary file and stray process:
/// what tells it apart, and the words that name it.
using Traces = std::map<std::string, std::string>;

/// What there is now of this process:
///  - open descriptors, with what they lead to, and threads;
///  - children, zombies included, and processes whose working directory is under temporary_base();
///  - cgroups of every mounted hierarchy whose directory name holds our pid as a number of its own
///    (os::new_cgroup_name()): other test programs run at the same time;
///  - mounts (exactly ours, see isolate_mounts()) and network interfaces (a test that makes some outside a
///    namespace of its own must run alone: SERIAL in caisson_test());
///  - files under temporary_base().
Traces take_traces();

/// What is in `after` and not in `before`, but for descriptors that a process opens once and keeps for good.
Traces left_behind(const Traces& before, const Traces& after);

/// Gives this process a mount namespace of its own where it may, so that other programs' mounts are none of
/// ours. A process that may not cannot leave a mount behind either.
void isolate_mounts() noexcept;

}  // namespace caisson::test
