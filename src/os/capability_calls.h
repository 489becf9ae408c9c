// The capability calls in raw system calls, for capabilities.cc and for a CLONE_VM child (spawn.cc).
#pragma once

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cstdint>

#include "os/raw_syscall.h"

namespace caisson::os {

// All return 0 or a negative errno.

/// Sets as capget(2) and capset(2) take them: the low 32 capabilities and the high ones.
struct KernelCapabilities {
  __user_cap_data_struct half[2];
};

CAISSON_CHILD_CODE inline std::uint64_t joined(std::uint32_t low, std::uint32_t high) noexcept {
  return std::uint64_t{high} << 32 | low;
}

CAISSON_CHILD_CODE inline long read_capabilities(KernelCapabilities* sets) noexcept {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  return raw_syscall(SYS_capget, raw(&header), raw(sets));
}

CAISSON_CHILD_CODE inline long write_capabilities(const KernelCapabilities* sets) noexcept {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  return raw_syscall(SYS_capset, raw(&header), raw(sets));
}

CAISSON_CHILD_CODE inline long clear_ambient_set() noexcept {
  return raw_syscall(SYS_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL);
}

/// Every permitted capability becomes inheritable and ambient, so that an execve keeps it (capabilities(7)).
CAISSON_CHILD_CODE inline long raise_permitted_to_ambient() noexcept {
  KernelCapabilities sets;
  long result = read_capabilities(&sets);
  if (result < 0) return result;
  for (auto& half : sets.half) half.inheritable = half.permitted;
  result = write_capabilities(&sets);
  if (result < 0) return result;
  const std::uint64_t permitted = joined(sets.half[0].permitted, sets.half[1].permitted);
  for (int number = 0; number < 64; ++number) {
    if ((permitted >> number & 1) == 0) continue;
    result = raw_syscall(SYS_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, raw(number));
    if (result < 0) return result;
  }
  return 0;
}

/// Takes every capability that is not in `mask` out of the bounding set.
CAISSON_CHILD_CODE inline long drop_from_bounding_set(std::uint64_t mask) noexcept {
  for (int number = 0; number < 64; ++number) {
    const long held = raw_syscall(SYS_prctl, PR_CAPBSET_READ, raw(number));
    if (held < 0) return 0;  // The kernel knows no more of them.
    if (held == 0 || (mask >> number & 1) != 0) continue;
    const long result = raw_syscall(SYS_prctl, PR_CAPBSET_DROP, raw(number));
    if (result < 0) return result;
  }
  return 0;
}

/// Takes every capability that is not in `mask` out of the permitted, effective, inheritable and ambient
/// sets.
CAISSON_CHILD_CODE inline long drop_capabilities(std::uint64_t mask) noexcept {
  KernelCapabilities sets;
  const long result = read_capabilities(&sets);
  if (result < 0) return result;
  for (int i = 0; i < 2; ++i) {
    const auto kept = static_cast<std::uint32_t>(mask >> (32 * i));
    sets.half[i].permitted &= kept;
    sets.half[i].effective &= kept;
    sets.half[i].inheritable &= kept;
  }
  return write_capabilities(&sets);  // The ambient set follows by itself.
}

}  // namespace caisson::os
