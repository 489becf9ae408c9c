// Typed reading of the operator's settings.
#include "caisson/kit/settings.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <system_error>

#include "caisson/contract/errors.h"
#include "contract/described.h"
#include "contract/quote.h"

namespace caisson::kit {
namespace {

constexpr double shortest_seconds = 0.001;
constexpr auto longest_seconds = static_cast<double>(max_ttl_seconds);
constexpr std::int64_t largest_file_cap = 1LL << 40;

[[noreturn]] void refuse(const std::string& name, const std::string& message) {
  throw SandboxError(ErrorCode::bad_setting, name + " " + message, name);
}

[[noreturn]] void refuse_value(const std::string& name, const std::string& wanted, const std::string& value) {
  refuse(name, "must be " + wanted + ", not " + quote(value) + ": correct it, or unset it for the default");
}

/// The whole of `text` as a number, or nothing.
template <class Number>
std::optional<Number> number_of(const std::string& text) {
  Number number{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  return number;
}

std::optional<double> seconds_or_unset(const SettingSource& source, const std::string& name) {
  const auto text = source(name);
  if (!text) return std::nullopt;
  const auto seconds = number_of<double>(*text);
  // Written so that a nan fails too.
  if (!seconds || !(*seconds >= shortest_seconds && *seconds <= longest_seconds)) {
    refuse_value(name, "a number of seconds from 0.001 to " + std::to_string(max_ttl_seconds), *text);
  }
  return seconds;
}

template <class Enum>
Enum word_setting(const SettingSource& source, const char* name, Enum fallback) {
  const auto text = source(name);
  if (!text) return fallback;
  if (const auto value = enum_of_word<Enum>(*text)) return *value;
  refuse_value(name, enum_choices<Enum>(), *text);
}

}  // namespace

SettingSource environment_settings() {
  return [](std::string_view name) -> std::optional<std::string> {
    const char* value = std::getenv(std::string(name).c_str());
    if (value == nullptr) return std::nullopt;
    return value;
  };
}

std::string string_setting(const SettingSource& source, const std::string& name, std::string fallback) {
  auto text = source(name);
  if (!text) return fallback;
  if (text->empty()) refuse(name, "is empty: give it a value, or unset it for the default");
  if (text->find('\0') != std::string::npos) refuse_value(name, "text without NUL bytes", *text);
  return *std::move(text);
}

double seconds_setting(const SettingSource& source, const std::string& name, double fallback) {
  return seconds_or_unset(source, name).value_or(fallback);
}

std::int64_t integer_setting(const SettingSource& source, const std::string& name, std::int64_t fallback,
                             std::int64_t least, std::int64_t most) {
  const auto text = source(name);
  if (!text) return fallback;
  const auto number = number_of<std::int64_t>(*text);
  if (number && *number >= least && *number <= most) return *number;
  refuse_value(name, "an integer from " + std::to_string(least) + " to " + std::to_string(most), *text);
}

bool bool_setting(const SettingSource& source, const std::string& name, bool fallback) {
  const auto text = source(name);
  if (!text) return fallback;
  std::string word = *text;
  // Not std::tolower, which depends on the host program's locale.
  for (char& c : word) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  if (word == "true" || word == "1" || word == "yes" || word == "on") return true;
  if (word == "false" || word == "0" || word == "no" || word == "off") return false;
  refuse_value(name, "true, 1, yes, on, false, 0, no or off", *text);
}

DispatchSettings DispatchSettings::from(const SettingSource& source, const std::string& prefix) {
  const std::string default_ttl = prefix + "DEFAULT_TTL_SECONDS";
  const std::string default_timeout = prefix + "EXEC_DEFAULT_TIMEOUT_SECONDS";
  const std::string max_timeout = prefix + "MAX_TIMEOUT_SECONDS";
  const std::string max_lifetime = prefix + "MAX_LIFETIME_SECONDS";

  DispatchSettings settings;
  settings.max_timeout_seconds = seconds_setting(source, max_timeout, settings.max_timeout_seconds);
  settings.max_lifetime_seconds = seconds_or_unset(source, max_lifetime);
  settings.reap_interval_seconds =
      seconds_setting(source, prefix + "REAP_INTERVAL_SECONDS", settings.reap_interval_seconds);
  settings.exec_default_timeout_seconds = seconds_setting(
      source, default_timeout, std::min(settings.exec_default_timeout_seconds, settings.max_timeout_seconds));
  if (settings.exec_default_timeout_seconds > settings.max_timeout_seconds) {
    refuse(default_timeout, "is " + plain_number(settings.exec_default_timeout_seconds) + ", more than " +
                                max_timeout + " (" + plain_number(settings.max_timeout_seconds) +
                                "): lower it, or raise that");
  }

  const double longest_ttl = settings.max_lifetime_seconds.value_or(longest_seconds);
  if (longest_ttl < 1) {
    refuse(max_lifetime,
           "is " + plain_number(longest_ttl) + ", less than the shortest ttl of 1 second: raise it");
  }
  const auto lowered = static_cast<std::int64_t>(std::floor(longest_ttl));
  settings.default_ttl_seconds = integer_setting(
      source, default_ttl, std::min(settings.default_ttl_seconds, lowered), 1, max_ttl_seconds);
  if (settings.default_ttl_seconds > lowered) {
    refuse(default_ttl, "is " + std::to_string(settings.default_ttl_seconds) + ", more than " + max_lifetime +
                            " (" + plain_number(longest_ttl) + "): lower it, or raise that");
  }

  const auto file_cap = static_cast<std::int64_t>(settings.max_file_bytes);
  settings.max_file_bytes = static_cast<std::uint64_t>(
      integer_setting(source, prefix + "MAX_FILE_BYTES", file_cap, 1, largest_file_cap));
  return settings;
}

SandboxPolicy policy_from(const SettingSource& source) {
  return {.egress = word_setting(source, egress_setting, SandboxNetwork::egress),
          .isolation = word_setting(source, isolation_setting, SandboxIsolation::container),
          .scrub_transcript = bool_setting(source, scrub_transcript_setting, false),
          .durable = bool_setting(source, durable_setting, true)};
}

}  // namespace caisson::kit
