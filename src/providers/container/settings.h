// The container provider's settings, from the operator (S-31, S-101, S-103).
#pragma once

#include <cstdint>
#include <string>

#include "caisson/kit/settings.h"

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

}  // namespace caisson::container
