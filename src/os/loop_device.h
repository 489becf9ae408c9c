// File systems in files: ext4 made in one, and the loop device that shows it as a disk (loop(4)).
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "os/explained.h"
#include "os/fd.h"

namespace caisson::os {

/// Makes an empty ext4 file system, without a place kept for root, in all of a file that is open for reading
/// and writing; its root directory belongs to `user` and `group`. Runs mkfs.ext4(8), killed when it takes
/// over a minute. ENOENT: it is not installed (e2fsprogs). Blocks for some 10 ms.
ExplainedResult<void> make_ext4(FdRef file, uid_t user, gid_t group);

/// A loop device over a file. It lives as long as this is held or a file system on it is mounted, and is let
/// go of by the kernel.
struct LoopDevice {
  Fd device;
  std::string path;  ///< "/dev/loop7": the device's as long as it lives.
  dev_t number = 0;  ///< What the files of a file system on it have for st_dev.
};

/// The loop device over that very file, whatever process made it; nothing where there is none. A file that
/// was given another last name meanwhile is not found.
ExplainedResult<std::optional<LoopDevice>> find_loop_device(FdRef file);
/// The loop device over a file that is open for reading and writing: one that is there, for two over one file
/// would corrupt what is in it, or a new one. Of several processes that attach the same file at a time each
/// makes its own: keep a lock. ENOENT, EPERM, EACCES: there are no loop devices for this process.
ExplainedResult<LoopDevice> attach_loop_device(FdRef file);

/// Whether this process may have loop devices at all.
ExplainedResult<void> probe_loop_devices();

}  // namespace caisson::os
