// What this process is and was given: its id, its user, the signals and descriptors it inherited.
#pragma once

#include <string>

#include <sys/types.h>

namespace caisson::os {

/// getpid(2), never cached: a fork changes it.
pid_t own_pid() noexcept;
/// The effective user and group.
uid_t own_user() noexcept;
gid_t own_group() noexcept;
/// Whether the effective user is root.
bool is_root() noexcept;
/// Whether this process ignores the signal, as nohup(1) and background jobs ask of what they start.
bool signal_is_ignored(int number) noexcept;
/// Ignores the signal from here on, and so what it execs as it is; what spawn() starts does not.
void ignore_signal(int number) noexcept;
/// Opens /dev/null at each of 0, 1 and 2 that is closed, so that no descriptor made later is taken for a
/// standard one.
void fill_standard_descriptors() noexcept;

/// The absolute path of the program or shared library that this code was linked into (dladdr(3)); empty where
/// the loader does not tell one.
std::string own_object_path();

}  // namespace caisson::os
