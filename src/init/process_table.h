// The processes of a box as init sees them: its own children, and whole trees of them.
#pragma once

#include <sys/types.h>

#include <vector>

#include "os/fd.h"

namespace caisson::init {

class ProcessTable {
 public:
  /// `proc`: the box's /proc, borrowed. ENOENT: the kernel tells of no children (CONFIG_PROC_CHILDREN).
  static os::Result<ProcessTable> open(os::FdRef proc) noexcept;

  /// The children of this process, which must have one thread and alone reaps them: ended ones that it has
  /// not reaped included. A tree that lost its root has each of its own new roots here.
  std::vector<pid_t> children() const;

  /// Sends SIGKILL to the processes of these and to all that descends from them now, parents first. What is
  /// started meanwhile is for a next call.
  void kill_trees(const std::vector<pid_t>& roots) const;

 private:
  ProcessTable(os::FdRef proc, os::Fd children) noexcept : proc_(proc), children_(std::move(children)) {}
  os::FdRef proc_;
  os::Fd children_;
};

}  // namespace caisson::init
