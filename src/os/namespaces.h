// Namespaces as descriptors (namespaces(7)).
#pragma once

#include <cstdint>

#include "os/fd.h"

namespace caisson::os {

/// A descriptor of a namespace that a process is in; it keeps the namespace, not the process. `kind`: one of
/// CLONE_NEWUSER, CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWNET, CLONE_NEWIPC, CLONE_NEWUTS, CLONE_NEWCGROUP,
/// CLONE_NEWTIME, else EINVAL. The process is given by its pidfd, which is looked at again afterwards:
/// another one that got its number meanwhile is never taken for it. ESRCH: it has ended.
Result<Fd> open_namespace(FdRef pidfd, std::uint64_t kind) noexcept;
/// The same of the calling process.
Result<Fd> open_own_namespace(std::uint64_t kind) noexcept;

}  // namespace caisson::os
