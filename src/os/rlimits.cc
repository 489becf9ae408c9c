// The process's descriptor limit, raised once and remembered.
#include "os/rlimits.h"

#include <sys/resource.h>

#include <mutex>
#include <optional>

namespace caisson::os {

namespace {

std::mutex mutex;
std::optional<DescriptorLimit> original;

Result<DescriptorLimit> present_limit() noexcept {
  struct rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return last_error();
  return DescriptorLimit{limit.rlim_cur, limit.rlim_max};
}

}  // namespace

Result<DescriptorLimit> raise_descriptor_limit() noexcept {
  const std::lock_guard lock(mutex);
  if (original) return *original;
  const auto before = present_limit();
  if (!before) return before.error();
  const struct rlimit raised{before->hard, before->hard};
  if (before->soft != before->hard && ::setrlimit(RLIMIT_NOFILE, &raised) != 0) return last_error();
  original = *before;
  return *before;
}

DescriptorLimit original_descriptor_limit() noexcept {
  const std::lock_guard lock(mutex);
  if (original) return *original;
  const auto present = present_limit();
  return present ? *present : DescriptorLimit{0, 0};
}

std::uint64_t hard_limit(int resource) noexcept {
  struct rlimit64 limit{};
  if (::getrlimit64(static_cast<__rlimit_resource_t>(resource), &limit) != 0) return RLIM64_INFINITY;
  return limit.rlim_max;
}

}  // namespace caisson::os
