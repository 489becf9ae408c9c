// The handle of an interactive exec, over its pump.
#pragma once

#include <memory>

#include "caisson/contract/sandbox.h"
#include "kit/exec.h"

namespace caisson::kit {

/// Takes over an exec that runs; dropping the handle abandons it (S-65).
std::unique_ptr<SandboxExecHandle> make_exec_handle(std::shared_ptr<Exec> exec);

}  // namespace caisson::kit
