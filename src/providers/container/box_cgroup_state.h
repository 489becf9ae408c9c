// What a BoxCgroup, its leaves and the jobs that tidy up behind them share.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "os/mount.h"
#include "providers/container/box_cgroup.h"

namespace caisson::container {

/// Throws kit::DescriptorsExhausted where descriptors have run out, else unavailable with the step that
/// failed and, where it is known, what helps.
[[noreturn]] void fail_cgroup(const os::ExplainedError& error);
/// A duplicate to be sent away. Throws as fail_cgroup().
os::Fd copy_of(os::FdRef file);

/// What leaves need of their box, whatever becomes of that.
struct BoxLeafShared {
  bool mounts = false;             // Whether init clones into leaves by a mount of the whole.
  std::vector<os::Fd> exec_tasks;  // Of each v1 hierarchy where execs have no leaf of their own.
  os::Fd pids_events;              // Where the cap of pids is.
};

struct BoxLeaf::Parts {
  std::shared_ptr<const BoxLeafShared> shared;
  os::CgroupLeaf leaf;
  os::Fd procs;                  // Where init cannot clone into it: its cgroup.procs.
  os::Fd memory_tasks;           // v1.
  os::Fd memory_events;          // Where `oom_kill` is counted.
  os::Fd pids_events;            // Where they are counted for itself.
  std::string memory_path = {};  // Of its v1 cgroup; empty: there is none.
  std::uint64_t oom_kills_before = 0;
  std::uint64_t pids_before = 0;
  std::uint64_t box_pids_before = 0;
};

/// Thread-safe once it is made.
struct BoxCgroupState {
  BoxCgroupState(BoxCgroupPaths where, const os::CgroupCaps& what, InitOwner who, bool has_mount);

  /// Makes the v2 directories.
  os::ExplainedResult<void> make_unified();
  /// Makes those of one v1 hierarchy, and sets the caps that it has controllers for.
  os::ExplainedResult<void> make_v1(const std::string& directory,
                                    const std::vector<os::CgroupController>& controllers);
  /// Sets the caps of those controllers that v2 has. Throws as fail_cgroup().
  void set_unified_caps();
  os::ExplainedResult<BoxLeaf> make_leaf();
  /// Removes leaves put aside, and makes some ready.
  void tidy() noexcept;
  os::ExplainedResult<void> remove(std::chrono::milliseconds patience) noexcept;

  const BoxCgroupPaths paths;
  const os::CgroupCaps caps;
  const InitOwner owner;
  const pid_t owner_process;                  // Whose cgroups they are: not a fork's.
  std::vector<os::CgroupController> unified;  // Those of the caps that v2 is to keep.
  std::vector<std::string>
      unified_above;  // The v2 directories that are to let those down, the topmost first.

  std::optional<os::CgroupLeaf> whole;
  os::Fd init_leaf;
  std::vector<os::Fd> init_tasks;  // Of each v1 hierarchy.
  std::string memory_execs;      // The v1 directory of their leaves in that of memory; empty: there is none.
  bool memory_has_pids = false;  // Whether that hierarchy has the cap of pids too.
  // Set before the first leaf is made.
  const std::shared_ptr<BoxLeafShared> shared = std::make_shared<BoxLeafShared>();

  os::LeafShelf<BoxLeaf> leaves;
  std::atomic<std::size_t> next = 0;
  std::atomic<bool> tidying = false;
  std::atomic<bool> removed = false;  // Or about to be.
  std::atomic<bool> gone = true;      // Or not made yet.

 private:
  os::ExplainedResult<BoxLeaf> open_leaf(const std::string& name);
};

}  // namespace caisson::container
