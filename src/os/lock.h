// Lock files: who owns a thing on disk, across processes (flock(2)).
#pragma once

#include <optional>
#include <string>

#include "os/fd.h"

namespace caisson::os {

enum class LockKind { shared, exclusive };

/// Opens (making it, mode 0600) and locks `name` under `directory` without waiting: nothing when somebody
/// else holds a conflicting lock. The lock is held as long as the descriptor; it never locks a file that was
/// unlinked meanwhile.
Result<std::optional<Fd>> try_lock(FdRef directory, const std::string& name, LockKind kind) noexcept;

/// Lets go of a lock for good: closing alone does not while a child of this process, between its clone and
/// its execve, holds a copy of the descriptor.
void unlock(Fd lock) noexcept;

}  // namespace caisson::os
