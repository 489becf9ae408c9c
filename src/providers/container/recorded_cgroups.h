// Cgroups as a session's record names them, and their removal when its owner is gone (S-29, D-4).
#pragma once

#include <string>
#include <vector>

#include "os/identity.h"

namespace caisson::container {

/// Directories that hold the processes of one session alone, by absolute paths.
struct SessionCgroups {
  std::string unified;              ///< Of the v2 hierarchy, where they are killed; empty: there is none.
  std::vector<std::string> legacy;  ///< Of v1 hierarchies.

  bool operator==(const SessionCgroups&) const = default;
};
/// What such a directory is to be called: "<pid>-<session id>". Others are removed only when no process of
/// that number is left.
std::string cgroup_name(const os::ProcessIdentity& owner, const std::string& session_id);

struct CgroupRemoval {
  std::vector<std::string> ignored = {};  ///< Paths that are not, or may not be, the session's.
  std::string failure = {};               ///< Why some are left; empty: none is.
};
/// Kills what is in the v2 cgroup, and removes it; removes the v1 cgroups, in which nobody is then. For who
/// holds the lock of the session `id`, whose record is not believed: a directory is touched only if it is a
/// cgroup, by its true path, and has a name of the session's own, or one of a process that is no more and
/// that nobody has locked. Blocking, at most two seconds for each.
CgroupRemoval remove_recorded_cgroups(const SessionCgroups& cgroups, const os::ProcessIdentity& owner,
                                      const std::string& session_id);

}  // namespace caisson::container
