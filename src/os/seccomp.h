// Loading a system call filter that was compiled before (seccomp(2)).
#pragma once

#include <string_view>

#include "os/result.h"

namespace caisson::os {

/// Puts the calling thread, and all that it starts from here on, under a filter for good: `program` is the
/// bytes of an array of struct sock_filter (seccomp_policy.h). EACCES: the thread has neither
/// no-new-privileges nor CAP_SYS_ADMIN in its user namespace; EINVAL: no such program.
Result<void> install_seccomp(std::string_view program) noexcept;

}  // namespace caisson::os
