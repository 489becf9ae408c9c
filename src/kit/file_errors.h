// What a workspace file's failed system call means to the caller (S-70 to S-72).
#pragma once

#include <string>

#include "os/result.h"

namespace caisson::kit {

enum class FileOperation { read, write };

/// Throws the SandboxError for `error` of a call on the workspace file `path`, saying what to do.
[[noreturn]] void fail_file(FileOperation doing, const std::string& path, const os::Error& error);

/// A path as messages show it: quoted, shortened, on one line, and text whatever its bytes.
std::string shown_path(const std::string& path);

}  // namespace caisson::kit
