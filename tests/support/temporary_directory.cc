// Makes and removes temporary directories.
#include "tests/support/temporary_directory.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <mutex>
#include <system_error>

namespace caisson::test {
namespace {

namespace fs = std::filesystem;

// An ordinary user cannot empty a directory without permission bits.
void open_directories(const fs::path& top) {
  std::error_code ignored;
  fs::permissions(top, fs::perms::owner_all, fs::perm_options::add, ignored);
  std::error_code error;
  for (fs::directory_iterator at(top, error); !error && at != fs::directory_iterator(); at.increment(error)) {
    if (at->symlink_status(ignored).type() == fs::file_type::directory) {
      open_directories(at->path());
    }
  }
}

std::mutex base_mutex;  // The base appears with the first directory and goes with the last.

}  // namespace

const std::string& temporary_base() {
  static const std::string base =
      (fs::canonical(fs::temp_directory_path()) / ("caisson-test-" + std::to_string(::getpid()))).string();
  return base;
}

TemporaryDirectory::TemporaryDirectory() : path_(temporary_base() + "/XXXXXX") {
  const std::scoped_lock lock(base_mutex);
  fs::create_directory(temporary_base());
  if (::mkdtemp(path_.data()) == nullptr) {
    throw std::system_error(errno, std::generic_category(), "mkdtemp " + path_);
  }
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code error;
  fs::remove_all(path_, error);
  if (error) {
    open_directories(path_);
    fs::remove_all(path_, error);
  }
  if (error || fs::exists(fs::symlink_status(path_))) {
    ADD_FAILURE() << "cannot remove the temporary directory " << path_ << ": " << error.message();
  }
  const std::scoped_lock lock(base_mutex);
  ::rmdir(temporary_base().c_str());
}

std::string TemporaryDirectory::operator/(std::string_view name) const {
  return path_ + "/" + std::string(name);
}

}  // namespace caisson::test
