// Names in one directory: the directory-relative file calls, each on a single name and never through a
// symlink.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "os/fd.h"

namespace caisson::os {

using FileStatus = struct stat;

/// fstat(2).
Result<FileStatus> status(FdRef fd) noexcept;
/// Whether a file is of a file system that the kernel makes up as it is read (proc, sysfs, cgroup and their
/// like; fstatfs(2)): such a file is "regular" and still does whatever it likes for whoever reads it.
Result<bool> is_made_up_by_kernel(FdRef file) noexcept;
/// fstatat(2) of the name itself, symlink or not.
Result<FileStatus> status_at(FdRef directory, const std::string& name) noexcept;

/// Whether there is anything of that name; an error when that cannot be told.
Result<bool> exists_at(FdRef directory, const std::string& name) noexcept;

/// The magic link of a descriptor, with its NUL: what reaches an O_PATH file, or a file without a name, as
/// the very same file.
std::array<char, 32> self_path(FdRef fd) noexcept;

/// openat(2) with O_NOFOLLOW|O_CLOEXEC|O_NOCTTY|O_NONBLOCK added (O_PATH: with O_NOFOLLOW|O_CLOEXEC).
Result<Fd> open_at(FdRef directory, const std::string& name, int flags, mode_t mode = 0) noexcept;
/// A new file without a name, open for writing, in `directory` (O_TMPFILE); EOPNOTSUPP where the file system
/// has none.
Result<Fd> make_unnamed_file(FdRef directory, mode_t mode) noexcept;
/// Gives such a file a name; EEXIST when it is taken.
Result<void> link_unnamed_file(FdRef file, FdRef directory, const std::string& name) noexcept;

/// mkdirat(2) with at least the permissions of `mode`, whatever the umask.
Result<void> make_directory_at(FdRef directory, const std::string& name, mode_t mode) noexcept;
/// The directory of that name as an O_PATH descriptor, made if missing. ENOTDIR for anything else, a symlink
/// included.
Result<Fd> ensure_directory_at(FdRef directory, const std::string& name, mode_t mode) noexcept;
Result<void> rename_at(FdRef from_directory, const std::string& from, FdRef to_directory,
                       const std::string& to) noexcept;
/// unlinkat(2) of anything but a directory; ENOENT is success.
Result<void> unlink_at(FdRef directory, const std::string& name) noexcept;
/// Removes an empty directory; ENOENT is success.
Result<void> remove_directory_at(FdRef directory, const std::string& name) noexcept;
Result<std::string> read_link_at(FdRef directory, const std::string& name);
/// fchownat(2) of what is open, an O_PATH descriptor too.
Result<void> set_owner(FdRef file, uid_t user, gid_t group) noexcept;
/// fchmod(2).
Result<void> set_mode(FdRef file, mode_t mode) noexcept;
/// ftruncate(2): what is added is a hole.
Result<void> set_size(FdRef file, std::uint64_t size) noexcept;
/// Which file system it is on: fstatfs(2)'s f_type, as in linux/magic.h.
Result<std::uint64_t> file_system_type(FdRef file) noexcept;
/// The names in a directory (an O_PATH descriptor will do) but "." and "..", in no order.
Result<std::vector<std::string>> names_in(FdRef directory);

/// pread(2), retried on EINTR.
Result<std::size_t> read_at(FdRef file, void* data, std::size_t size, std::uint64_t offset) noexcept;
/// Copies all of one regular file to another's current offset.
Result<void> copy_contents(FdRef from, FdRef to) noexcept;
/// The whole of a regular file, at most `limit` bytes (EFBIG past it).
Result<std::string> read_file_at(FdRef directory, const std::string& name, std::size_t limit);

/// The absolute path of a directory with every symlink resolved (realpath(3)), made with its missing parents
/// if it is not there. ENOTDIR for anything but a directory.
Result<std::string> real_directory(const std::string& path, mode_t mode);

}  // namespace caisson::os
