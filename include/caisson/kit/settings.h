// Settings that every provider shares, and the policy's (S-31, S-81).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "caisson/contract/policy.h"

namespace caisson::kit {

/// How a setting is looked up: its value, or nothing. The process's environment unless given.
using SettingSource = std::function<std::optional<std::string>(std::string_view name)>;
SettingSource environment_settings();

/// Typed reading of one setting; a value that makes no sense throws SandboxError (bad_setting) naming the
/// setting, which is also its field(), and what it takes. An empty value is set, and makes no sense: unset a
/// setting for its default.
std::string string_setting(const SettingSource& source, const std::string& name, std::string fallback);
/// A decimal number of seconds from 0.001 to ten years (max_ttl_seconds).
double seconds_setting(const SettingSource& source, const std::string& name, double fallback);
std::int64_t integer_setting(const SettingSource& source, const std::string& name, std::int64_t fallback,
                             std::int64_t least, std::int64_t most);
/// true, false, 1, 0, yes, no, on, off, in any case.
bool bool_setting(const SettingSource& source, const std::string& name, bool fallback);

/// The knobs of S-31 and S-22, each under a provider's own prefix and the member's name in capitals
/// ("SANDBOX_LOCAL_" + "DEFAULT_TTL_SECONDS").
struct DispatchSettings {
  std::int64_t default_ttl_seconds = 3600;
  double reap_interval_seconds = 300;
  double exec_default_timeout_seconds = 300;
  double max_timeout_seconds = 86400;
  std::optional<double> max_lifetime_seconds = std::nullopt;
  std::uint64_t max_file_bytes = 64ULL << 20;  ///< Cap of in-memory file transfers (S-72).

  /// A default over its own maximum makes no sense when it was set; one that was not set is lowered to that
  /// maximum.
  static DispatchSettings from(const SettingSource& source, const std::string& prefix);
};

/// The settings that policy_from reads, as messages name them.
inline constexpr const char* egress_setting = "TAI_MCP_SANDBOX_EGRESS";
inline constexpr const char* isolation_setting = "TAI_MCP_SANDBOX_ISOLATION";
inline constexpr const char* scrub_transcript_setting = "TAI_MCP_SANDBOX_SCRUB_TRANSCRIPT";
inline constexpr const char* durable_setting = "TAI_MCP_SANDBOX_DURABLE";

/// The policy of TAI_MCP_SANDBOX_EGRESS (egress), _ISOLATION (container), _SCRUB_TRANSCRIPT (false), _DURABLE
/// (true).
SandboxPolicy policy_from(const SettingSource& source);

}  // namespace caisson::kit
