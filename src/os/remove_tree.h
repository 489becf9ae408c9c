// Removing a directory tree that somebody else filled (S-30).
#pragma once

#include <string>

#include "os/fd.h"

namespace caisson::os {

/// Removes `name` under `parent` and everything beneath it; ENOENT is success. Copes with directories without
/// permission, deep trees (constant stack, few descriptors) and names in any bytes; never follows a symlink;
/// never crosses into another mount (EXDEV); keeps going while something still writes, a bounded number of
/// times (ENOTEMPTY). Blocking.
Result<void> remove_tree(FdRef parent, const std::string& name);

}  // namespace caisson::os
