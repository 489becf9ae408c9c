// Who this process is, for records on disk that outlive it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "os/result.h"

namespace caisson::os {

/// Tells this process from any other that ever had its number: start time in clock ticks since boot (field 22
/// of /proc/self/stat, proc_pid_stat(5)), within one boot.
struct ProcessIdentity {
  pid_t pid;
  std::uint64_t start_time;
  std::string boot_id;
  /// The inode of the cgroup namespace that paths of its cgroups are seen in (cgroup_namespaces(7)); 0:
  /// unknown.
  std::uint64_t cgroup_namespace = 0;
};
/// Read anew each time: a fork changes it. `start_time` is 0 where /proc is not there.
ProcessIdentity own_identity();

/// The home directory of the effective user, as the user database has it (getpwuid_r(3)); ENOENT when it has
/// none.
Result<std::string> home_directory();

}  // namespace caisson::os
