// Lock files over flock(2): the kernel lets go of one when its holder dies, however it dies.
#include "os/lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include "os/files.h"

namespace caisson::os {
namespace {

// How often the file may be unlinked between opening and locking it before this gives up.
constexpr int most_tries = 100;

// Whether the file of `fd` is still the one with that name.
bool still_named(FdRef fd, FdRef directory, const std::string& name) noexcept {
  const Result<FileStatus> held = status(fd);
  const Result<FileStatus> named = status_at(directory, name);
  return held && named && named->st_dev == held->st_dev && named->st_ino == held->st_ino;
}

}  // namespace

Result<std::optional<Fd>> try_lock(FdRef directory, const std::string& name, LockKind kind) noexcept {
  const int operation = (kind == LockKind::shared ? LOCK_SH : LOCK_EX) | LOCK_NB;
  for (int tries = 0; tries < most_tries; ++tries) {
    Result<Fd> file = open_at(directory, name, O_RDONLY | O_CREAT, 0600);
    if (!file) return file.error();
    // Whatever the umask took away at its making would keep its owner out later; not ours: no harm done.
    static_cast<void>(set_mode(*file, 0600));
    const bool locked = ::flock(file->number(), operation) == 0;
    if (!locked && errno != EWOULDBLOCK) return last_error();
    // Otherwise its last holder unlinked it: a lock on it says nothing about the file of that name.
    if (still_named(*file, directory, name))
      return locked ? std::optional<Fd>(std::move(*file)) : std::nullopt;
  }
  return error_of(EAGAIN);
}

void unlock(Fd lock) noexcept {
  if (lock) ::flock(lock.number(), LOCK_UN);
}

}  // namespace caisson::os
