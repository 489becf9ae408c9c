// Paths under one directory, resolved by the kernel in one step (openat2(2), D-6, S-70).
#pragma once

#include <sys/stat.h>

#include <string>
#include <string_view>

#include "os/fd.h"

namespace caisson::os {

/// Opens an absolute path to a directory as an O_PATH descriptor; ENOTDIR for anything else. Symlinks are
/// followed.
Result<Fd> open_directory(const std::string& path) noexcept;

/// The same as seen by who has `root` for his root directory, and by no magic link of /proc (openat2(2),
/// RESOLVE_IN_ROOT).
Result<Fd> open_directory_in(FdRef root, const std::string& path);

/// A directory and its absolute path: nothing outside it is ever reached through this object.
class Beneath {
 public:
  Beneath(Fd directory, std::string path) noexcept
      : directory_(std::move(directory)), path_(std::move(path)) {}

  FdRef directory() const noexcept { return directory_; }
  const std::string& path() const noexcept { return path_; }

  /// openat2 with RESOLVE_BENEATH and no magic links, never with O_CREAT, O_CLOEXEC|O_NOCTTY|O_NONBLOCK
  /// added. A path, or a symlink met on the way, that is absolute and under path() works as if relative to
  /// it. EXDEV: it leads out; EAGAIN: the tree kept changing under the resolution (retried first); ELOOP,
  /// ENOENT and the rest as openat(2).
  Result<Fd> open(std::string_view path, int flags) const;

  /// Makes a directory and its missing parents (mode 0755), one component at a time, and opens it as O_PATH.
  Result<Fd> make_directories(std::string_view path) const;

  /// A place to put a file: the directory that holds it, and its name there.
  struct Place {
    Fd directory;      ///< O_PATH
    std::string name;  ///< One component; never "", "." or "..".
  };
  /// Where a write to `path` lands: missing parents are made (mode 0755), one at a time, and a final symlink
  /// is followed to where it points, if that is inside (else EXDEV). EISDIR when `path` names a directory by
  /// its form ("x/", ".").
  Result<Place> place_for(std::string_view path) const;

 private:
  Fd directory_;
  std::string path_;
};

}  // namespace caisson::os
