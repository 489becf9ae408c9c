// Loop devices: a file as a block device (loop(4)).
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "os/explained.h"
#include "os/fd.h"

namespace caisson::os {

/// A loop device that is bound to a file, and stays so at least as long as `device` is open, or a file system
/// on it is mounted.
struct LoopDevice {
  Fd device;
  std::string path;  ///< "/dev/loop7"
  dev_t number;      ///< Its own; what files on it have for st_dev.
};

// Two file systems mounted from two devices over one file destroy it, and the kernel does not mind. Whoever
// makes devices of a file holds a lock of his own from find_loop_device() to make_loop_device().

/// The device that a regular file is bound to already, whoever did that. EBUSY: one that shows only a part of
/// the file, or that is read-only, or has no node in /dev. ENOENT: this machine has no /sys/block, so it
/// cannot be told.
ExplainedResult<std::optional<LoopDevice>> find_loop_device(FdRef file);
/// Binds a file that is open for reading and writing to a free device, which is unbound by itself once nobody
/// uses it (LO_FLAGS_AUTOCLEAR). `name`: for losetup(8) to show. Needs CAP_SYS_ADMIN, and /dev/loop-control.
ExplainedResult<LoopDevice> make_loop_device(FdRef file, const std::string& name);

}  // namespace caisson::os
