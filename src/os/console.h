// The caller's own terminal and standard streams.
#pragma once

#include <termios.h>

#include <cstdint>

#include "os/fd.h"

namespace caisson::os {

inline constexpr FdRef standard_input{0};
inline constexpr FdRef standard_output{1};
inline constexpr FdRef standard_error{2};

bool is_terminal(FdRef fd) noexcept;
/// A FIFO or a socket: what another program at its far end feeds.
bool is_pipe(FdRef fd) noexcept;

struct TerminalSize {
  std::uint16_t columns;
  std::uint16_t rows;
};
/// TIOCGWINSZ; ENOTTY where there is no terminal. A terminal that does not know its size says 0 by 0.
Result<TerminalSize> terminal_size(FdRef fd) noexcept;

/// Blocks until `fd` can be read or is at its end (true), or `stop` can be read (false). Without O_NONBLOCK,
/// which would change the descriptor for every process that shares it. A descriptor that cannot be polled (a
/// regular file) can always be read.
Result<bool> wait_readable(FdRef fd, FdRef stop) noexcept;

/// A terminal in raw mode (cfmakeraw(3)), put back when this is destroyed.
class RawTerminal {
 public:
  /// ENOTTY where `fd` is no terminal. `fd` must stay open as long as this lives.
  static Result<RawTerminal> enter(FdRef fd) noexcept;
  RawTerminal(RawTerminal&& other) noexcept;
  RawTerminal& operator=(RawTerminal&&) = delete;
  ~RawTerminal() { restore(); }

  /// Puts back what was found; once.
  void restore() noexcept;
  /// Raw mode again, after a stop and a continuation (SIGCONT) in which a shell set its own.
  void reapply() noexcept;

 private:
  RawTerminal(FdRef fd, const termios& found) noexcept : fd_(fd), found_(found) {}
  FdRef fd_;
  termios found_;
};

}  // namespace caisson::os
