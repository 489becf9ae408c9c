// The facet: the one provider of a process, as consumers that know none of its names find it (S-80).
#pragma once

#include <memory>

#include "caisson/contract/sandbox.h"
#include "caisson/kit/settings.h"

namespace caisson::kit {

/// Installs `sandbox` and binds `policy` to it. A provider of the same name() replaces the one before; a
/// different one throws SandboxError (invalid_argument). Thread-safe, as are the others.
void register_sandbox(std::shared_ptr<Sandbox> sandbox, SandboxPolicy policy);
/// The installed provider, or SandboxUnavailableError naming the settings that would supply one.
std::shared_ptr<Sandbox> require_sandbox();
/// The bound policy, or SandboxUnavailableError.
SandboxPolicy sandbox_policy();
/// Empties the slot.
void unregister_sandbox() noexcept;

}  // namespace caisson::kit
