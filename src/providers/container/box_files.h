// Files of a box: opened by its init with the box user's rights, read and written from outside (S-70 to
// S-73).
#pragma once

#include <memory>
#include <string>

#include "caisson/contract/sandbox.h"
#include "kit/open_file.h"
#include "providers/container/box_process.h"

namespace caisson::container {

/// Opens a box's files. Relative paths start at the workspace and may not leave it; absolute ones are the
/// box's own. Of what init passes only fstat(2) is believed: a file that is none, or one that the kernel
/// makes up (proc), is not_a_regular_file. Readers and writers may outlive it: their calls are then
/// session_destroyed. Thread-safe.
///
/// Typed errors: as kit::HostFiles; unavailable where the box has ended.
class BoxFiles {
 public:
  explicit BoxFiles(std::shared_ptr<BoxProcess> process);
  ~BoxFiles();
  BoxFiles(const BoxFiles&) = delete;
  BoxFiles& operator=(const BoxFiles&) = delete;

  Awaitable<std::unique_ptr<SandboxFileReader>> open_reader(std::string path);
  Awaitable<std::unique_ptr<SandboxFileWriter>> open_writer(std::string path, FileMode mode);

 private:
  const std::shared_ptr<BoxProcess> process_;
  const std::shared_ptr<kit::FileThreads> threads_;
};

}  // namespace caisson::container
