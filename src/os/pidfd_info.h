// PIDFD_GET_INFO with PIDFD_INFO_EXIT (linux/pidfd.h of Linux 6.15), which older headers do not have.
#pragma once

#include <sys/ioctl.h>

#include <cstdint>

namespace caisson::os {

struct PidfdInfo {
  std::uint64_t mask;
  std::uint64_t cgroup_id;
  std::uint32_t ids[11];
  std::int32_t exit_code;  ///< As wait(2) gives it; only when the kernel sets pidfd_info_exit in `mask`.
};
static_assert(sizeof(PidfdInfo) == 64);
inline constexpr unsigned long pidfd_get_info = _IOWR(0xFF, 11, PidfdInfo);
inline constexpr std::uint64_t pidfd_info_exit = 1U << 3;

}  // namespace caisson::os
