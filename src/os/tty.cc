// Pseudo-terminals by posix_openpt(3) and TIOCGPTPEER.
#include "os/tty.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>

namespace caisson::os {

namespace {

Result<PseudoTerminal> terminal_of(Fd opened, std::uint16_t columns, std::uint16_t rows) noexcept {
  auto master = spare_descriptor(std::move(opened));
  if (!master) return master.error();
  int locked = 0;
  if (::ioctl(master->number(), TIOCSPTLCK, &locked) != 0) return last_error();
  // By descriptor rather than by name: another devpts may be mounted on /dev/pts.
  const int peer = ::ioctl(master->number(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (peer < 0) return last_error();
  auto terminal = spare_descriptor(Fd::adopt(peer));
  if (!terminal) return terminal.error();
  const auto sized = set_tty_size(*master, columns, rows);
  if (!sized) return sized.error();
  return PseudoTerminal{std::move(*master), std::move(*terminal)};
}

}  // namespace

Result<PseudoTerminal> open_pty(std::uint16_t columns, std::uint16_t rows) noexcept {
  return terminal_of(Fd::adopt(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)), columns, rows);
}

Result<PseudoTerminal> open_pty(FdRef devpts, std::uint16_t columns, std::uint16_t rows) noexcept {
  return terminal_of(Fd::adopt(::openat(devpts.number, "ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC)), columns,
                     rows);
}

Result<void> set_tty_size(FdRef master, std::uint16_t columns, std::uint16_t rows) noexcept {
  const winsize size{rows, columns, 0, 0};
  if (::ioctl(master.number, TIOCSWINSZ, &size) != 0) return last_error();
  return {};
}

}  // namespace caisson::os
