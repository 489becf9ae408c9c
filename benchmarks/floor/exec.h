// The floor of an exec: the least that Linux allows for running a command and taking in its output.
#pragma once

#include <span>

namespace caisson::bench::floor {

/// Runs a program by posix_spawn (a vfork on Linux) with two pipes, drains both to their ends and reaps.
/// `argv` begins with the program's path. Throws std::system_error when it cannot be run or did not exit with
/// 0. Thread-safe.
void run(std::span<const char* const> argv);
/// The same of /bin/true.
void exec_true();

}  // namespace caisson::bench::floor
