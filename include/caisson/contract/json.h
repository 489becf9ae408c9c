// JSON of the contract's models, both ways (S-8): field names are the contract's, times RFC 3339 in UTC with
// Z.
#pragma once

#include <boost/json/value.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "caisson/contract/errors.h"
#include "caisson/contract/models.h"
#include "caisson/contract/policy.h"

namespace caisson {

/// Parses one JSON text (RFC 8259) into a model. Missing, mistyped and unknown fields throw SandboxError
/// (SandboxSpecRejectedError for a spec) with invalid_argument whose field() is the path ("labels.team"). So
/// do a repeated key, deep nesting, and 5.0 for an integer; null stands for unset where a field may be unset.
///
/// A spec is validated too (validate.h), so that what comes back meets S-2 to S-6. Its env goes from `text`,
/// which stays the caller's to wipe, into Secrets; whatever memory held it between is wiped, and no message
/// shows it.
template <class Model>
Model from_json(std::string_view text);
template <>
SandboxSessionSpec from_json<SandboxSessionSpec>(std::string_view text);
template <>
SandboxSessionInfo from_json<SandboxSessionInfo>(std::string_view text);
template <>
SandboxPolicy from_json<SandboxPolicy>(std::string_view text);

/// The models as JSON values. There is none for SandboxSessionSpec: its env cannot be serialised by accident.
boost::json::value to_json(const SandboxSessionInfo& info);
boost::json::value to_json(const SandboxPolicy& policy);
/// As `caisson run --json` prints it; `stdout_base64` and `stderr_base64` beside a stream that is not UTF-8.
/// Strings that are not UTF-8 are written as to_text() shows them, here and in the others.
boost::json::value to_json(const ExecResult& result);
/// stream, data, and `data_base64` beside data that is not UTF-8, as a chunk that ends within a character is
/// not.
boost::json::value to_json(const SandboxStreamChunk& chunk);
/// exit_code and, as in an ExecResult, ended, signal, core, lost_cause, limits_hit.
boost::json::value to_json(const SandboxStreamExit& exit);
/// A problem: code, title, detail, field (null when the error has none).
boost::json::value to_json(const SandboxError& error);

/// RFC 3339 in UTC with Z, microseconds ("2026-01-02T03:04:05.678901Z").
std::string format_time(UtcTime time);
/// Any RFC 3339 time, its offset taken off; nothing when `text` is none or is beyond UtcTime (1677 to 2262).
std::optional<UtcTime> parse_time(std::string_view text);

}  // namespace caisson
