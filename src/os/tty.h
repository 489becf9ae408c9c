// Pseudo-terminals.
#pragma once

#include <cstdint>

#include "os/fd.h"

namespace caisson::os {

struct PseudoTerminal {
  Fd master;
  Fd terminal;  ///< The command's side.
};
/// A new pty of that size, neither end close enough to become our controlling terminal (O_NOCTTY).
Result<PseudoTerminal> open_pty(std::uint16_t columns, std::uint16_t rows) noexcept;
/// The same of the devpts whose root `devpts` is, owned by the calling thread's file system ids.
Result<PseudoTerminal> open_pty(FdRef devpts, std::uint16_t columns, std::uint16_t rows) noexcept;
Result<void> set_tty_size(FdRef master, std::uint16_t columns, std::uint16_t rows) noexcept;

}  // namespace caisson::os
