// Project quotas: how much the files of a directory may take in all (quotactl(2), FS_IOC_FSSETXATTR).
#pragma once

#include <cstdint>
#include <string>

#include "os/fd.h"

namespace caisson::os {

/// What a project, an id that files carry, may take of a file system, and takes.
struct ProjectQuota {
  std::uint64_t most_bytes = 0;   ///< 0: any number.
  std::uint64_t most_inodes = 0;  ///< 0: any number.
  std::uint64_t bytes = 0;
  std::uint64_t inodes = 0;
};

// The first three are of the file system that `place` is on; an O_PATH descriptor will do.

/// Whether limits of projects are enforced there; false also where quotas are not known at all, or turned
/// off.
Result<bool> enforces_project_quotas(FdRef place) noexcept;
Result<ProjectQuota> project_quota(FdRef place, std::uint32_t project) noexcept;
/// Sets the limits, bytes rounded up to 1 KiB; 0 and 0 take them away. Past them a write is EDQUOT, or ENOSPC
/// (XFS). EPERM without CAP_SYS_ADMIN.
Result<void> limit_project(FdRef place, std::uint32_t project, std::uint64_t most_bytes,
                           std::uint64_t most_inodes) noexcept;

/// The project of what is made in a directory; 0 for none. EOPNOTSUPP or ENOTTY where files have none.
Result<std::uint32_t> project_of(FdRef directory) noexcept;
/// Gives a directory its project, and all that is made in it or beneath it from now on. What is there stays
/// as it is. Nobody in a user namespace of his own can change it.
Result<void> set_project(FdRef directory, std::uint32_t project) noexcept;

/// As long as it lives, the calling thread obeys the hard limits of quotas: CAP_SYS_RESOURCE, with which the
/// kernel lets root write past them, is not in effect.
class QuotaObedience {
 public:
  QuotaObedience() noexcept;
  ~QuotaObedience();
  QuotaObedience(const QuotaObedience&) = delete;
  QuotaObedience& operator=(const QuotaObedience&) = delete;

 private:
  bool taken_ = false;
};

}  // namespace caisson::os
