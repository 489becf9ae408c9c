// The contract's own checks.
#include "caisson/contract/validate.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "caisson/contract/text.h"
#include "contract/described.h"
#include "contract/quote.h"

namespace caisson {
namespace {

constexpr std::size_t longest_workspace_key = 64;

[[noreturn]] void refuse_spec(std::string field, const std::string& message) {
  throw SandboxSpecRejectedError(ErrorCode::invalid_argument, message, std::move(field));
}

[[noreturn]] void refuse_call(std::string field, const std::string& message) {
  throw SandboxError(ErrorCode::invalid_argument, message, std::move(field));
}

bool has_nul(std::string_view text) noexcept { return text.find('\0') != std::string_view::npos; }

/// What is wrong with the variables, and with which.
struct EnvComplaint {
  std::string field;
  std::string message;
};

std::optional<EnvComplaint> complaint_about(const SecretEnv& env, std::string_view field) {
  for (const auto& [name, value] : env) {
    if (name.empty()) {
      std::string message = std::string(field) + " has a variable with an empty name: give it a name";
      return EnvComplaint{std::string(field), std::move(message)};
    }
    const std::size_t bad = name.find_first_of(std::string_view("=\0", 2));
    // Behind the "=" of a "NAME=value" taken for a name stands a secret.
    const std::string shown = escape(std::string_view(name).substr(0, bad));
    std::string path = std::string(field) + "." + shown;
    if (bad != std::string::npos) {
      const bool equals = name[bad] == '=';
      std::string message = std::string(field) + " has a variable whose name, beginning \"" + shown +
                            "\", contains " +
                            (equals ? "\"=\": give name and value apart" : "a NUL byte: remove it");
      return EnvComplaint{std::move(path), std::move(message)};
    }
    if (value.has_nul()) {
      std::string message =
          path + " contains a NUL byte, which no environment can hold: encode it, or put it in a file";
      return EnvComplaint{std::move(path), std::move(message)};
    }
  }
  return std::nullopt;
}

template <class Enum>
void require_word(std::string field, Enum value) {
  if (!enum_word(value).empty()) return;
  const std::string message = field + " must be " + enum_choices<Enum>();
  refuse_spec(std::move(field), message);
}

void require_utf8(std::string field, std::string_view text) {
  if (is_utf8(text)) return;
  const std::string message = field + " must be UTF-8 text, not " + quote(text);
  refuse_spec(std::move(field), message);
}

void validate_caps(const SandboxSessionSpec& spec) {
  if (spec.cpu && !(std::isfinite(*spec.cpu) && *spec.cpu > 0)) {
    refuse_spec("cpu", "cpu must be a finite number of cores above 0, not " + plain_number(*spec.cpu) +
                           ": leave it unset for no cap");
  }
  if (spec.memory_mb && (*spec.memory_mb <= 0 || *spec.memory_mb > max_memory_mb)) {
    refuse_spec("memory_mb", "memory_mb must be a number of MiB from 1 to " + std::to_string(max_memory_mb) +
                                 ", not " + std::to_string(*spec.memory_mb) + ": leave it unset for no cap");
  }
}

void validate_labels(const Labels& labels) {
  for (const auto& [key, value] : labels) {
    if (!is_utf8(key)) refuse_spec("labels", "labels must have UTF-8 keys, not " + quote(key));
    require_utf8("labels." + escape(key), value);
  }
}

}  // namespace

bool is_workspace_key(std::string_view key) noexcept {
  const auto is_allowed = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  };
  return !key.empty() && key.size() <= longest_workspace_key &&
         std::all_of(key.begin(), key.end(), is_allowed);
}

void validate_env(const SecretEnv& env, std::string_view field) {
  if (auto complaint = complaint_about(env, field))
    refuse_call(std::move(complaint->field), complaint->message);
}

void validate(const SandboxSessionSpec& spec) {
  if (spec.image.empty()) {
    refuse_spec("image",
                "image is empty: name one, for example \"host\" (the local provider only records it)");
  }
  require_utf8("image", spec.image);
  if (!is_workspace_key(spec.workspace_key)) {
    refuse_spec("workspace_key", "workspace_key must be 1 to 64 of the characters A-Z a-z 0-9 _ -, not " +
                                     quote(spec.workspace_key));
  }
  require_word("durability", spec.durability);
  if (auto complaint = complaint_about(spec.env, "env"))
    refuse_spec(std::move(complaint->field), complaint->message);
  require_word("network", spec.network);
  if (spec.isolation) require_word("isolation", *spec.isolation);
  validate_caps(spec);
  if (spec.ttl_seconds < 1 || spec.ttl_seconds > max_ttl_seconds) {
    refuse_spec("ttl_seconds", "ttl_seconds must be a number of seconds from 1 to " +
                                   std::to_string(max_ttl_seconds) + " (ten years), not " +
                                   std::to_string(spec.ttl_seconds));
  }
  validate_labels(spec.labels);
}

void validate(const Argv& argv, const ExecOptions& options, double max_timeout_seconds) {
  const auto& words = argv.words();
  if (words.empty()) refuse_call("argv", "argv is empty: it needs at least the program to run");
  if (words.front().empty()) refuse_call("argv[0]", "argv[0] is empty: name the program to run");
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (!has_nul(words[i])) continue;
    const std::string field = "argv[" + std::to_string(i) + "]";
    refuse_call(
        field,
        field + " contains a NUL byte, which no argument can hold: pass such data on stdin or in a file");
  }
  const double timeout = options.timeout().count();
  if (!(std::isfinite(timeout) && timeout > 0)) {
    refuse_call("timeout_seconds",
                "timeout_seconds must be a finite number of seconds above 0, not " + plain_number(timeout));
  }
  if (timeout > max_timeout_seconds) {
    refuse_call("timeout_seconds", "timeout_seconds is " + plain_number(timeout) + ", more than the " +
                                       plain_number(max_timeout_seconds) +
                                       " that this sandbox allows: give less, or have the operator raise "
                                       "MAX_TIMEOUT_SECONDS");
  }
  if (has_nul(options.cwd()))
    refuse_call("cwd", "cwd contains a NUL byte, which no path can hold: remove it");
  validate_env(options.env(), "env");
}

}  // namespace caisson
