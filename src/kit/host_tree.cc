// Trees of host processes: reaped, signalled, killed, given back.
#include "kit/host_tree.h"

#include <signal.h>

#include <cerrno>

#include "os/fault_point.h"

namespace caisson::kit {

ExecEnded ended_of(const os::Reaped& reaped) {
  ExecEnded ended;
  if (!reaped.status) {
    ended.how = ExecEnd::lost;
    ended.exit_code = 255;
    ended.lost_cause = reaped.lost == os::error_of(ECHILD)
                           ? "the host program ignores SIGCHLD or reaps children that are not its own, and "
                             "this kernel keeps no "
                             "record of an exit (Linux 6.15 does)"
                           : "the process that watched the command was killed: " + reaped.lost.message();
    return ended;
  }
  if (reaped.status->signaled) {
    ended.how = ExecEnd::signaled;
    ended.exit_code = 128 + reaped.status->code;
    ended.signal = reaped.status->code;
    ended.core = reaped.status->core;
  } else {
    ended.exit_code = reaped.status->code;
  }
  return ended;
}

CgroupTree::CgroupTree(std::shared_ptr<HostCore> core, const boost::asio::any_io_executor& executor,
                       os::Process process, os::CgroupLeaf leaf)
    : core_(std::move(core)), process_(std::move(process)), leaf_(std::move(leaf)), leader_(executor) {}

CgroupTree::~CgroupTree() {
  if (leader_.is_open()) leader_.release();
  if (!leaf_ || core_->forked()) return;
  if (!empty_locked()) kill_locked();
  if (ended_) {
    core_->cleaner().recycle(std::move(*leaf_));
  } else {
    core_->cleaner().take(std::move(process_), std::move(leaf_));
  }
}

void CgroupTree::watch() { leader_.assign(process_.pidfd().number); }

std::optional<ExecEnded> CgroupTree::try_reap() {
  const std::lock_guard lock(mutex_);
  reap_locked();
  return ended_;
}

void CgroupTree::signal(int number) noexcept {
  if (core_->forked()) return;
  const std::lock_guard lock(mutex_);
  if (!ended_) static_cast<void>(process_.signal(number));
}

void CgroupTree::kill() noexcept {
  if (core_->forked()) return;
  const std::lock_guard lock(mutex_);
  if (leaf_ && !empty_locked()) kill_locked();
}

bool CgroupTree::empty() noexcept {
  const std::lock_guard lock(mutex_);
  return !leaf_ || empty_locked();
}

void CgroupTree::retire() noexcept {
  os::kill_point("exec.retire");
  const std::lock_guard lock(mutex_);
  if (!leaf_) return;
  // Whoever is in it may have killed the cgroup, which then kills at birth whatever is started in it: one
  // that anything outlived the leader in, or where the leader died so, is not used again.
  if (outlived_ || (ended_ && ended_->signal == SIGKILL)) static_cast<void>(leaf_->kill());
  core_->cleaner().recycle(std::move(*leaf_));
  leaf_.reset();
}

void CgroupTree::reap_locked() {
  if (ended_) return;
  const auto reaped = process_.try_reap();
  if (!reaped) return;
  ended_ = ended_of(*reaped);
  outlived_ = leaf_ && !empty_locked();
}

bool CgroupTree::empty_locked() noexcept {
  reap_locked();
  // A leader that left its cgroup on purpose is of the tree all the same.
  if (!ended_) return false;
  if (!empty_) {
    const auto populated = leaf_->populated();
    // ENODEV: somebody removed the cgroup, which takes an empty one.
    empty_ = populated ? !*populated : populated.error() == os::error_of(ENODEV);
  }
  return empty_;
}

void CgroupTree::kill_locked() noexcept {
  os::kill_point("exec.kill");
  static_cast<void>(leaf_->kill());
  if (!ended_) static_cast<void>(process_.signal(SIGKILL));
}

ShimHostTree::ShimHostTree(std::shared_ptr<HostCore> core, const boost::asio::any_io_executor& executor,
                           os::ShimTree tree)
    : core_(std::move(core)), tree_(std::move(tree)), leader_(executor) {}

ShimHostTree::~ShimHostTree() {
  if (leader_.is_open()) leader_.release();
  if (core_->forked()) return;
  // A fork of the host program may hold the socket open: closing alone would not be heard.
  tree_.kill();
  core_->cleaner().take(tree_.take_shim(), std::nullopt);
}

void ShimHostTree::watch() { leader_.assign(tree_.events().number); }

std::optional<ExecEnded> ShimHostTree::try_reap() {
  const std::lock_guard lock(mutex_);
  tree_.poll();
  if (!tree_.leader()) return std::nullopt;
  return ended_of(*tree_.leader());
}

void ShimHostTree::signal(int number) noexcept {
  if (core_->forked()) return;
  const std::lock_guard lock(mutex_);
  tree_.poll();
  static_cast<void>(tree_.signal(number));
}

void ShimHostTree::kill() noexcept {
  if (core_->forked()) return;
  const std::lock_guard lock(mutex_);
  tree_.kill();
}

bool ShimHostTree::empty() noexcept {
  const std::lock_guard lock(mutex_);
  tree_.poll();
  return tree_.empty();
}

}  // namespace caisson::kit
