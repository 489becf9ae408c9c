// The host's side of a file transfer, with the contract's errors.
#pragma once

#include <string>
#include <string_view>

#include "caisson/contract/sandbox.h"
#include "os/host_file.h"

namespace caisson::facade {

/// Bytes that a transfer moves at a time.
inline constexpr std::size_t transfer_piece = 1U << 20;

/// A file of the caller's, read piece by piece. Blocking. Anything but a directory can be read, a FIFO too.
class HostSource {
 public:
  /// Throws SandboxError: file_missing, not_a_regular_file, internal.
  explicit HostSource(std::string path);
  /// The next piece; empty at the end.
  std::string read();
  /// The permission bits of a regular file.
  FileMode mode() const noexcept;

 private:
  std::string path_;
  os::OpenedFile file_;
};

/// A file of the caller's, replaced at commit (os::FileReplacement). Blocking.
class HostTarget {
 public:
  explicit HostTarget(std::string path);
  void write(std::string_view piece);
  void commit();

 private:
  std::string path_;
  os::FileReplacement file_;
};

}  // namespace caisson::facade
