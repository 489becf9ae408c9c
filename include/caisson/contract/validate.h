// The contract's own checks, before any policy, provider or resource is involved.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>

#include "caisson/contract/models.h"

namespace caisson {

/// The largest `memory_mb`: what a signed 64-bit count of bytes can hold.
inline constexpr std::int64_t max_memory_mb = std::numeric_limits<std::int64_t>::max() >> 20;

/// Throws SandboxSpecRejectedError (invalid_argument, naming the field) unless `spec` meets S-2 to S-6, its
/// `memory_mb` is at most max_memory_mb, and its image and labels are UTF-8, as records and JSON need them.
void validate(const SandboxSessionSpec& spec);
/// Throws SandboxError (invalid_argument, naming the field: "argv", "argv[2]", "cwd", "env.NAME",
/// "timeout_seconds") unless argv and options meet S-6, S-40 and S-46, argv[0] is not empty and cwd has no
/// NUL. `max_timeout_seconds` is the provider's (S-22).
void validate(const Argv& argv, const ExecOptions& options, double max_timeout_seconds);
/// Whether `key` is `^[A-Za-z0-9_-]{1,64}$`, the whole of it, ASCII.
bool is_workspace_key(std::string_view key) noexcept;
/// Throws SandboxError (invalid_argument, field "<field>.NAME") unless names and values are as S-6 says. The
/// message holds no value, nor what stands behind a "=" in a name, which may well be one.
void validate_env(const SecretEnv& env, std::string_view field);

}  // namespace caisson
