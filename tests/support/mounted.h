// Mounted: a small file system of its own for one test.
#pragma once

#include <sys/mount.h>

#include <filesystem>
#include <string>
#include <utility>

namespace caisson::test {

/// A tmpfs mounted on a directory, which is made where it is missing, until the end of the object. The test
/// program's mounts are nobody else's.
class Mounted {
 public:
  explicit Mounted(std::string path, const char* options = "size=1m") : path_(std::move(path)) {
    std::filesystem::create_directories(path_);
    works_ = ::mount("tmpfs", path_.c_str(), "tmpfs", 0, options) == 0;
  }
  ~Mounted() {
    if (works_) ::umount2(path_.c_str(), MNT_DETACH);
  }
  Mounted(const Mounted&) = delete;
  Mounted& operator=(const Mounted&) = delete;

  /// False without CAP_SYS_ADMIN.
  bool works() const noexcept { return works_; }
  bool set_read_only(bool read_only) const {
    const unsigned long flags = read_only ? MS_REMOUNT | MS_RDONLY : MS_REMOUNT;
    return ::mount(nullptr, path_.c_str(), nullptr, flags, nullptr) == 0;
  }

 private:
  std::string path_;
  bool works_ = false;
};

}  // namespace caisson::test
