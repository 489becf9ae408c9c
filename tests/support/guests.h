// Starting the guest programs of tests/guests by os::spawn, and watching the processes they make.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "os/spawn.h"

namespace caisson::test {

inline std::string guest(std::string_view name) {
  return std::string(CAISSON_GUESTS_DIR) + "/" + std::string(name);
}

/// Owns the arrays of a SpawnPlan: a program by its path, its arguments and environment.
class Command {
 public:
  explicit Command(std::vector<std::string> argv, std::vector<std::string> env = {})
      : argv_(std::move(argv)),
        env_(std::move(env)),
        candidates_(os::exec_candidates(argv_.front(), "/usr/bin:/bin")) {}

  /// Valid as long as this object. Its descriptors are this process's own until they are set.
  os::SpawnPlan plan() {
    point(argv_, argv_pointers_);
    point(env_, env_pointers_);
    point(candidates_, candidate_pointers_);
    os::SpawnPlan plan;
    plan.candidates = std::span<const char* const>(candidate_pointers_.data(), candidates_.size());
    plan.argv = argv_pointers_.data();
    plan.envp = env_pointers_.data();
    for (int i = 0; i < 3; ++i) plan.descriptors[i].number = i;
    return plan;
  }

 private:
  static void point(const std::vector<std::string>& strings, std::vector<const char*>& pointers) {
    pointers.clear();
    for (const std::string& string : strings) pointers.push_back(string.c_str());
    pointers.push_back(nullptr);
  }
  std::vector<std::string> argv_;
  std::vector<std::string> env_;
  std::vector<std::string> candidates_;
  std::vector<const char*> argv_pointers_;
  std::vector<const char*> env_pointers_;
  std::vector<const char*> candidate_pointers_;
};

/// The values that a guest's "key value" lines give `key`, in order.
inline std::vector<std::string> values_of(const std::string& output, std::string_view key) {
  std::vector<std::string> values;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (line.size() > key.size() && line.starts_with(key) && line[key.size()] == ' ') {
      values.push_back(line.substr(key.size() + 1));
    }
  }
  return values;
}

/// Reads whole lines up to the one that begins with `word`; what came before and with it. Fails by ending
/// early.
inline std::string read_until(os::FdRef fd, std::string_view word) {
  std::string output;
  for (;;) {
    char byte = 0;
    const auto count = os::read_some(fd, &byte, 1);
    if (!count || *count == 0) return output;
    output += byte;
    if (byte != '\n') continue;
    const std::size_t start = output.size() < 2 ? 0 : output.rfind('\n', output.size() - 2) + 1;
    if (std::string_view(output).substr(start).starts_with(word)) return output;
  }
}

/// Any process by number, held by a pidfd so that the number can come free.
class Watched {
 public:
  explicit Watched(pid_t pid) : pidfd_(os::Fd::adopt(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)))) {}
  explicit operator bool() const noexcept { return static_cast<bool>(pidfd_); }
  /// Whether it has ended, waiting at most `patience` for that.
  bool ended(std::chrono::milliseconds patience = std::chrono::milliseconds(0)) const {
    if (!pidfd_) return true;
    pollfd end{pidfd_.number(), POLLIN, 0};
    return ::poll(&end, 1, static_cast<int>(patience.count())) == 1;
  }

 private:
  os::Fd pidfd_;
};

/// Every "pid N" of a guest_tree's output.
inline std::vector<Watched> watch_all(const std::string& output) {
  std::vector<Watched> all;
  for (const std::string& pid : values_of(output, "pid")) all.emplace_back(std::atoi(pid.c_str()));
  return all;
}
inline bool any_ended(const std::vector<Watched>& all) {
  return std::any_of(all.begin(), all.end(), [](const Watched& one) { return one.ended(); });
}
inline bool all_ended(const std::vector<Watched>& all, std::chrono::milliseconds patience) {
  return std::all_of(all.begin(), all.end(), [patience](const Watched& one) { return one.ended(patience); });
}

}  // namespace caisson::test
