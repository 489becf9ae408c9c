// Log: where a provider tells its operator what it does. Silent unless given.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace caisson::kit {

enum class LogLevel { info, warning, error };
std::string_view to_string(LogLevel level) noexcept;

/// Called from any thread, one call at a time not guaranteed; must not throw and not block. Never given an
/// environment value.
using Log = std::function<void(LogLevel level, const std::string& message)>;

}  // namespace caisson::kit
