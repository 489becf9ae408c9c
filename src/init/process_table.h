// The processes of a box as init sees them, and which of them are one command's.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "os/fd.h"

namespace caisson::init {

/// A mark that a process is born with and hands on to all that it starts: its UTS namespace. Nobody in a box
/// leaves his, for the box's policy of system calls refuses unshare(2), setns(2) and new namespaces by
/// clone(2).
class TreeMark {
 public:
  TreeMark() noexcept = default;
  /// Gives this process, and so what it starts from now on, a new one: with the host name of the one before.
  /// Takes CAP_SYS_ADMIN. `proc`: the box's /proc.
  static os::Result<TreeMark> renew(os::FdRef proc);

  /// As the links of /proc/PID/ns show it; empty: none.
  const std::string& link() const noexcept { return link_; }

 private:
  std::string link_;
  os::Fd keeps_;  // Its number is nobody else's as long as this is open.
};

/// For process 1 of the box, which must have one thread and alone reaps its children. Takes CAP_SYS_PTRACE,
/// and CAP_KILL.
class ProcessTable {
 public:
  /// `proc`: the box's /proc, borrowed.
  explicit ProcessTable(os::FdRef proc) noexcept : proc_(proc) {}

  /// Whether it is certain that no process that bears the mark is left, this one aside. Call it when every
  /// ended child is reaped: false also when another child has ended meanwhile, for then some may have been
  /// overlooked, and where a process cannot be looked at, as one that runs a program that nobody may read.
  bool none_bears(const TreeMark& mark) const;

  /// Sends SIGKILL to those that bear it now; whether there were any. What they start meanwhile is for a next
  /// call.
  bool kill_bearers(const TreeMark& mark) const;

 private:
  enum class Mark { this_one, another, unknown };
  Mark look(const std::string& pid, const TreeMark& mark) const;
  os::Result<std::vector<std::string>> others() const;

  os::FdRef proc_;
};

}  // namespace caisson::init
