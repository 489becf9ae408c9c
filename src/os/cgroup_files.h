// What the cgroup sources share.
#pragma once

#include <string>

#include "os/result.h"

namespace caisson::os {

/// The directory for Caisson's cgroups, whether beside others or within one.
inline constexpr char shared_name[] = "/caisson";

/// The program's own leaf in what was delegated to it.
inline constexpr char own_leaf_name[] = "caisson-self";

/// Whether an rmdir failed for what is still in the cgroup.
inline bool is_busy(const Error& error) noexcept {
  return error.value() == EBUSY || error.value() == ENOTEMPTY;
}

}  // namespace caisson::os
