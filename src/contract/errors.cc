// The error family's messages.
#include "caisson/contract/errors.h"

#include <utility>

#include "contract/described.h"
#include "contract/quote.h"

namespace caisson {
namespace {

std::string timeout_message(double timeout_seconds, std::uint64_t stdout_len, std::uint64_t stderr_len,
                            bool gone, std::string_view waited_for) {
  if (!waited_for.empty()) {
    return "exec waited out its timeout of " + plain_number(timeout_seconds) +
           " s and was never started: " + std::string(waited_for);
  }
  std::string text = "exec exceeded its timeout of " + plain_number(timeout_seconds) +
                     " s and was killed, after " + std::to_string(stdout_len) + " bytes of stdout and " +
                     std::to_string(stderr_len) + " bytes of stderr: give it a longer timeout, or less to do";
  if (!gone) text += "; some of its processes are not gone yet, destroy the session to end them for certain";
  return text;
}

std::string output_limit_message(std::uint64_t limit, std::uint64_t stdout_bytes,
                                 std::uint64_t stderr_bytes) {
  return "exec wrote more than the " + std::to_string(limit) + " bytes of a stream that are captured (" +
         std::to_string(stdout_bytes) + " bytes of stdout, " + std::to_string(stderr_bytes) +
         " bytes of stderr): raise the cap, allow truncation, or stream it with exec_start";
}

}  // namespace

std::string_view to_string(ErrorCode code) noexcept {
  const std::string_view word = enum_word(code);
  return word.empty() ? "internal" : word;
}

SandboxError::SandboxError(ErrorCode code, const std::string& message, std::string field)
    : std::runtime_error(message), code_(code), field_(std::move(field)) {}
SandboxError::~SandboxError() = default;

SandboxUnavailableError::SandboxUnavailableError(const std::string& message)
    : SandboxError(ErrorCode::unavailable, message) {}
SandboxUnavailableError::~SandboxUnavailableError() = default;

SandboxSessionNotFoundError::SandboxSessionNotFoundError(std::string session_id)
    : SandboxError(ErrorCode::session_not_found,
                   "no live session has the id " + quote(session_id) +
                       ": it was destroyed or reaped, or never was; list_sessions shows the live ones"),
      session_id_(std::move(session_id)) {}
SandboxSessionNotFoundError::~SandboxSessionNotFoundError() = default;

SandboxExecTimeoutError::SandboxExecTimeoutError(std::chrono::duration<double> timeout,
                                                 std::uint64_t stdout_len, std::uint64_t stderr_len,
                                                 bool gone, std::string_view waited_for)
    : SandboxError(ErrorCode::timeout,
                   timeout_message(timeout.count(), stdout_len, stderr_len, gone, waited_for)),
      timeout_(timeout),
      stdout_len_(stdout_len),
      stderr_len_(stderr_len),
      gone_(gone) {}
SandboxExecTimeoutError::~SandboxExecTimeoutError() = default;

SandboxSpecRejectedError::SandboxSpecRejectedError(ErrorCode code, const std::string& message,
                                                   std::string field)
    : SandboxError(code, message, std::move(field)) {}
SandboxSpecRejectedError::~SandboxSpecRejectedError() = default;

SandboxOutputLimitError::SandboxOutputLimitError(std::uint64_t limit, std::uint64_t stdout_bytes,
                                                 std::uint64_t stderr_bytes)
    : SandboxError(ErrorCode::output_limit, output_limit_message(limit, stdout_bytes, stderr_bytes)),
      limit_(limit),
      stdout_bytes_(stdout_bytes),
      stderr_bytes_(stderr_bytes) {}
SandboxOutputLimitError::~SandboxOutputLimitError() = default;

}  // namespace caisson
