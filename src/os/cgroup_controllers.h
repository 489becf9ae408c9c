// Controllers of cgroups: which there are, the caps they keep, and what they count.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "os/cgroup.h"
#include "os/explained.h"

namespace caisson::os {

enum class CgroupController : std::uint8_t { cpu, memory, pids };
inline constexpr std::array all_cgroup_controllers = {CgroupController::cpu, CgroupController::memory,
                                                      CgroupController::pids};
/// As the kernel calls it.
const char* name_of(CgroupController controller) noexcept;

/// A v1 hierarchy that is mounted here.
struct CgroupV1Hierarchy {
  CgroupPosition position;
  std::vector<CgroupController> controllers;  ///< Those of ours that it has.

  bool has(CgroupController controller) const noexcept;
  bool operator==(const CgroupV1Hierarchy&) const = default;
};
/// From the text of /proc/self/mountinfo and /proc/self/cgroup; each controller is in one of them at most.
std::vector<CgroupV1Hierarchy> cgroup_v1_hierarchies(std::string_view mount_info, std::string_view own);
/// Those that this process sees.
std::vector<CgroupV1Hierarchy> own_cgroup_v1_hierarchies();
/// The directory for Caisson's cgroups of a v1 hierarchy: `<mount>/caisson`, or, in a cgroup that Caisson
/// made for a command, within that, whose limits hold then for ours too.
std::string cgroup_v1_place(const CgroupV1Hierarchy& hierarchy);

enum class CgroupVersion : std::uint8_t { v1, v2 };

/// The most that all processes of a cgroup, and of those beneath it, may use together.
struct CgroupCaps {
  std::optional<double> cpu;            ///< Processors; finite and > 0.
  std::optional<std::uint64_t> memory;  ///< Bytes, swapped out or not.
  std::optional<std::uint64_t> pids;    ///< Processes and threads.

  bool any() const noexcept { return cpu || memory || pids; }
  bool operator==(const CgroupCaps&) const = default;
};
bool has_cap(const CgroupCaps& caps, CgroupController controller) noexcept;

/// Sets those caps of a cgroup that are given: in v2 all of them in one directory, in v1 those of
/// `controllers`, the ones that its hierarchy has. The error says which file refused, or what the kernel
/// lacks for it.
ExplainedResult<void> set_cgroup_caps(const std::string& directory, CgroupVersion version,
                                      const std::vector<CgroupController>& controllers,
                                      const CgroupCaps& caps);

/// The controllers that a v2 cgroup may have for what is beneath it (cgroup.controllers).
ExplainedResult<std::vector<CgroupController>> available_controllers(const std::string& directory);
/// Lets the cgroups beneath a v2 cgroup have these controllers (cgroup.subtree_control), where they have not;
/// EBUSY while a process is in the cgroup itself, unless it is the root. With processes beneath it this takes
/// some ms.
ExplainedResult<void> enable_controllers(const std::string& directory,
                                         const std::vector<CgroupController>& controllers);

/// The number that stands behind `key` in a file of lines "<key> <number>", as cgroups have them, read anew
/// from its beginning. EBADMSG: there is none.
Result<std::uint64_t> read_counter(FdRef file, std::string_view key) noexcept;

}  // namespace caisson::os
