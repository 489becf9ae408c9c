// Files of the caller, outside any session: read whole, or replaced atomically.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "os/fd.h"

namespace caisson::os {

enum class FileKind { regular, directory, other };

struct OpenedFile {
  Fd fd;
  FileKind kind;
  mode_t mode;         ///< Permission bits, 07777.
  std::uint64_t size;  ///< Bytes; of a regular file only.
};
/// open(2) for reading. Blocks on a FIFO that nobody writes, as any program does.
Result<OpenedFile> open_for_reading(const std::string& path) noexcept;

/// Writes a file so that a reader sees the old bytes or the new, whole: into a temporary beside it, renamed
/// over it by commit(). A symlink is followed; an existing file's permission bits are kept, else they are
/// 0666 less the umask. What exists and is no regular file (a terminal, /dev/null, a FIFO) is written to as
/// it is, never replaced; so is a regular file that is named by way of /proc (/dev/stdout, /proc/self/fd/3),
/// at the position of that descriptor, or at its end where it is another process's.
class FileReplacement {
 public:
  /// EISDIR for a directory.
  static Result<FileReplacement> begin(const std::string& path);
  FileReplacement(FileReplacement&& other) noexcept;
  FileReplacement& operator=(FileReplacement&&) = delete;
  /// Removes the temporary of what was not committed.
  ~FileReplacement();

  /// Pieces of nothing but zeros become holes, so that a sparse file, whose size may be any, fills no disk.
  Result<void> write(std::string_view data) noexcept;
  Result<void> commit() noexcept;

 private:
  FileReplacement(Fd fd, std::string temporary, std::string target) noexcept;
  Fd fd_;
  std::string temporary_;  ///< Empty when written to directly, or committed.
  std::string target_;
};

/// Whether this process may make entries in the directory `path`, or, where there is none, in the nearest
/// directory above it that exists (faccessat(2), read-only file systems included). ENOTDIR for what is no
/// directory.
Result<void> may_write_directory(const std::string& path);

}  // namespace caisson::os
