// The container provider: each session in namespaces of its own, isolation container (S-100 to S-103).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "caisson/kit/managed_sandbox.h"

namespace caisson::container {

/// Everything an operator may change of the container provider. Sizes are in bytes; their settings count MiB.
struct ContainerSettings {
  std::string root;               ///< CAISSON_ROOT: what outlives sessions. Absolute.
  std::string runtime_directory;  ///< CAISSON_RUNTIME_DIR: the state of live sessions. Absolute.
  std::string init_program;       ///< CAISSON_INIT: the file of caisson-init. Absolute; need not exist.

  std::uint32_t uid_base = 524288;          ///< CAISSON_CONTAINER_UID_BASE: root's first slot of ids.
  std::uint32_t uids_per_box = 1024;        ///< CAISSON_CONTAINER_UIDS_PER_BOX: a slot of an ordinary user.
  std::uint32_t pool_size = 2;              ///< CAISSON_CONTAINER_POOL_SIZE: boxes made ahead.
  bool unbounded_disk = false;              ///< CAISSON_CONTAINER_UNBOUNDED_DISK: weakens (D-10).
  bool capabilities = true;                 ///< CAISSON_CONTAINER_CAPABILITIES: `default`, or `none`.
  std::uint64_t upper_bytes = 1ULL << 30U;  ///< CAISSON_CONTAINER_UPPER_MB.
  std::uint64_t workspace_bytes = 1ULL << 30U;  ///< CAISSON_CONTAINER_WORKSPACE_MB.
  std::uint64_t tmp_bytes = 256ULL << 20U;      ///< CAISSON_CONTAINER_TMP_MB.
  std::uint64_t shm_bytes = 64ULL << 20U;       ///< CAISSON_CONTAINER_SHM_MB.
  std::uint32_t pids = 1024;                    ///< CAISSON_CONTAINER_PIDS.
  kit::DispatchSettings dispatch = {};          ///< Under CAISSON_CONTAINER_.

  /// Throws SandboxError (bad_setting) for a value that makes no sense, naming the setting.
  static ContainerSettings from(const kit::SettingSource& source);
};

struct ContainerOptions {
  boost::asio::any_io_executor executor;
  ContainerSettings settings;
  std::shared_ptr<kit::Clock> clock = kit::system_clock();
  kit::Log log = {};
};

/// Opens the provider, making its directories if missing and recovering what dead owners left there.
/// Blocking: it works on the file system. Throws root_unusable, or unavailable where this machine gives no
/// container to this user, saying what is missing and how to get it.
std::shared_ptr<kit::ManagedSandbox> open(ContainerOptions options);

/// One thing that a container is made of, proved by doing it.
struct Mechanism {
  std::string name;  ///< E.g. "container_ids".
  bool works = true;
  bool required = true;  ///< Without it no container can be had; else something weaker serves, or is refused.
  std::string detail;
  std::string fix = {};  ///< What to do about it: a command, setting or package. Empty: nothing to do.
};
/// What works here, for doctor. Blocking; leaves nothing.
std::vector<Mechanism> probe(const ContainerSettings& settings);

}  // namespace caisson::container
