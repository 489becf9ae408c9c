// Files, child processes, logs and errors, for tests of what lies on disk.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "caisson/contract/errors.h"
#include "caisson/kit/log.h"

namespace caisson::test {

inline std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}
inline void put(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

inline unsigned mode_of(const std::string& path) {
  struct stat is = {};
  return ::lstat(path.c_str(), &is) == 0 ? is.st_mode & 07777 : ~0U;
}

inline std::vector<std::string> entries_of(const std::string& path) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

/// The SandboxError that a call throws; a test failure when it throws none.
inline std::optional<SandboxError> error_of_call(const std::function<void()>& call) {
  try {
    call();
  } catch (const SandboxError& error) {
    return error;
  }
  ADD_FAILURE() << "it did not fail";
  return std::nullopt;
}
inline std::optional<ErrorCode> code_of_call(const std::function<void()>& call) {
  const auto error = error_of_call(call);
  return error ? std::optional(error->code()) : std::nullopt;
}

/// A child process that runs `body` and then dies without any clean-up when `kill` is called, or with this
/// object.
class Child {
 public:
  /// Returns once `body` did.
  explicit Child(const std::function<void()>& body) {
    int ready[2] = {-1, -1};
    EXPECT_EQ(::pipe2(ready, O_CLOEXEC), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      try {
        body();
        static_cast<void>(!::write(ready[1], "y", 1));
      } catch (const std::exception& error) {
        static_cast<void>(!::write(2, error.what(), std::char_traits<char>::length(error.what())));
      }
      ::close(ready[1]);
      for (;;) ::pause();
    }
    ::close(ready[1]);
    char answer = 'n';
    static_cast<void>(!::read(ready[0], &answer, 1));
    ::close(ready[0]);
    EXPECT_EQ(answer, 'y') << "the child's own part failed";
  }
  ~Child() { kill(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
};

/// A log that remembers.
class Remembered {
 public:
  kit::Log log() {
    return [this](kit::LogLevel, const std::string& message) { text_ += message + "\n"; };
  }
  const std::string& text() const noexcept { return text_; }

 private:
  std::string text_;
};

}  // namespace caisson::test
