// The local provider: sessions on the host itself, isolation none (S-90 to S-94).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "caisson/kit/host.h"
#include "caisson/kit/managed_sandbox.h"

namespace caisson::local {

/// The provider's settings, under SANDBOX_LOCAL_ (S-91).
struct LocalSettings {
  std::string root;  ///< Absolute.
  std::string base_path = "/usr/local/bin:/usr/bin:/bin";
  kit::DispatchSettings dispatch = {};

  /// Throws SandboxError (bad_setting) for a value that makes no sense.
  static LocalSettings from(const kit::SettingSource& source);
};

struct LocalOptions {
  boost::asio::any_io_executor executor;
  LocalSettings settings;
  std::shared_ptr<kit::Clock> clock = kit::system_clock();
  kit::Log log = {};
  kit::TreeKill tree_kill = kit::TreeKill::automatic;
};

/// Opens the provider on its root, making it if missing and recovering what dead owners left there. Blocking:
/// it works on the file system. Throws root_unusable, or unavailable where the kernel lacks a call that
/// Caisson cannot do without or the way of tree kill asked for cannot be had.
///
/// It gives no isolation: a session's commands run as this user, with the host's files, network and secrets
/// in reach.
std::shared_ptr<kit::ManagedSandbox> open(LocalOptions options);

/// How the processes of its sessions are found and killed here, for doctor: the way and why.
struct TreeKillReport {
  kit::TreeKill way;
  std::string detail;  ///< The cgroup directory, or what stands in the way of cgroups.
};
/// Throws unavailable where there is none.
TreeKillReport probe_tree_kill();

}  // namespace caisson::local
