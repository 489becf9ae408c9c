// The exec trees of a Host.
#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include "caisson/kit/provider.h"
#include "kit/host_core.h"
#include "os/cgroup.h"
#include "os/process.h"
#include "os/shim.h"

namespace caisson::kit {

ExecEnded ended_of(const os::Reaped& reaped);

/// What is left to do once a tree is back on its executor.
class HostTree : public ExecTree {
 public:
  /// Begins to watch the leader; may throw boost::system::system_error.
  virtual void watch() = 0;
};

/// A leader and its cgroup.
class CgroupTree final : public HostTree {
 public:
  CgroupTree(std::shared_ptr<HostCore> core, const boost::asio::any_io_executor& executor,
             os::Process process, os::CgroupLeaf leaf);
  ~CgroupTree() override;
  void watch() override;
  boost::asio::posix::stream_descriptor& leader() override { return leader_; }
  std::optional<ExecEnded> try_reap() override;
  void signal(int number) noexcept override;
  void kill() noexcept override;
  bool empty() noexcept override;
  void retire() noexcept override;

 private:
  void reap_locked();
  bool empty_locked() noexcept;
  void kill_locked() noexcept;

  std::shared_ptr<HostCore> core_;
  std::mutex mutex_;
  os::Process process_;
  std::optional<os::CgroupLeaf> leaf_;
  std::optional<ExecEnded> ended_;
  bool empty_ = false;                            // for good: nobody is left to start another
  bool outlived_ = false;                         // something was in the leaf when the leader had ended
  boost::asio::posix::stream_descriptor leader_;  // of process_'s descriptor, which stays process_'s
};

/// A leader under its shim.
class ShimHostTree final : public HostTree {
 public:
  ShimHostTree(std::shared_ptr<HostCore> core, const boost::asio::any_io_executor& executor,
               os::ShimTree tree);
  ~ShimHostTree() override;
  void watch() override;
  boost::asio::posix::stream_descriptor& leader() override { return leader_; }
  std::optional<ExecEnded> try_reap() override;
  void signal(int number) noexcept override;
  void kill() noexcept override;
  bool empty() noexcept override;

 private:
  std::shared_ptr<HostCore> core_;
  std::mutex mutex_;
  os::ShimTree tree_;
  boost::asio::posix::stream_descriptor leader_;  // of tree_'s socket, which stays tree_'s
};

}  // namespace caisson::kit
