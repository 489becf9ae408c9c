// A child process with pipes, started and read in the plainest way.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>
#include <string>

namespace caisson::bench::floor {

/// posix_spawn(3) of a program with a pipe for each of standard input and output, close-on-exec; standard
/// error is the caller's. Every failure throws std::system_error. Destroying it closes the pipes and waits
/// for its end.
class Child {
 public:
  explicit Child(std::span<const char* const> argv);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// read(2) to the end: into one buffer again and again, or to `into`, one piece behind the other. The bytes
  /// read.
  std::size_t drain(char* into = nullptr);
  /// Writes `size` bytes and reads as many back.
  void ping(const char* data, std::size_t size, char* back);
  /// Writes a line and reads one back, without its end.
  std::string ask(const std::string& line);

 private:
  int input_ = -1;
  int output_ = -1;
  pid_t pid_ = -1;
};

}  // namespace caisson::bench::floor
