// Temporary directories of tests.
#pragma once

#include <string>
#include <string_view>

namespace caisson::test {

/// The directory of this process that holds its temporary directories, beneath the system's temporary
/// directory. It exists while one of them does.
const std::string& temporary_base();

/// A new empty directory, 0700, removed with all that is in it at the end of this object's life. What cannot
/// be removed then fails the test.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const noexcept { return path_; }
  /// `<path>/<name>`, which need not exist.
  std::string operator/(std::string_view name) const;

 private:
  std::string path_;
};

}  // namespace caisson::test
