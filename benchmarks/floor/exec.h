// The floor of an exec: the least that Linux allows for running a command and taking in its output.
#pragma once

namespace caisson::bench::floor {

/// Runs /bin/true by posix_spawn (a vfork on Linux) with two pipes, drains both to their ends and reaps.
/// Throws std::system_error when that fails. Thread-safe.
void exec_true();

}  // namespace caisson::bench::floor
