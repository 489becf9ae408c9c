// Fd: an owned file descriptor.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "os/result.h"

namespace caisson::os {

/// A borrowed descriptor: valid as long as the owner it was taken from.
struct FdRef {
  int number = -1;
};

/// Owns one descriptor and closes it; move-only. Every descriptor made in this layer is close-on-exec.
class Fd {
 public:
  Fd() noexcept = default;
  static Fd adopt(int number) noexcept { return Fd(number); }
  Fd(Fd&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      reset();
      number_ = std::exchange(other.number_, -1);
    }
    return *this;
  }
  ~Fd() { reset(); }

  explicit operator bool() const noexcept { return number_ >= 0; }
  operator FdRef() const noexcept { return {number_}; }  // NOLINT(google-explicit-constructor)
  int number() const noexcept { return number_; }
  /// Gives up ownership.
  [[nodiscard]] int release() && noexcept { return std::exchange(number_, -1); }
  void reset() noexcept;

 private:
  explicit Fd(int number) noexcept : number_(number) {}
  int number_ = -1;
};

struct Pipe {
  Fd read;
  Fd write;
};
/// pipe2(2). No end is 0, 1 or 2, whatever the host program has closed. EMFILE also when fewer than
/// `descriptor_reserve` descriptors would be left (rlimits.h), so that a crowd of execs never starves the
/// host program.
Result<Pipe> make_pipe() noexcept;

/// What reads as an immediate end of file: /dev/null, or where there is none a pipe without a writer. In the
/// reserve as make_pipe.
Result<Fd> open_empty_input() noexcept;

/// A duplicate that is close-on-exec and not 0, 1 or 2.
Result<Fd> duplicate(FdRef fd) noexcept;
/// `fd`, moved to another number if it is 0, 1 or 2: where the host program has closed those, a new
/// descriptor lands there and its prints would go into it. None at all gives errno, as the call has left it
/// that should have made it.
Result<Fd> clear_of_standard_streams(Fd fd) noexcept;
/// The same, and EMFILE when the number is within the reserve that make_pipe keeps.
Result<Fd> spare_descriptor(Fd fd) noexcept;

/// read(2) and write(2), retried on EINTR. `write_some` raises no SIGPIPE, whatever the process's
/// disposition: a reader that is gone is EPIPE.
Result<std::size_t> read_some(FdRef fd, void* data, std::size_t size) noexcept;
Result<std::size_t> write_some(FdRef fd, const void* data, std::size_t size) noexcept;
/// Writes all of it, blocking even where somebody has made the descriptor non-blocking.
Result<void> write_all(FdRef fd, std::string_view data) noexcept;
/// The rest of a blocking descriptor, at most `limit` bytes (EFBIG past it).
Result<std::string> read_all(FdRef fd, std::size_t limit);
/// Lets a pipe hold 1 MiB, as much as an ordinary user's may (F_SETPIPE_SZ, pipe(7)); where that is refused
/// it stays as it is.
void widen_pipe(FdRef fd) noexcept;
/// Bytes that a read would give now (FIONREAD).
Result<std::size_t> readable_bytes(FdRef fd) noexcept;

}  // namespace caisson::os
