// The capabilities of the calling thread (capabilities(7)).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "os/result.h"

namespace caisson::os {

/// A set of capabilities: bit n is the one with number n.
using CapabilityMask = std::uint64_t;
constexpr CapabilityMask capability(int number) noexcept { return CapabilityMask{1} << number; }

// Each works on the calling thread alone: on that of a process with others only what is meant to differ.

struct Capabilities {
  CapabilityMask permitted = 0;
  CapabilityMask effective = 0;
  CapabilityMask inheritable = 0;
  bool operator==(const Capabilities&) const = default;
};
Result<Capabilities> own_capabilities() noexcept;
/// capset(2). EPERM: more permitted than there are now, or more inheritable than the bounding set lets.
Result<void> set_capabilities(const Capabilities& sets) noexcept;

Result<CapabilityMask> ambient_capabilities() noexcept;
Result<CapabilityMask> bounding_capabilities() noexcept;

/// Makes every permitted capability inheritable and ambient, so that an execve keeps it whatever the user id
/// (D-5: an execve in a user namespace without an id map drops all others).
Result<void> raise_ambient_capabilities() noexcept;
Result<void> clear_ambient_capabilities() noexcept;
/// Takes what is not in `mask` out of the bounding set, for good: no execve gives it back, a set-user-ID
/// program's neither. Needs CAP_SETPCAP unless there is nothing to take.
Result<void> limit_bounding_capabilities(CapabilityMask mask) noexcept;
/// Takes what is not in `mask` out of the permitted, effective, inheritable and ambient sets.
Result<void> limit_capabilities(CapabilityMask mask) noexcept;

/// "CAP_SYS_ADMIN", or "capability 63" for one that has no name yet.
std::string capability_name(int number);
/// "CAP_CHOWN, CAP_KILL"; "none" for none.
std::string capability_names(CapabilityMask mask);

}  // namespace caisson::os
