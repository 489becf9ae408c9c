// The subreaper shim: one small process per exec that finds and kills the exec's tree where no cgroup can be
// had.
#pragma once

#include <optional>
#include <string>

#include "os/spawn.h"

namespace caisson::os {

/// A command under its shim. The shim is the parent of the command's leader and the reaper of every orphan of
/// the tree, setsid and double fork included; ECHILD from its wait is the only proof that all are gone. It
/// kills the tree when told to, when this object's socket closes, and when the process that started it ends.
///
/// The shim runs as the same user as the command, which may kill it: then the leader is killed with it, and
/// what else is left of the tree is out of reach.
class ShimTree {
 public:
  ShimTree(ShimTree&&) noexcept = default;
  ShimTree& operator=(ShimTree&&) noexcept = default;

  /// Polls readable when poll() may have news.
  FdRef events() const noexcept { return socket_; }
  /// Takes in what the shim has reported; never blocks.
  void poll() noexcept;
  /// The leader's end, once it has ended. `lost` (ECONNRESET) when the shim itself was killed first.
  const std::optional<Reaped>& leader() const noexcept { return leader_; }
  /// Whether no process of the tree is left; also when the shim was killed, for nothing more can be found.
  bool empty() const noexcept { return empty_; }
  /// To the leader; ESRCH after its end.
  Result<void> signal(int number) noexcept;
  /// SIGKILL to the whole tree, until it is empty; returns at once.
  void kill() noexcept;
  /// The shim itself, for the caller to reap once the tree was killed or is empty.
  Process take_shim() noexcept { return std::move(shim_); }

 private:
  friend boost::system::result<ShimTree, SpawnFailure> spawn_under_shim(const SpawnPlan& plan, FdRef cancel);
  ShimTree(Fd socket, Process shim) noexcept : socket_(std::move(socket)), shim_(std::move(shim)) {}
  Fd socket_;
  Process shim_;
  std::string inbox_;
  std::optional<Reaped> leader_;
  bool empty_ = false;
  bool killing_ = false;
};

/// Like spawn(), under a shim of its own; `plan.cgroup`, `program`, `extra` and `subreaper` are not used, and
/// a plan with limits, namespaces or credentials is refused (EINVAL). The environment reaches the shim over
/// its socket, never its own environ or command line. `cancel`: when it becomes readable (see Cancel), what
/// was started is killed, and so is a leader that has not run its program yet. No shim is left behind by a
/// failure.
boost::system::result<ShimTree, SpawnFailure> spawn_under_shim(const SpawnPlan& plan, FdRef cancel = {});

/// Ends a spawn_under_shim that another thread waits in.
class Cancel {
 public:
  static Result<Cancel> make() noexcept;
  /// Polls readable once cancelled.
  FdRef events() const noexcept { return event_; }
  void cancel() noexcept;

 private:
  explicit Cancel(Fd event) noexcept : event_(std::move(event)) {}
  Fd event_;
};

/// Whether shims work here, tried by doing: an executable memory file, /proc with the children of a process.
Result<void> probe_shim() noexcept;

}  // namespace caisson::os
