// Files of the caller, outside any session.
#include "os/host_file.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstring>
#include <utility>

#include "os/clock.h"

namespace caisson::os {
namespace {

FileKind kind_of(mode_t mode) noexcept {
  if (S_ISREG(mode)) return FileKind::regular;
  return S_ISDIR(mode) ? FileKind::directory : FileKind::other;
}

Result<Fd> open_retrying(const char* path, int flags, mode_t mode) noexcept {
  for (;;) {
    const int number = ::open(path, flags | O_CLOEXEC | O_NOCTTY, mode);
    if (number >= 0) return Fd::adopt(number);
    if (errno != EINTR) return last_error();
  }
}

std::string directory_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

// Whether the name is the kernel's (/proc/self/fd/1, and what /dev/stdout leads to): it stands for something
// open, not for a place in a directory.
bool is_in_proc(const std::string& path) noexcept {
  struct statfs system{};
  return ::statfs(directory_of(path).c_str(), &system) == 0 && system.f_type == PROC_SUPER_MAGIC;
}

// The file that a chain of symlinks ends at, whether or not it exists yet; or the name in /proc that it
// meets.
Result<std::string> follow_symlinks(std::string path) {
  for (int links = 0; links < 40; ++links) {
    if (is_in_proc(path)) return path;
    char target[PATH_MAX];
    const ssize_t length = ::readlink(path.c_str(), target, sizeof target);
    if (length < 0) return path;
    std::string next(target, static_cast<std::size_t>(length));
    if (next.empty() || next.front() != '/') next = path.substr(0, path.rfind('/') + 1) + next;
    path = std::move(next);
  }
  return error_of(ELOOP);
}

}  // namespace

Result<OpenedFile> open_for_reading(const std::string& path) noexcept {
  auto fd = open_retrying(path.c_str(), O_RDONLY, 0);
  if (!fd) return fd.error();
  struct stat status{};
  if (::fstat(fd->number(), &status) != 0) return last_error();
  const FileKind kind = kind_of(status.st_mode);
  const auto size = kind == FileKind::regular ? static_cast<std::uint64_t>(status.st_size) : 0;
  return OpenedFile{std::move(*fd), kind, status.st_mode & 07777, size};
}

FileReplacement::FileReplacement(Fd fd, std::string temporary, std::string target) noexcept
    : fd_(std::move(fd)), temporary_(std::move(temporary)), target_(std::move(target)) {}

FileReplacement::FileReplacement(FileReplacement&& other) noexcept
    : fd_(std::move(other.fd_)),
      temporary_(std::exchange(other.temporary_, {})),
      target_(std::move(other.target_)) {}

FileReplacement::~FileReplacement() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

namespace {

// Opens what is written to as it is. One of our own descriptors is duplicated, so that its position is shared
// with whoever else writes there; what is in a file already is not written over.
Result<Fd> open_as_it_is(const std::string& path, const struct stat& status) noexcept {
  const std::string name = path.substr(path.rfind('/') + 1);
  int number = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  struct stat own{};
  if (error == std::errc() && end == name.data() + name.size() && is_in_proc(path) &&
      ::fstat(number, &own) == 0 && own.st_dev == status.st_dev && own.st_ino == status.st_ino) {
    const int duplicate = ::fcntl(number, F_DUPFD_CLOEXEC, 0);
    if (duplicate < 0) return last_error();
    return Fd::adopt(duplicate);
  }
  return open_retrying(path.c_str(), O_WRONLY | (S_ISREG(status.st_mode) ? O_APPEND : 0), 0);
}

// Whether it is nothing but zeros, and enough of them for a file system to save a block.
bool is_zero(std::string_view data) noexcept {
  constexpr std::size_t block = 4096;
  return data.size() >= block && data.front() == 0 &&
         std::memcmp(data.data(), data.data() + 1, data.size() - 1) == 0;
}

}  // namespace

Result<FileReplacement> FileReplacement::begin(const std::string& path) {
  struct stat status{};
  const bool exists = ::stat(path.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) return error_of(EISDIR);
  auto target = follow_symlinks(path);
  if (!target) return target.error();
  if (exists && (!S_ISREG(status.st_mode) || is_in_proc(*target))) {
    auto fd = open_as_it_is(*target, status);
    if (!fd) return fd.error();
    return FileReplacement(std::move(*fd), {}, path);
  }
  if (target->empty() || target->back() == '/') return error_of(target->empty() ? ENOENT : EISDIR);
  // Renaming needs no permission on the file itself; a read-only file is refused as an editor would refuse
  // it.
  if (exists && ::faccessat(AT_FDCWD, target->c_str(), W_OK, AT_EACCESS) != 0) return last_error();
  std::string temporary = target->substr(0, target->rfind('/') + 1) + ".caisson-" + random_hex_id();
  auto fd = open_retrying(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL, 0666);
  if (!fd) return fd.error();
  FileReplacement replacement(std::move(*fd), std::move(temporary), std::move(*target));
  if (exists && ::fchmod(replacement.fd_.number(), status.st_mode & 07777) != 0) return last_error();
  return replacement;
}

Result<void> FileReplacement::write(std::string_view data) noexcept {
  if (temporary_.empty() || !is_zero(data)) return write_all(fd_, data);
  if (::lseek(fd_.number(), static_cast<off_t>(data.size()), SEEK_CUR) < 0) return last_error();
  return {};
}

Result<void> FileReplacement::commit() noexcept {
  if (!temporary_.empty()) {
    // A hole at the end has not made the file as long as it is to be.
    const off_t size = ::lseek(fd_.number(), 0, SEEK_CUR);
    if (size < 0 || ::ftruncate(fd_.number(), size) != 0) return last_error();
  }
  // close(2) is where a network file system reports what it could not store.
  if (::close(std::move(fd_).release()) != 0 && errno != EINTR) return last_error();
  if (temporary_.empty()) return {};
  if (std::rename(temporary_.c_str(), target_.c_str()) != 0) return last_error();
  temporary_.clear();
  return {};
}

Result<void> may_write_directory(const std::string& path) {
  std::string place = path;
  for (;;) {
    struct stat status{};
    if (::stat(place.c_str(), &status) == 0) {
      if (!S_ISDIR(status.st_mode)) return error_of(ENOTDIR);
      if (::faccessat(AT_FDCWD, place.c_str(), W_OK | X_OK, AT_EACCESS) != 0) return last_error();
      return {};
    }
    if (errno != ENOENT) return last_error();
    const std::size_t slash = place.find_last_not_of('/') == std::string::npos
                                  ? std::string::npos
                                  : place.rfind('/', place.find_last_not_of('/'));
    if (slash == std::string::npos) return error_of(ENOENT);
    place.resize(slash == 0 ? 1 : slash);
  }
}

}  // namespace caisson::os
