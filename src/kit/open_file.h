// Open files of a session: read on worker threads, until the session ends (S-72, S-73).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "caisson/contract/sandbox.h"
#include "caisson/kit/workers.h"
#include "kit/file_errors.h"
#include "os/fd.h"

namespace caisson::kit {

/// What readers and writers need of the session that they belong to, and keep beyond its end. Thread-safe.
class FileThreads {
 public:
  explicit FileThreads(const std::shared_ptr<Workers>& workers) : workers_(workers) {}

  /// Held for the length of a call, so that a provider that ends meanwhile waits for it. Throws
  /// session_destroyed once the session has ended.
  std::shared_ptr<Workers> workers() const;
  /// Runs `work` on a worker; once the session has ended it ends here, with the argument.
  template <class Work>
  void drop(Work work) const {
    const auto there = ended_ ? nullptr : workers_.lock();
    if (there) there->post(std::move(work));
  }
  void end() noexcept { ended_ = true; }

 private:
  std::atomic<bool> ended_ = false;
  const std::weak_ptr<Workers> workers_;
};

/// The value, or the SandboxError of a failed call on a session's file (file_errors.h).
template <class T>
T checked(FileOperation doing, const std::string& path, os::Result<T> result) {
  if (!result) fail_file(doing, path, result.error());
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

/// Throws invalid_argument for an empty path.
void check_path(FileOperation doing, const std::string& path);
/// The same of a file to be written, and for a mode that is more than permission bits.
void check_target(const std::string& path, FileMode mode);

/// A regular file that is open for reading, and how far it was read. Its calls block; one at a time.
class OpenFile {
 public:
  /// `path` and `size` as they are told.
  OpenFile(os::Fd file, std::string path, std::uint64_t size)
      : file_(std::move(file)), path_(std::move(path)), size_(size) {}

  std::uint64_t size() const noexcept { return size_; }
  /// The next bytes, at most `max_bytes`; empty at the end.
  std::string read(std::size_t max_bytes);
  /// What is left of it. Throws too_large past `cap` bytes.
  std::string read_all(std::uint64_t cap);

 private:
  std::mutex mutex_;
  const os::Fd file_;
  const std::string path_;
  const std::uint64_t size_;
  std::uint64_t offset_ = 0;
};

std::unique_ptr<SandboxFileReader> make_reader(std::shared_ptr<const FileThreads> threads,
                                               std::shared_ptr<OpenFile> file);

}  // namespace caisson::kit
