// Directory-relative file calls.
#include "os/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/sendfile.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "os/beneath.h"
#include "os/fault_point.h"

namespace caisson::os {
namespace {

Result<void> done_if(int result) noexcept { return result == 0 ? Result<void>() : last_error(); }

}  // namespace

std::array<char, 32> self_path(FdRef fd) noexcept {
  std::array<char, 32> path = {};
  std::snprintf(path.data(), path.size(), "/proc/self/fd/%d", fd.number);
  return path;
}

Result<bool> is_made_up_by_kernel(FdRef file) noexcept {
  // statfs(2); those that linux/magic.h lacks are from the kernel's own files.
  constexpr long configfs = 0x62656570;
  constexpr long pidfs = 0x50494446;
  constexpr long selinux = 0xf97cff8cU;
  constexpr long pstore = 0x6165676C;
  constexpr long message_queues = 0x19800202;
  constexpr long made_up[] = {
      PROC_SUPER_MAGIC, SYSFS_MAGIC, CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, DEBUGFS_MAGIC, TRACEFS_MAGIC,
      SECURITYFS_MAGIC, selinux,     SMACK_MAGIC,        BPF_FS_MAGIC,        pstore,        EFIVARFS_MAGIC,
      NSFS_MAGIC,       pidfs,       BINFMTFS_MAGIC,     DEVPTS_SUPER_MAGIC,  configfs,      message_queues};
  struct statfs is{};
  if (::fstatfs(file.number, &is) != 0) return {boost::system::in_place_error, last_error()};
  return std::find(std::begin(made_up), std::end(made_up), is.f_type) != std::end(made_up);
}

Result<FileStatus> status(FdRef fd) noexcept {
  FileStatus status = {};
  if (::fstat(fd.number, &status) != 0) return last_error();
  return status;
}

Result<FileStatus> status_at(FdRef directory, const std::string& name) noexcept {
  FileStatus status = {};
  if (::fstatat(directory.number, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return last_error();
  return status;
}

Result<bool> exists_at(FdRef directory, const std::string& name) noexcept {
  const Result<void> fault = fault_point("files.look");
  const Result<FileStatus> is = fault ? status_at(directory, name) : Result<FileStatus>(fault.error());
  if (is || is.error() == error_of(ENOENT)) return is.has_value();
  return {boost::system::in_place_error, is.error()};
}

Result<Fd> open_at(FdRef directory, const std::string& name, int flags, mode_t mode) noexcept {
  flags |= O_NOFOLLOW | O_CLOEXEC;
  if ((flags & O_PATH) == 0) flags |= O_NOCTTY | O_NONBLOCK;
  for (;;) {
    const int fd = ::openat(directory.number, name.c_str(), flags, mode);
    if (fd >= 0) return Fd::adopt(fd);
    if (errno != EINTR) return last_error();
  }
}

Result<Fd> make_unnamed_file(FdRef directory, mode_t mode) noexcept {
  const int fd = ::openat(directory.number, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, mode);
  if (fd >= 0) return Fd::adopt(fd);
  // Kernels and file systems without it see the O_DIRECTORY in O_TMPFILE only.
  return errno == EISDIR ? error_of(EOPNOTSUPP) : last_error();
}

Result<void> link_unnamed_file(FdRef file, FdRef directory, const std::string& name) noexcept {
  // AT_EMPTY_PATH would need CAP_DAC_READ_SEARCH.
  return done_if(
      ::linkat(AT_FDCWD, self_path(file).data(), directory.number, name.c_str(), AT_SYMLINK_FOLLOW));
}

Result<void> make_directory_at(FdRef directory, const std::string& name, mode_t mode) noexcept {
  if (::mkdirat(directory.number, name.c_str(), mode) != 0) return last_error();
  const Result<FileStatus> is = status_at(directory, name);
  if (is && (is->st_mode & mode) == mode) return {};
  // The umask took some away. By descriptor, for by name the change could go through a symlink; by its magic
  // link, for fchmod refuses O_PATH descriptors. The set-group-id bit that a parent hands down stays.
  const Result<Fd> made = open_at(directory, name, O_PATH | O_DIRECTORY);
  if (!made) return made.error();
  const Result<FileStatus> held = status(*made);
  if (!held) return held.error();
  return done_if(::chmod(self_path(*made).data(), (held->st_mode & 07777) | mode));
}

Result<Fd> ensure_directory_at(FdRef directory, const std::string& name, mode_t mode) noexcept {
  Result<Fd> there = open_at(directory, name, O_PATH | O_DIRECTORY);
  if (there || there.error() != error_of(ENOENT)) return there;
  const Result<void> made = make_directory_at(directory, name, mode);
  if (!made && made.error() != error_of(EEXIST)) return made.error();
  return open_at(directory, name, O_PATH | O_DIRECTORY);
}

Result<void> rename_at(FdRef from_directory, const std::string& from, FdRef to_directory,
                       const std::string& to) noexcept {
  return done_if(::renameat(from_directory.number, from.c_str(), to_directory.number, to.c_str()));
}

Result<void> unlink_at(FdRef directory, const std::string& name) noexcept {
  if (::unlinkat(directory.number, name.c_str(), 0) == 0 || errno == ENOENT) return {};
  return last_error();
}

Result<void> remove_directory_at(FdRef directory, const std::string& name) noexcept {
  if (::unlinkat(directory.number, name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) return {};
  return last_error();
}

Result<std::string> read_link_at(FdRef directory, const std::string& name) {
  std::array<char, PATH_MAX> target;
  const ssize_t size = ::readlinkat(directory.number, name.c_str(), target.data(), target.size());
  if (size < 0) return last_error();
  // A target that fills the buffer may have been cut.
  if (static_cast<std::size_t>(size) == target.size()) return error_of(ENAMETOOLONG);
  return std::string(target.data(), static_cast<std::size_t>(size));
}

Result<void> set_owner(FdRef file, uid_t user, gid_t group) noexcept {
  return done_if(::fchownat(file.number, "", user, group, AT_EMPTY_PATH));
}

Result<void> set_mode(FdRef file, mode_t mode) noexcept { return done_if(::fchmod(file.number, mode)); }

Result<void> set_size(FdRef file, std::uint64_t size) noexcept {
  return done_if(::ftruncate(file.number, static_cast<off_t>(size)));
}

Result<std::uint64_t> file_system_type(FdRef file) noexcept {
  struct statfs system = {};
  if (::fstatfs(file.number, &system) != 0) return last_error();
  return static_cast<std::uint64_t>(system.f_type);
}

Result<std::vector<std::string>> names_in(FdRef directory) {
  Result<Fd> readable = open_at(directory, ".", O_RDONLY | O_DIRECTORY);
  if (!readable) return readable.error();
  DIR* const opened = ::fdopendir(readable->number());
  if (opened == nullptr) return last_error();
  // closedir closes it from here on.
  static_cast<void>(std::move(*readable).release());
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(opened, [](DIR* held) { return ::closedir(held); });
  std::vector<std::string> names;
  for (;;) {
    errno = 0;
    const dirent* const entry = ::readdir(stream.get());
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  if (errno != 0) return last_error();
  return names;
}

Result<std::size_t> read_at(FdRef file, void* data, std::size_t size, std::uint64_t offset) noexcept {
  for (;;) {
    const ssize_t count = ::pread(file.number, data, size, static_cast<off_t>(offset));
    if (count >= 0) return static_cast<std::size_t>(count);
    if (errno != EINTR) return last_error();
  }
}

Result<void> copy_contents(FdRef from, FdRef to) noexcept {
  off_t offset = 0;
  for (;;) {
    const ssize_t count = ::sendfile(to.number, from.number, &offset, std::size_t{1} << 30);
    if (count == 0) return {};
    if (count < 0 && errno != EINTR) return last_error();
  }
}

Result<std::string> read_file_at(FdRef directory, const std::string& name, std::size_t limit) {
  const Result<Fd> file = open_at(directory, name, O_RDONLY);
  if (!file) return file.error();
  std::string text;
  std::array<char, 16384> buffer;
  for (;;) {
    const Result<std::size_t> count = read_at(*file, buffer.data(), buffer.size(), text.size());
    if (!count) return count.error();
    if (*count == 0) return text;
    if (text.size() + *count > limit) return error_of(EFBIG);
    text.append(buffer.data(), *count);
  }
}

Result<std::string> real_directory(const std::string& path, mode_t mode) {
  if (path.empty() || path.front() != '/' || path.find('\0') != std::string::npos) return error_of(EINVAL);
  Result<Fd> at = open_directory("/");
  for (std::size_t begin = 0; at && begin < path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string part = path.substr(begin, end - begin);
    begin = end + 1;
    if (part.empty()) continue;
    int next = ::openat(at->number(), part.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (next < 0 && errno == ENOENT) {
      const Result<void> made = make_directory_at(*at, part, mode);
      // EEXIST: somebody else made it meanwhile, or it is a symlink to nothing, which stays ENOENT.
      if (!made && made.error() != error_of(EEXIST)) return made.error();
      next = ::openat(at->number(), part.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    }
    if (next < 0) return last_error();
    at = Fd::adopt(next);
  }
  if (!at) return at.error();
  const std::unique_ptr<char, void (*)(void*)> real(::realpath(path.c_str(), nullptr), ::free);
  if (!real) return last_error();
  return std::string(real.get());
}

}  // namespace caisson::os
