// The caller's own terminal and standard streams.
#include "os/console.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

namespace caisson::os {

bool is_terminal(FdRef fd) noexcept { return ::isatty(fd.number) == 1; }

bool is_pipe(FdRef fd) noexcept {
  struct stat status{};
  return ::fstat(fd.number, &status) == 0 && (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode));
}

Result<TerminalSize> terminal_size(FdRef fd) noexcept {
  winsize size{};
  if (::ioctl(fd.number, TIOCGWINSZ, &size) != 0) return last_error();
  return TerminalSize{size.ws_col, size.ws_row};
}

Result<bool> wait_readable(FdRef fd, FdRef stop) noexcept {
  pollfd waits[2] = {{stop.number, POLLIN, 0}, {fd.number, POLLIN, 0}};
  while (::poll(waits, 2, -1) < 0) {
    if (errno != EINTR) return {boost::system::in_place_error, last_error()};
  }
  return waits[0].revents == 0;
}

namespace {

Result<void> make_raw(FdRef fd, termios mode) noexcept {
  ::cfmakeraw(&mode);
  while (::tcsetattr(fd.number, TCSADRAIN, &mode) != 0) {
    if (errno != EINTR) return last_error();
  }
  return {};
}

}  // namespace

Result<RawTerminal> RawTerminal::enter(FdRef fd) noexcept {
  termios found{};
  if (::tcgetattr(fd.number, &found) != 0) return last_error();
  if (auto raw = make_raw(fd, found); !raw) return raw.error();
  return RawTerminal(fd, found);
}

RawTerminal::RawTerminal(RawTerminal&& other) noexcept
    : fd_(std::exchange(other.fd_, FdRef{})), found_(other.found_) {}

void RawTerminal::restore() noexcept {
  const FdRef fd = std::exchange(fd_, FdRef{});
  if (fd.number < 0) return;
  // TCSANOW: a terminal whose output nobody takes would hold TCSADRAIN for ever.
  while (::tcsetattr(fd.number, TCSANOW, &found_) != 0 && errno == EINTR) {
  }
}

void RawTerminal::reapply() noexcept {
  if (fd_.number >= 0) (void)make_raw(fd_, found_);
}

}  // namespace caisson::os
