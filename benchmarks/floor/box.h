// The floor of a container: the least that Linux allows for a first process in a box of its own.
#pragma once

#include <sys/types.h>

#include <string>

namespace caisson::bench::floor {

/// A directory to make boxes of, with nothing in it but their init. Throws std::system_error.
class BoxImage {
 public:
  /// In a directory that exists, and is left behind.
  explicit BoxImage(std::string directory);
  const std::string& image() const { return image_; }
  const std::string& scratch() const { return scratch_; }

 private:
  std::string image_;
  std::string scratch_;
};

/// A clone into every namespace but time's, with a map of one id; a tmpfs, an overlay of the image on it,
/// /proc, a /dev of six devices, pivot_root(2), and a static program exec'd as process 1. No cgroup, no
/// capability dropped, no filter. Needs root, or user namespaces for everybody.
class Box {
 public:
  /// Returns when the init has said that it runs. Throws std::system_error.
  explicit Box(const BoxImage& image);
  /// Ends it and waits for that.
  ~Box();
  Box(const Box&) = delete;
  Box& operator=(const Box&) = delete;

 private:
  pid_t pid_ = -1;
  int input_ = -1;
};

}  // namespace caisson::bench::floor
