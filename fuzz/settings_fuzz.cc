// Fuzzes the operator's settings: whatever the values, settings that make sense come back or a bad_setting
// error. The input's lines are the values of the settings below, in turn; "-" leaves one unset.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "caisson/contract/errors.h"
#include "caisson/contract/text.h"
#include "caisson/kit/settings.h"

namespace {

constexpr std::array<std::string_view, 10> names = {
    "P_DEFAULT_TTL_SECONDS",  "P_REAP_INTERVAL_SECONDS",   "P_EXEC_DEFAULT_TIMEOUT_SECONDS",
    "P_MAX_TIMEOUT_SECONDS",  "P_MAX_LIFETIME_SECONDS",    "P_MAX_FILE_BYTES",
    "TAI_MCP_SANDBOX_EGRESS", "TAI_MCP_SANDBOX_ISOLATION", "TAI_MCP_SANDBOX_SCRUB_TRANSCRIPT",
    "TAI_MCP_SANDBOX_DURABLE"};

void require(bool holds) {
  if (!holds) std::abort();
}

void check(const caisson::kit::DispatchSettings& settings) {
  const auto is_duration = [](double seconds) { return std::isfinite(seconds) && seconds > 0; };
  require(settings.default_ttl_seconds >= 1 && settings.default_ttl_seconds <= caisson::max_ttl_seconds);
  require(is_duration(settings.reap_interval_seconds));
  require(is_duration(settings.exec_default_timeout_seconds));
  require(settings.exec_default_timeout_seconds <= settings.max_timeout_seconds);
  require(is_duration(settings.max_timeout_seconds));
  if (settings.max_lifetime_seconds) {
    require(static_cast<double>(settings.default_ttl_seconds) <= *settings.max_lifetime_seconds);
  }
  require(settings.max_file_bytes > 0);
}

template <class Read>
void expect_typed(const Read& read) {
  try {
    read();
  } catch (const caisson::SandboxError& error) {
    require(error.code() == caisson::ErrorCode::bad_setting);
    require(!error.field().empty() && caisson::is_utf8(error.what()));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::array<std::optional<std::string>, names.size()> values;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  for (auto& value : values) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    if (line != "-") value = line;
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
  }
  const caisson::kit::SettingSource source = [&](std::string_view name) -> std::optional<std::string> {
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (names[i] == name) return values[i];
    }
    return std::nullopt;
  };
  expect_typed([&] { check(caisson::kit::DispatchSettings::from(source, "P_")); });
  expect_typed([&] { static_cast<void>(caisson::kit::policy_from(source)); });
  return 0;
}
