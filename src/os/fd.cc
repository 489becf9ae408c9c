// Fd, pipes and the reads and writes of descriptors.
#include "os/fd.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "os/rlimits.h"

namespace caisson::os {

namespace {

constexpr int first_free_number = 3;

// Whether using `number` would eat into the descriptors that are left to the host program.
bool in_reserve(int number) noexcept {
  struct rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return false;
  const std::uint64_t soft = limit.rlim_cur;
  const std::uint64_t reserve = std::min<std::uint64_t>(descriptor_reserve, soft / 4);
  return static_cast<std::uint64_t>(number) >= soft - reserve;
}

// Keeps SIGPIPE from this thread while a write is under way. The one that a write raises goes to the writing
// thread, so blocking it there and taking it back leaves the process's disposition and other threads alone.
class SigpipeHeldBack {
 public:
  SigpipeHeldBack() noexcept {
    sigemptyset(&sigpipe_);
    sigaddset(&sigpipe_, SIGPIPE);
    sigset_t pending;
    sigemptyset(&pending);
    ::sigpending(&pending);
    pending_before_ = sigismember(&pending, SIGPIPE) == 1;
    if (!pending_before_) ::pthread_sigmask(SIG_BLOCK, &sigpipe_, &before_);
  }
  ~SigpipeHeldBack() {
    // One that was pending before is blocked by its owner and stays his.
    if (!pending_before_) ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  SigpipeHeldBack(const SigpipeHeldBack&) = delete;
  SigpipeHeldBack& operator=(const SigpipeHeldBack&) = delete;

  void take() noexcept {
    if (pending_before_) return;
    const timespec now{};
    while (::sigtimedwait(&sigpipe_, nullptr, &now) < 0 && errno == EINTR) {
    }
  }

 private:
  sigset_t sigpipe_;
  sigset_t before_;
  bool pending_before_ = false;
};

}  // namespace

void Fd::reset() noexcept {
  // close(2) frees the number even when it reports EINTR.
  if (number_ >= 0) ::close(std::exchange(number_, -1));
}

Result<Fd> clear_of_standard_streams(Fd fd) noexcept {
  if (!fd) return last_error();
  if (fd.number() >= first_free_number) return fd;
  return duplicate(fd);
}

Result<Fd> spare_descriptor(Fd fd) noexcept {
  auto clear = clear_of_standard_streams(std::move(fd));
  if (clear && in_reserve(clear->number())) return error_of(EMFILE);
  return clear;
}

Result<Pipe> make_pipe() noexcept {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return last_error();
  Fd read_end = Fd::adopt(ends[0]);
  Fd write_end = Fd::adopt(ends[1]);
  auto read = spare_descriptor(std::move(read_end));
  if (!read) return read.error();
  auto write = spare_descriptor(std::move(write_end));
  if (!write) return write.error();
  return Pipe{std::move(*read), std::move(*write)};
}

Result<Fd> open_empty_input() noexcept {
  auto null = spare_descriptor(Fd::adopt(::open("/dev/null", O_RDONLY | O_CLOEXEC)));
  if (null || null.error() == error_of(EMFILE) || null.error() == error_of(ENFILE)) return null;
  auto pipe = make_pipe();
  if (!pipe) return pipe.error();
  return std::move(pipe->read);
}

Result<Fd> duplicate(FdRef fd) noexcept {
  const int copy = ::fcntl(fd.number, F_DUPFD_CLOEXEC, first_free_number);
  if (copy < 0) return last_error();
  return Fd::adopt(copy);
}

Result<std::size_t> read_some(FdRef fd, void* data, std::size_t size) noexcept {
  for (;;) {
    const ssize_t count = ::read(fd.number, data, size);
    if (count >= 0) return static_cast<std::size_t>(count);
    if (errno != EINTR) return last_error();
  }
}

Result<std::size_t> write_some(FdRef fd, const void* data, std::size_t size) noexcept {
  SigpipeHeldBack held;
  for (;;) {
    const ssize_t count = ::write(fd.number, data, size);
    if (count >= 0) {
      // A reader that goes while the write waits for room: the kernel tells of the part that fitted, and
      // raises SIGPIPE all the same.
      if (static_cast<std::size_t>(count) < size) held.take();
      return static_cast<std::size_t>(count);
    }
    const Error error = last_error();
    if (error.value() == EINTR) continue;
    if (error.value() == EPIPE) held.take();
    return error;
  }
}

Result<void> write_all(FdRef fd, std::string_view data) noexcept {
  while (!data.empty()) {
    const auto count = write_some(fd, data.data(), data.size());
    if (count) {
      data.remove_prefix(*count);
    } else if (count.error() == error_of(EAGAIN)) {
      // Whoever shares a terminal or pipe may have made it non-blocking for all who hold it.
      pollfd room{fd.number, POLLOUT, 0};
      ::poll(&room, 1, -1);
    } else {
      return count.error();
    }
  }
  return {};
}

Result<std::string> read_all(FdRef fd, std::size_t limit) {
  std::string all;
  std::array<char, 16384> buffer;
  for (;;) {
    const auto count = read_some(fd, buffer.data(), buffer.size());
    if (!count) return count.error();
    if (*count == 0) return all;
    if (*count > limit - all.size()) return error_of(EFBIG);
    all.append(buffer.data(), *count);
  }
}

void widen_pipe(FdRef fd) noexcept { static_cast<void>(::fcntl(fd.number, F_SETPIPE_SZ, 1 << 20)); }

Result<std::size_t> readable_bytes(FdRef fd) noexcept {
  int count = 0;
  if (::ioctl(fd.number, FIONREAD, &count) != 0) return last_error();
  return static_cast<std::size_t>(count);
}

}  // namespace caisson::os
