// What a command that could not be started means to the caller (S-40, S-42).
#pragma once

#include <string>

#include "os/spawn.h"

namespace caisson::kit {

/// Descriptors have run out, or processes have: the kit waits and tries again.
bool is_exhaustion(int number) noexcept;

/// Throws the SandboxError for a failed spawn of `name`, or DescriptorsExhausted. `interpreter_missing`: the
/// command exists, and ENOENT was about what runs it.
[[noreturn]] void fail_start(const os::SpawnFailure& failure, const std::string& name, const std::string& cwd,
                             bool interpreter_missing);
/// For a working directory that cannot be opened.
[[noreturn]] void fail_cwd(const os::Error& error, const std::string& cwd);
/// For what Caisson itself needs to start a command (`what`: "making a pipe").
[[noreturn]] void fail_preparation(const os::Error& error, const std::string& what, const std::string& name);

}  // namespace caisson::kit
