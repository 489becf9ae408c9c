// FakeUnified: a directory tree that behaves as a cgroup v2 hierarchy with controllers, for tests: not every
// machine has one.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/temporary_directory.h"

namespace caisson::container {

/// Its directories are made with the kernel's files in them and removed with them, and writes to
/// cgroup.subtree_control follow the kernel's rules (cgroups(7)): what is written elsewhere stays as text.
/// The calls mkdir, unlinkat, rmdir and write of the whole test program go through fake_unified_test.cc for
/// that. One at a time.
class FakeUnified {
 public:
  /// `controllers`: what its root has, separated by spaces.
  explicit FakeUnified(const std::string& controllers) : root_(directory_ / "cgroup") {
    std::filesystem::create_directory(root_);
    fill(root_);
    put(root_ + "/cgroup.controllers", controllers);
    present = this;
  }
  ~FakeUnified() { present = nullptr; }
  FakeUnified(const FakeUnified&) = delete;
  FakeUnified& operator=(const FakeUnified&) = delete;

  const std::string& root() const noexcept { return root_; }
  static std::string text(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  static void put(const std::string& path, const std::string& text) {
    writes_itself = true;
    std::ofstream(path) << text << std::flush;
    writes_itself = false;
  }

  // For the calls.
  static inline std::atomic<FakeUnified*> present = nullptr;
  static inline thread_local bool writes_itself = false;
  bool holds(const std::string& path) const { return path == root_ || path.starts_with(root_ + "/"); }
  /// A directory was made.
  void fill(const std::string& directory) const {
    for (const char* file : {"cgroup.procs", "cgroup.kill", "cgroup.controllers", "cgroup.subtree_control"}) {
      put(directory + "/" + file, "");
    }
    put(directory + "/cgroup.events", "populated 0\nfrozen 0\n");
    if (directory == root_) return;
    put(directory + "/cgroup.type", "domain\n");
    const std::string above = std::filesystem::path(directory).parent_path();
    for (const std::string& controller : words(text(above + "/cgroup.subtree_control"))) {
      enable(directory, controller);
    }
  }
  /// A directory is to be removed: without its files, if nothing else is in it.
  static void empty(const std::string& directory) {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(directory)) {
      if (entry.is_directory()) return;
      files.push_back(entry.path());
    }
    for (const auto& file : files) std::filesystem::remove(file);
  }
  /// What a write to a cgroup.subtree_control does: 0, or an errno.
  int control(const std::string& directory, const std::string& written) const {
    for (const std::string& change : words(written)) {
      const std::string controller = change.substr(1);
      if (change.front() != '+') return EINVAL;
      if (!has_word(text(directory + "/cgroup.controllers"), controller)) return ENOENT;
      // Of cpu and pids the kernel makes a cgroup of threads instead.
      if (directory != root_ && !text(directory + "/cgroup.procs").empty() && controller == "memory") {
        return EBUSY;
      }
      if (has_word(text(directory + "/cgroup.subtree_control"), controller)) continue;
      append(directory + "/cgroup.subtree_control", controller);
      for (const auto& entry : std::filesystem::directory_iterator(directory)) {
        if (entry.is_directory()) enable(entry.path(), controller);
      }
    }
    return 0;
  }

 private:
  static std::vector<std::string> words(const std::string& text) {
    std::istringstream stream(text);
    return {std::istream_iterator<std::string>(stream), {}};
  }
  static bool has_word(const std::string& text, const std::string& word) {
    const auto all = words(text);
    return std::find(all.begin(), all.end(), word) != all.end();
  }
  static void append(const std::string& path, const std::string& word) { put(path, text(path) + word + " "); }
  static void enable(const std::string& directory, const std::string& controller) {
    append(directory + "/cgroup.controllers", controller);
    if (controller == "cpu") put(directory + "/cpu.max", "max 100000\n");
    if (controller == "pids") {
      put(directory + "/pids.max", "max\n");
      put(directory + "/pids.events", "max 0\n");
    }
    if (controller == "memory") {
      put(directory + "/memory.max", "max\n");
      put(directory + "/memory.swap.max", "max\n");
      put(directory + "/memory.events.local", "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\n");
    }
  }

  test::TemporaryDirectory directory_;
  std::string root_;
};

}  // namespace caisson::container
