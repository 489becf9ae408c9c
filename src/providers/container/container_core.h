// ContainerCore: what the boxes of one provider share.
#pragma once

#include <memory>
#include <string>

#include "caisson/kit/clock.h"
#include "caisson/kit/log.h"
#include "caisson/providers/container.h"
#include "kit/host_core.h"
#include "os/cgroup_controllers.h"
#include "os/fd.h"
#include "providers/container/box_cgroup.h"

namespace caisson::container {

/// Whether boxes are given cgroups where they can be had.
enum class UseCgroups : bool { no, yes };

/// Settings, the program caisson-init, cgroups, threads for blocking calls, and the one that reaps killed
/// boxes.
/// Thread-safe. Making one raises the process's soft descriptor limit to the hard one (S-44).
class ContainerCore {
 public:
  /// Throws SandboxError (unavailable) where the kernel lacks a call that Caisson cannot do without, or
  /// caisson-init is not there.
  ContainerCore(ContainerSettings settings, std::shared_ptr<kit::Clock> clock, kit::Log log,
                UseCgroups use_cgroups = UseCgroups::yes);

  const ContainerSettings& settings() const noexcept { return settings_; }
  const std::shared_ptr<kit::Clock>& clock() const noexcept { return clock_; }
  const kit::Log& log() const noexcept { return log_; }
  os::FdRef init_program() const noexcept { return init_program_; }
  /// Null where boxes have none: then their inits end the trees of execs, and nothing is capped.
  BoxCgroups* cgroups() const noexcept { return cgroups_.get(); }
  /// Why caps by this controller cannot be kept, and what would help (S-16); empty: they can.
  const std::string& cap_obstacle(os::CgroupController controller) const noexcept;

  kit::Workers& spawners() noexcept { return threads_.spawners(); }
  kit::Workers& files() noexcept { return threads_.files(); }
  kit::Workers& sessions() noexcept { return threads_.sessions(); }
  kit::HostCleaner& cleaner() noexcept { return threads_.cleaner(); }
  /// Whether this is a fork of the process that made it: the boxes are not its own to end.
  bool forked() const noexcept { return threads_.forked(); }

 private:
  const ContainerSettings settings_;
  const std::shared_ptr<kit::Clock> clock_;
  const kit::Log log_;
  os::Fd init_program_;
  kit::HostCore threads_;
  std::unique_ptr<BoxCgroups> cgroups_;
  std::string no_cgroups_;  // Why there are none.
};

}  // namespace caisson::container
