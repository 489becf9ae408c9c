// Project quotas: how much the files beneath one directory may take of their file system (quotactl(2), ext4
// and XFS).
#pragma once

#include <cstdint>

#include "os/capabilities.h"
#include "os/fd.h"

namespace caisson::os {

/// What a project may have, or has. 0 as a limit: none.
struct ProjectUse {
  std::uint64_t bytes = 0;
  std::uint64_t files = 0;
};
struct ProjectQuota {
  ProjectUse limit;
  ProjectUse used;
};

// All take a descriptor that is open for reading, not O_PATH, and fail with ENOTTY, EOPNOTSUPP, ENOSYS,
// EINVAL or ESRCH where the file system or the kernel has no project quotas.

/// The project that a file or directory counts for; 0: none.
Result<std::uint32_t> project_of(FdRef file) noexcept;
/// Makes a file count for a project, or a directory with all that is made beneath it from then on
/// (FS_XFLAG_PROJINHERIT). A process in a user namespace of its own may not change that.
Result<void> set_project(FdRef file, std::uint32_t project) noexcept;

/// Limits and use of a project, on the file system of `file`; nothing of either for one that was never seen.
Result<ProjectQuota> project_quota(FdRef file, std::uint32_t project) noexcept;
/// Sets the hard limits. Past them a write fails with EDQUOT (ext4) or ENOSPC (XFS). Needs CAP_SYS_ADMIN.
Result<void> set_project_limit(FdRef file, std::uint32_t project, const ProjectUse& limit) noexcept;

/// As long as it lives the calling thread is held to quotas as anybody is: it takes CAP_SYS_RESOURCE out of
/// the thread's effective set, with which ext4 lets a write through. What a process of root's writes to a
/// file on a tenant's account needs one.
class HeldToQuotas {
 public:
  HeldToQuotas() noexcept;
  ~HeldToQuotas();
  HeldToQuotas(const HeldToQuotas&) = delete;
  HeldToQuotas& operator=(const HeldToQuotas&) = delete;

 private:
  Result<Capabilities> before_;
};

}  // namespace caisson::os
