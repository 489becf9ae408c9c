// What this kernel can do, found out by doing.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "os/result.h"

namespace caisson::os {

struct KernelVersion {
  int major;
  int minor;
  auto operator<=>(const KernelVersion&) const = default;
};

/// The oldest kernel that Caisson runs on (D-11).
inline constexpr KernelVersion oldest_kernel{5, 15};

/// uname(2)'s release, e.g. "6.1.0-18-amd64".
std::string kernel_release();
/// The numbers that a release begins with; 0.0 where it has none.
KernelVersion parse_kernel_version(std::string_view release) noexcept;

/// One feature: whether a call that needs it works here. ENOSYS: the kernel lacks it, or a filter hides it;
/// EPERM: a filter forbids it.
struct KernelFeature {
  std::string_view name;  ///< E.g. "openat2".
  KernelVersion since;    ///< The kernel that brought it.
  bool required;          ///< Whether Caisson runs without it.
  Result<void> works;
};

/// openat2, clone3, pidfd, close_range (required), and what is used where it is there. Each is tried by a
/// call without effects. cgroup.kill is not among them: whether it can be had depends on the cgroup
/// (find_cgroup_place, cgroup.h).
std::vector<KernelFeature> probe_kernel();

/// What a required feature that does not work stands in the way with, for an error's message; empty when all
/// of them work.
std::string missing_requirement(const std::vector<KernelFeature>& features);

}  // namespace caisson::os
