// QuotaImage: a file system with project quotas, for tests, where this machine can have one.
#pragma once

#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "os/beneath.h"
#include "os/files.h"
#include "os/loop_device.h"
#include "os/run_program.h"

namespace caisson::test {

/// A file system of that type (ext4, xfs) mounted on `<directory>/quota` until the end of the object, with
/// project quotas unless it is the control.
class QuotaImage {
 public:
  explicit QuotaImage(const std::string& directory, const std::string& type = "ext4", bool with_quotas = true)
      : path_(directory + "/quota"), reason_(mount(directory, type, with_quotas)) {}
  ~QuotaImage() {
    if (works()) ::umount2(path_.c_str(), MNT_DETACH);
  }
  QuotaImage(const QuotaImage&) = delete;
  QuotaImage& operator=(const QuotaImage&) = delete;

  bool works() const noexcept { return reason_.empty(); }
  const std::string& reason() const noexcept { return reason_; }  ///< Why it does not.
  const std::string& path() const noexcept { return path_; }

 private:
  // Why it is not mounted; empty when it is.
  std::string mount(const std::string& directory, const std::string& type, bool with_quotas) const {
    std::filesystem::create_directories(path_);
    const os::Fd at = os::open_directory(directory).value();
    const os::Fd image = os::open_at(at, "quota.image", O_RDWR | O_CREAT, 0600).value();
    // XFS is made no smaller; it is a sparse file.
    if (::ftruncate(image.number(), 320 << 20) != 0) return os::last_error().message();
    os::ProgramRun make{"making a file system",
                        type == "xfs" ? "xfsprogs" : "e2fsprogs",
                        "/usr/sbin:/sbin",
                        {"mkfs." + type, "-q"},
                        image};
    make.argv.emplace_back(type == "xfs" ? "-f" : "-F");
    if (with_quotas && type == "ext4")
      make.argv.insert(make.argv.end(), {"-O", "quota,project", "-E", "quotatype=prjquota"});
    make.argv.emplace_back("/proc/self/fd/0");
    const auto made = os::run_program(make);
    if (!made) return made.error().text;
    const auto device = os::make_loop_device(image, "quota");
    if (!device) return device.error().text;
    const char* const options = with_quotas ? "prjquota" : nullptr;
    if (::mount(device->path.c_str(), path_.c_str(), type.c_str(), MS_NOSUID | MS_NODEV, options) == 0)
      return {};
    return "this kernel mounts no " + type + " with project quotas: " + os::last_error().message();
  }
  std::string path_;
  std::string reason_;
};

}  // namespace caisson::test
