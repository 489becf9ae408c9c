// spawn: the one function that starts a process (D-3).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "os/capabilities.h"
#include "os/process.h"

namespace caisson::os {

/// Which step failed before the new program ran; `shim` is the shim's own part (shim.h).
enum class SpawnStep : std::uint8_t {
  clone,
  session,
  terminal,
  directory,
  descriptors,
  limits,
  credentials,
  exec,
  shim,
  cgroup
};

struct SpawnFailure {
  SpawnStep step;
  int number;  ///< errno
};

/// Who a child becomes: real, effective and saved ids alike. The capabilities of a user id that is not 0 go
/// with the change (capabilities(7)).
struct SpawnIds {
  uid_t user;
  gid_t group;
  /// The supplementary groups; not given, they stay: a user namespace that has a single id may set none.
  std::optional<std::span<const gid_t>> groups;
};

/// One limit of setrlimit(2), RLIM64_INFINITY for none.
struct ResourceLimit {
  int resource;
  std::uint64_t soft;
  std::uint64_t hard;
};

/// What to start. Everything is prepared by the caller; the child only makes system calls (clone3 with
/// CLONE_VM and CLONE_VFORK), so the plan and what it points to must not change until spawn returns.
struct SpawnPlan {
  std::span<const char* const>
      candidates;  ///< Paths to try in order, as execvp(3) does: ENOENT, ENOTDIR, EACCES go on.
  FdRef program;   ///< When given, this file is run (execveat(2)) and no candidate.
  const char* const* argv = nullptr;  ///< Null-terminated.
  const char* const* envp = nullptr;  ///< Null-terminated.
  FdRef directory;                    ///< The child's working directory (fchdir); none: inherited.
  FdRef descriptors[3];               ///< Become 0, 1 and 2.
  FdRef extra;                        ///< Becomes 3, when given; nothing else is open in the child.
  FdRef cgroup;                       ///< A v2 cgroup to be born in (CLONE_INTO_CGROUP), when given.
  /// Each a cgroup.procs (v2) or tasks (v1) open for writing, to join by it first of all: for who holds no
  /// directory of it, and for v1. By cgroup.procs that takes up to some ms.
  std::span<const FdRef> joined;
  bool terminal = false;        ///< Make descriptor 0 the controlling terminal.
  bool subreaper = false;       ///< PR_SET_CHILD_SUBREAPER, which survives the exec.
  int parent_death_signal = 0;  ///< PR_SET_PDEATHSIG, when not 0: sent when the thread that spawned ends.
  std::uint64_t descriptor_limit_soft = 0;  ///< RLIMIT_NOFILE of the child; 0 leaves it.
  std::span<const ResourceLimit>
      limits;  ///< More limits, set with the privileges that the child begins with.

  // For a program in namespaces of its own, and for one that has less than its parent. What stands above is
  // done with the parent's privileges: the working directory may be one that the new user could not enter.
  std::uint64_t namespaces = 0;  ///< New ones for the child (CLONE_NEW*). Its ids are mapped by the parent.
  /// Makes every permitted capability inheritable and ambient, so that a program in a user namespace that has
  /// no id map yet keeps them (D-5).
  bool raise_capabilities = false;
  std::optional<SpawnIds> ids;
  /// The most that the program and all it starts may have: the other capabilities leave the bounding set
  /// (which takes CAP_SETPCAP) and, after the change of ids, every other set.
  std::optional<CapabilityMask> capability_mask;
  bool no_new_privileges = false;  ///< PR_SET_NO_NEW_PRIVS.
  /// A filter's program (seccomp_policy.h), loaded last of all, when not empty: 0.05 ms a start. For a parent
  /// that cannot be under the filter itself, which would refuse it the clone3 of its next spawn.
  std::string_view seccomp;
};

/// Starts a process in a new session (setsid), with default signal dispositions, an empty signal mask and
/// umask 022, whatever the calling process has. Blocks until the new program runs or the failure is known: a
/// child that something stops before its execve holds the calling thread, so call it on a thread that keeps
/// no deadlines. Thread-safe.
boost::system::result<Process, SpawnFailure> spawn(const SpawnPlan& plan) noexcept;

/// `name` as execvp(3) would look it up: itself if it has a slash, else each directory of `path` joined with
/// it (an empty one is the working directory).
std::vector<std::string> exec_candidates(std::string_view name, std::string_view path);

/// Whether `path` leads to a file, seen from `directory`, when given, or from the working directory. What
/// exists and yet was ENOENT to spawn is a script or program whose interpreter is missing.
bool candidate_exists(FdRef directory, const std::string& path) noexcept;

[[noreturn]] inline void throw_exception_from_error(const SpawnFailure& failure,
                                                    const boost::source_location&) {
  throw boost::system::system_error(error_of(failure.number), "spawn");
}

}  // namespace caisson::os
