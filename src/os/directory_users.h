// Which directories the processes of this machine are using (proc_pid(5)).
#pragma once

#include <sys/types.h>

#include <optional>
#include <set>
#include <string>

#include "os/fd.h"

namespace caisson::os {

/// What one look at every process found.
struct DirectoryUsers {
  std::set<std::string> used;          ///< Of the names asked about.
  std::optional<pid_t> not_inspected;  ///< A process that could not be looked into, whatever it uses.
};

/// Which of the directories `names` in `parent` have a process's working directory, root, program or open
/// file in them. Told by name, so it may name one too many, never one too few. Kernel threads and zombies use
/// none; init (process 1) counts as inspected even where it is closed to us.
DirectoryUsers directory_users(FdRef parent, const std::set<std::string>& names);

}  // namespace caisson::os
