// The process's limits, the descriptors' above all.
#pragma once

#include <cstdint>

#include "os/result.h"

namespace caisson::os {

struct DescriptorLimit {
  std::uint64_t soft;
  std::uint64_t hard;
};

/// Descriptors that make_pipe leaves to the host program, at most a quarter of the soft limit.
inline constexpr std::uint64_t descriptor_reserve = 64;

/// Raises this process's soft limit to the hard one, once a process, and returns what it was before the first
/// call: the limit that a child is to have (S-44).
Result<DescriptorLimit> raise_descriptor_limit() noexcept;
/// The limit before raise_descriptor_limit, or the present one when it was never called.
DescriptorLimit original_descriptor_limit() noexcept;

/// This process's hard limit of a resource (getrlimit(2)), RLIM64_INFINITY for none.
std::uint64_t hard_limit(int resource) noexcept;

}  // namespace caisson::os
