// HostFiles: files of a workspace that is a directory of this host, read and replaced for a session (S-70 to
// S-73).
#pragma once

#include <memory>
#include <string>

#include "caisson/contract/sandbox.h"
#include "caisson/kit/workers.h"
#include "os/beneath.h"

namespace caisson::kit {

/// Opens a workspace's files. Thread-safe; every blocking call runs on the workers. Readers and writers may
/// outlive it, and the workers: their calls are then session_destroyed, and a writer dropped later still
/// removes its temporary file.
///
/// Typed errors: path_escapes ("escapes the sandbox workspace"), path_changed, not_a_regular_file,
/// file_missing (says "miss"), invalid_argument (field "path" or "mode"), too_large past the file system's
/// own limit, and internal for what the file system refuses (permission, space, quota, read-only), saying
/// what to do.
class HostFiles {
 public:
  /// `temporary_directory`: absolute path outside the workspace, made when it is needed. A target on another
  /// mount than that (a mount beneath the workspace) is written by way of a file without a name in the
  /// target's own directory; replacing an existing one there shows a hidden name for the
  /// instant between two system calls, or, on a file system that has no such files, for the whole of the
  /// write.
  HostFiles(const std::shared_ptr<Workers>& file_workers, std::shared_ptr<const os::Beneath> workspace,
            std::string temporary_directory);
  ~HostFiles();
  HostFiles(const HostFiles&) = delete;
  HostFiles& operator=(const HostFiles&) = delete;

  Awaitable<std::unique_ptr<SandboxFileReader>> open_reader(std::string path);
  Awaitable<std::unique_ptr<SandboxFileWriter>> open_writer(std::string path, FileMode mode);
  /// The whole of it on one worker, in one go.
  Awaitable<void> put(std::string path, std::string data, FileMode mode);
  Awaitable<std::string> get(std::string path, std::uint64_t cap);

 private:
  struct Shared;
  class Writer;
  static Awaitable<std::unique_ptr<SandboxFileReader>> open_to_read(std::shared_ptr<Shared> shared,
                                                                    std::string path);
  static Awaitable<void> put_whole(std::shared_ptr<Shared> shared, std::string path, std::string data,
                                   FileMode mode);
  static Awaitable<std::string> get_whole(std::shared_ptr<Shared> shared, std::string path,
                                          std::uint64_t cap);
  std::shared_ptr<Shared> shared_;
};

/// Opens the working directory of an exec as an O_PATH descriptor (S-42): empty is the workspace itself; a
/// relative path stays beneath it, symlinks included (EXDEV: it leads out; EAGAIN: the tree kept changing);
/// an absolute one is as given on the host. ENOENT, ENOTDIR and the rest as openat(2); EINVAL for a NUL.
/// Whether it may be entered is for fchdir(2).
os::Result<os::Fd> resolve_cwd(const os::Beneath& workspace, const std::string& cwd);

}  // namespace caisson::kit
