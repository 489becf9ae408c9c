// Project ids of files, and the limits of projects.
#include "os/quota.h"

#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/quota.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/files.h"

namespace caisson::os {
namespace {

// Linux 5.14; older headers lack it.
#ifndef SYS_quotactl_fd
#define SYS_quotactl_fd 443
#endif

constexpr std::uint64_t block = 1024;  // The unit of limits; use is counted in bytes (QIF_DQBLKSIZE).

Result<void> call(FdRef file, unsigned command, std::uint32_t project, if_dqblk& quota) noexcept {
  const unsigned full = QCMD(command, PRJQUOTA);
  if (::syscall(SYS_quotactl_fd, file.number, full, project, &quota) != 0) return last_error();
  return {};
}

Result<fsxattr> attributes_of(FdRef file) noexcept {
  fsxattr attributes{};
  if (::ioctl(file.number, FS_IOC_FSGETXATTR, &attributes) != 0) return last_error();
  return attributes;
}

}  // namespace

Result<std::uint32_t> project_of(FdRef file) noexcept {
  const auto attributes = attributes_of(file);
  if (!attributes) return attributes.error();
  return attributes->fsx_projid;
}

Result<void> set_project(FdRef file, std::uint32_t project) noexcept {
  auto attributes = attributes_of(file);
  if (!attributes) return attributes.error();
  attributes->fsx_projid = project;
  const auto is = status(file);
  if (!is) return is.error();
  if (S_ISDIR(is->st_mode)) attributes->fsx_xflags |= FS_XFLAG_PROJINHERIT;
  if (::ioctl(file.number, FS_IOC_FSSETXATTR, &*attributes) != 0) return last_error();
  return {};
}

Result<ProjectQuota> project_quota(FdRef file, std::uint32_t project) noexcept {
  if_dqblk quota{};
  const auto got = call(file, Q_GETQUOTA, project, quota);
  // XFS knows a project once it has something: it is ENOENT until then.
  if (!got && got.error() == error_of(ENOENT)) return ProjectQuota{};
  if (!got) return got.error();
  return ProjectQuota{{quota.dqb_bhardlimit * block, quota.dqb_ihardlimit},
                      {quota.dqb_curspace, quota.dqb_curinodes}};
}

Result<void> set_project_limit(FdRef file, std::uint32_t project, const ProjectUse& limit) noexcept {
  if_dqblk quota{};
  quota.dqb_bhardlimit = limit.bytes / block;
  quota.dqb_ihardlimit = limit.files;
  quota.dqb_valid = QIF_LIMITS;
  return call(file, Q_SETQUOTA, project, quota);
}

HeldToQuotas::HeldToQuotas() noexcept : before_(own_capabilities()) {
  if (!before_) return;
  Capabilities held = *before_;
  held.effective &= ~capability(CAP_SYS_RESOURCE);
  static_cast<void>(set_capabilities(held));
}

HeldToQuotas::~HeldToQuotas() {
  if (before_) static_cast<void>(set_capabilities(*before_));
}

}  // namespace caisson::os
