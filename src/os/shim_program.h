// The shim program, ready to be run.
#pragma once

#include "os/fd.h"

namespace caisson::os {

/// The program that this library carries (shim_image.h) as an executable file of this process's own, made
/// once and open for good. Sealed: nobody who finds the descriptor may change what runs. Thread-safe.
Result<FdRef> shim_program() noexcept;

}  // namespace caisson::os
