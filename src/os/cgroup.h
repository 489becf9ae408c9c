// Cgroup leaves of the v2 hierarchy: where an exec's tree lives and is killed (D-4).
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "os/fd.h"
#include "os/leaf_shelf.h"

namespace caisson::os {

/// Where Caisson may make cgroups on this machine, and why there if it matters.
struct CgroupPlace {
  std::string directory;  ///< Absolute path of the directory that holds Caisson's cgroups.
  std::string
      how;  ///< For doctor: "a subtree delegated to this process", "as root, beside the other cgroups".
};

/// Finds the place (D-4): a v2 subtree delegated to this process, else, as root, `<mount>/caisson`. Tried by
/// doing: a cgroup is made, entered by a clone, killed and removed there. Once found it is remembered, as
/// long as this process stays in its cgroup and keeps its user. On failure the text says what stands in the
/// way.
boost::system::result<CgroupPlace, std::string> find_cgroup_place();

/// Takes this process from a cgroup that was delegated to it, where nobody else is, into a leaf of that: in
/// the kernel's rules only a cgroup without processes of its own has caps beneath it. For a program's start,
/// never for a library's: it is seen by the whole process. False: it is in no such cgroup, or not alone
/// there.
Result<bool> enter_leaf_of_delegated_cgroup();

/// One leaf. Its processes are killed together; a leaf once killed is never used again, for the kernel kills
/// at birth whatever is later cloned into it.
class CgroupLeaf {
 public:
  /// Opens one that was made. EMFILE also within the reserve of descriptors (spare_descriptor()).
  static Result<CgroupLeaf> open(std::string path);
  CgroupLeaf(CgroupLeaf&&) noexcept = default;
  CgroupLeaf& operator=(CgroupLeaf&&) noexcept = default;

  FdRef directory() const noexcept { return directory_; }  ///< For CLONE_INTO_CGROUP.
  const std::string& path() const noexcept { return path_; }
  /// Writes cgroup.kill: SIGKILL to everything in it, in one atomic step.
  /// Needs no new descriptor.
  Result<void> kill() noexcept;
  /// Whether a live process is in it (cgroup.events; zombies do not count).
  Result<bool> populated() const noexcept;
  bool killed() const noexcept { return killed_; }
  /// Whether it may serve again: never killed, nobody is in it, and no cgroup is beneath it.
  bool reusable() const noexcept;

 private:
  CgroupLeaf(std::string path, Fd directory, Fd events, Fd killer) noexcept;
  std::string path_;
  Fd directory_;
  Fd events_;
  Fd killer_;
  bool killed_ = false;
};

/// mkdir of a cgroup, and of as many `parents` above it as are missing: those that Caisson's processes share
/// are removed by any of them that finds them empty. EEXIST: it is there.
Result<void> make_cgroup(const std::string& path, int parents) noexcept;

/// The name of the cgroup directory that a pool of this process makes, unique on the machine:
/// "<pid>-<32 hex digits>".
std::string new_cgroup_name();

/// Leaves under one directory of its own, locked (flock(2)) as long as the pool lives, made ahead and removed
/// off the caller's path. Thread-safe. The destructor kills what is left and removes everything, unless it
/// runs in a fork of the process that made the pool.
class CgroupLeafPool {
 public:
  /// Makes `<place>/<name>`, and removes what pools of dead processes have left beside it: directories named
  /// `<pid>-...` of a process that is no more, which nobody has locked. `ahead`: how many clean leaves
  /// refill() keeps ready.
  static Result<std::unique_ptr<CgroupLeafPool>> create(const CgroupPlace& place, std::string_view name,
                                                        std::size_t ahead);
  ~CgroupLeafPool();

  const std::string& path() const noexcept { return path_; }
  /// A clean leaf: a ready one, else one made now.
  Result<CgroupLeaf> acquire();
  /// Gives a leaf back: kept for reuse if it was never killed and is empty, else put aside for tidy().
  void give_back(CgroupLeaf leaf) noexcept;
  /// Like give_back, for a leaf that a clone refused to enter: it is removed, whatever it is.
  void discard(CgroupLeaf leaf) noexcept;
  /// Whether tidy() would have something to do.
  bool untidy() const noexcept;
  /// Makes leaves ahead and removes those put aside, retrying a busy one for a short while (rmdir is EBUSY
  /// until the kernel has let go of a killed process); blocking, for a worker thread. True when nothing is
  /// left to do.
  bool tidy() noexcept;

 private:
  CgroupLeafPool(std::string path, std::size_t ahead);
  Result<CgroupLeaf> make_leaf();
  std::string path_;
  Fd lock_;
  pid_t owner_;
  std::atomic<std::size_t> next_ = 0;
  LeafShelf<CgroupLeaf> leaves_;
};

/// Where a process is in a hierarchy.
struct CgroupPosition {
  std::string mount;  ///< Where the hierarchy is mounted; empty when it is not.
  std::string own;    ///< The directory of its own cgroup; empty when it is not beneath the mount.
  bool operator==(const CgroupPosition&) const = default;
};
/// From the text of /proc/self/mountinfo and /proc/self/cgroup (proc(5), cgroups(7)).
CgroupPosition cgroup_position(std::string_view mount_info, std::string_view own);
/// This process's.
CgroupPosition own_cgroup_position();

/// Whether a path is in the v2 hierarchy as it is mounted here: it, or what is there of the directories above
/// it.
bool is_in_cgroup_hierarchy(std::string path) noexcept;

/// Whether a pool lives that made this cgroup directory, in whatever process: it holds its lock.
Result<bool> cgroup_in_use(const std::string& path) noexcept;

/// Kills everything in a cgroup directory and beneath it and removes it, as recovery does with what a dead
/// process left; blocking, at most `patience`. ENOENT is success; EBUSY when something would not die.
Result<void> remove_cgroup_tree(const std::string& path, std::chrono::milliseconds patience) noexcept;
/// rmdir of a cgroup without others in it; EBUSY while a process is in it.
Result<void> remove_empty_cgroup(const std::string& path) noexcept;
/// As remove_cgroup_tree() without killing anything, as v1 cannot: EBUSY while a process is in one of them.
Result<void> remove_cgroup_directories(const std::string& path, std::chrono::milliseconds patience) noexcept;

}  // namespace caisson::os
