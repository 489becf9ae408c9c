// QuotaDisk: a small ext4 with project quotas, for one test.
#pragma once

#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "os/loop_device.h"
#include "os/mount.h"
#include "tests/support/temporary_directory.h"

namespace caisson::test {

/// Mounted on a directory of its own until the end of the object, where the kernel has quotas.
class QuotaDisk {
 public:
  QuotaDisk() : why_not_(make()) {}
  ~QuotaDisk() {
    if (works()) ::umount2(path_.c_str(), MNT_DETACH);
  }
  QuotaDisk(const QuotaDisk&) = delete;
  QuotaDisk& operator=(const QuotaDisk&) = delete;

  bool works() const noexcept { return why_not_.empty(); }
  const std::string& why_not() const noexcept { return why_not_; }
  const std::string& path() const noexcept { return path_; }

 private:
  std::string make() const {
    std::filesystem::create_directory(path_);
    const std::string image = directory_ / "image";
    const std::string command = "truncate -s 64M " + image +
                                " && mkfs.ext4 -q -F -O quota,project -E quotatype=prjquota " + image +
                                " >/dev/null 2>&1";
    // NOLINTNEXTLINE(cert-env33-c,concurrency-mt-unsafe): a test's command.
    if (std::system(command.c_str()) != 0) return "no ext4 with project quotas can be made";
    const os::Fd file = os::Fd::adopt(::open(image.c_str(), O_RDWR | O_CLOEXEC));
    const auto device = os::attach_loop_device(file);
    if (!device) return device.error().text;
    if (::mount(device->path.c_str(), path_.c_str(), "ext4", MS_NOSUID | MS_NODEV, "prjquota") == 0)
      return {};
    return "this kernel or user mounts no ext4 with project quotas: " + os::last_error().message();
  }

  TemporaryDirectory directory_;
  std::string path_ = directory_ / "disk";
  std::string why_not_;
};

}  // namespace caisson::test
