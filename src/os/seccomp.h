// Loading a system call filter that was compiled before (seccomp(2)).
#pragma once

#include <linux/filter.h>

#include <string_view>

#include "os/result.h"

namespace caisson::os {

/// Puts the calling thread, and all that it starts from here on, under a filter for good: `program` is the
/// bytes of an array of struct sock_filter (seccomp_policy.h). EACCES: the thread has neither
/// no-new-privileges nor CAP_SYS_ADMIN in its user namespace; EINVAL: no such program.
Result<void> install_seccomp(std::string_view program) noexcept;

/// The same bytes as seccomp(2) takes them, which are pointed at; EINVAL as above.
inline Result<sock_fprog> filter_of(std::string_view program) noexcept {
  const std::size_t length = program.size() / sizeof(sock_filter);
  if (length == 0 || program.size() % sizeof(sock_filter) != 0 || length > BPF_MAXINSNS) {
    return error_of(EINVAL);
  }
  // Only the kernel looks at it, which copies it byte by byte.
  void* const bytes = const_cast<char*>(program.data());
  return sock_fprog{static_cast<unsigned short>(length), static_cast<sock_filter*>(bytes)};
}

}  // namespace caisson::os
