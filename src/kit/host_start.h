// Starting a command on a worker: its working directory, streams, environment, process and tree.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "caisson/kit/provider.h"
#include "kit/host_core.h"
#include "kit/host_tree.h"
#include "os/beneath.h"
#include "os/fd.h"
#include "os/shim.h"

namespace caisson::kit {

/// What a box gives every command.
struct HostBoxState {
  std::shared_ptr<const os::Beneath> workspace;
  std::string base_path;
};

/// A start under way, and the way to end it from another thread: a child that is stopped before it runs its
/// program would hold the worker for as long as it likes.
class Starting {
 public:
  /// From then on cancel() kills what is in `leaf`; false when it was called already.
  bool enter(os::CgroupLeaf& leaf) noexcept;
  /// The same for a start under a shim.
  bool enter(os::Cancel& shim) noexcept;
  void leave() noexcept;
  void cancel() noexcept;
  bool cancelled() const noexcept;

 private:
  mutable std::mutex mutex_;
  os::CgroupLeaf* leaf_ = nullptr;
  os::Cancel* shim_ = nullptr;
  bool cancelled_ = false;
};

/// A started command before its descriptors are bound to an executor.
struct HostStarted {
  std::unique_ptr<HostTree> tree;  ///< Null when the start was cancelled.
  os::Fd in;
  os::Fd out;
  os::Fd err;
};

/// Blocking, for a worker. A class because it crosses a co_await.
class StartCommand {
 public:
  StartCommand(std::shared_ptr<HostCore> core, std::shared_ptr<const HostBoxState> box,
               std::shared_ptr<const ExecPlan> plan, boost::asio::any_io_executor executor,
               std::shared_ptr<Starting> starting);
  /// Throws what SessionBox::start does.
  HostStarted operator()();

 private:
  using Paths = std::vector<std::string>;
  std::unique_ptr<HostTree> start_in_cgroup(os::SpawnPlan& plan, const Paths& candidates);
  std::unique_ptr<HostTree> start_under_shim(const os::SpawnPlan& plan, const Paths& candidates);

  std::shared_ptr<HostCore> core_;
  std::shared_ptr<const HostBoxState> box_;
  std::shared_ptr<const ExecPlan> plan_;
  boost::asio::any_io_executor executor_;
  std::shared_ptr<Starting> starting_;
};

}  // namespace caisson::kit
