// Quota calls, by a descriptor of the file system (quotactl_fd(2), Linux 5.14).
#include "os/quota.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/dqblk_xfs.h>
#include <linux/fs.h>
#include <linux/quota.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/capabilities.h"
#include "os/files.h"

namespace caisson::os {
namespace {

constexpr std::uint64_t block = 1024;  // What limits are counted in, whatever the file system's blocks are.

Result<void> quota_call(FdRef place, unsigned command, std::uint32_t project, void* argument) noexcept {
  const unsigned whole = (command << SUBCMDSHIFT) | PRJQUOTA;
  if (::syscall(SYS_quotactl_fd, place.number, whole, project, argument) == 0) return {};
  return last_error();
}

// ioctl(2) takes no O_PATH descriptor.
Result<Fd> readable(FdRef directory) noexcept { return open_at(directory, ".", O_RDONLY | O_DIRECTORY); }

bool is_unknown(const Error& error) noexcept {
  switch (error.value()) {
    case ENOSYS:
    case ENOTSUP:
    case EINVAL:
    case ESRCH:
    case ENODEV:
    case ENOTBLK:
    case EPERM:
      return true;
    default:
      return false;
  }
}

constexpr CapabilityMask past_quotas = capability(CAP_SYS_RESOURCE);

}  // namespace

Result<bool> enforces_project_quotas(FdRef place) noexcept {
  fs_quota_statv state = {};
  state.qs_version = FS_QSTATV_VERSION1;
  const auto done = quota_call(place, Q_XGETQSTATV, 0, &state);
  if (done) return (state.qs_flags & FS_QUOTA_PDQ_ENFD) != 0;
  if (is_unknown(done.error())) return false;
  return {boost::system::in_place_error, done.error()};
}

Result<ProjectQuota> project_quota(FdRef place, std::uint32_t project) noexcept {
  if_dqblk quota = {};
  const auto done = quota_call(place, Q_GETQUOTA, project, &quota);
  if (!done && done.error() == error_of(ENOENT)) return ProjectQuota{};  // XFS: nothing was ever counted.
  if (!done) return done.error();
  return ProjectQuota{quota.dqb_bhardlimit * block, quota.dqb_ihardlimit, quota.dqb_curspace,
                      quota.dqb_curinodes};
}

Result<void> limit_project(FdRef place, std::uint32_t project, std::uint64_t most_bytes,
                           std::uint64_t most_inodes) noexcept {
  if_dqblk quota = {};
  quota.dqb_bhardlimit = most_bytes / block + (most_bytes % block != 0 ? 1 : 0);
  quota.dqb_ihardlimit = most_inodes;
  quota.dqb_valid = QIF_LIMITS;
  return quota_call(place, Q_SETQUOTA, project, &quota);
}

Result<std::uint32_t> project_of(FdRef directory) noexcept {
  const auto open = readable(directory);
  if (!open) return open.error();
  fsxattr attributes = {};
  if (::ioctl(open->number(), FS_IOC_FSGETXATTR, &attributes) != 0) return last_error();
  return (attributes.fsx_xflags & FS_XFLAG_PROJINHERIT) != 0 ? attributes.fsx_projid : 0;
}

Result<void> set_project(FdRef directory, std::uint32_t project) noexcept {
  const auto open = readable(directory);
  if (!open) return open.error();
  fsxattr attributes = {};
  if (::ioctl(open->number(), FS_IOC_FSGETXATTR, &attributes) != 0) return last_error();
  attributes.fsx_projid = project;
  attributes.fsx_xflags |= FS_XFLAG_PROJINHERIT;
  if (::ioctl(open->number(), FS_IOC_FSSETXATTR, &attributes) != 0) return last_error();
  return {};
}

QuotaObedience::QuotaObedience() noexcept {
  const auto own = own_capabilities();
  if (!own || (own->effective & past_quotas) == 0) return;
  Capabilities without = *own;
  without.effective &= ~past_quotas;
  taken_ = set_capabilities(without).has_value();
}

QuotaObedience::~QuotaObedience() {
  if (!taken_) return;
  const auto own = own_capabilities();
  if (!own) return;
  Capabilities with = *own;
  with.effective |= past_quotas;
  static_cast<void>(set_capabilities(with));
}

}  // namespace caisson::os
