// The error family of the contract: every failure of a sandbox is a SandboxError or a child of it.
#pragma once

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace caisson {

/// Which kind of failure; the same words are the JSON `code` and the problem type. Closed: a new kind is a
/// new enumerator.
enum class ErrorCode {
  invalid_argument,        ///< An argument breaks the contract; SandboxError::field() names it.
  policy_refused,          ///< The operator's policy forbids it.
  not_enforceable,         ///< The provider cannot honestly give what the spec asks.
  session_not_found,       ///< No live session has that id.
  session_destroyed,       ///< The session was destroyed or reaped, before or during the call.
  command_not_found,       ///< argv[0] is nowhere on the session's PATH.
  not_executable,          ///< argv[0] was found and may not be executed.
  bad_format,              ///< argv[0] was found and is no program the kernel can run.
  argument_list_too_long,  ///< argv and environment exceed what execve takes.
  cwd_missing,             ///< The working directory does not exist or is no directory.
  timeout,                 ///< The exec was killed at its deadline.
  output_limit,            ///< More output than the cap, and truncation was not allowed.
  stdin_closed,            ///< The exec takes no more standard input.
  output_busy,             ///< Two readers at once on one exec's output.
  path_escapes,            ///< The path leads out of the workspace.
  path_changed,            ///< The tree kept changing under the resolution of the path.
  not_a_regular_file,      ///< A directory, FIFO, socket or device where a file is wanted.
  file_missing,            ///< There is no such file.
  too_large,               ///< The file exceeds the cap of an in-memory transfer.
  workspace_conflict,      ///< The workspace cannot be used under that key now.
  root_unusable,           ///< The provider's root directory cannot be used.
  removal_failed,          ///< Something of the session could not be removed; it stays listed.
  unavailable,             ///< Something the call needs is not there (a provider, a kernel feature).
  bad_setting,             ///< An operator's setting makes no sense.
  internal,                ///< A system call failed in a way Caisson has no better word for.
};

/// The code's word, e.g. "command_not_found".
std::string_view to_string(ErrorCode code) noexcept;

/// Base of every sandbox failure. The message says what was asked, what stopped it and what to do; it never
/// holds the value of an environment variable.
class SandboxError : public std::runtime_error {
 public:
  SandboxError(ErrorCode code, const std::string& message, std::string field = {});
  ~SandboxError() override;

  ErrorCode code() const noexcept { return code_; }
  /// The path of the offending field ("ttl_seconds", "labels.team"), or empty.
  const std::string& field() const noexcept { return field_; }

 private:
  ErrorCode code_;
  std::string field_;
};

/// No sandbox provider is registered (facet) or the one asked for cannot be had.
class SandboxUnavailableError : public SandboxError {
 public:
  explicit SandboxUnavailableError(const std::string& message);
  ~SandboxUnavailableError() override;
};

/// No live session has the requested id.
class SandboxSessionNotFoundError : public SandboxError {
 public:
  explicit SandboxSessionNotFoundError(std::string session_id);
  ~SandboxSessionNotFoundError() override;
  const std::string& session_id() const noexcept { return session_id_; }

 private:
  std::string session_id_;
};

/// An exec exceeded its timeout and was killed. Carries the lengths of the partial output, never the content:
/// output may hold secrets.
class SandboxExecTimeoutError : public SandboxError {
 public:
  /// `gone`: whether every process of the exec's tree was seen gone when this was raised. `waited_for`: what
  /// kept it from starting at all, if something did; for the message.
  SandboxExecTimeoutError(std::chrono::duration<double> timeout, std::uint64_t stdout_len,
                          std::uint64_t stderr_len, bool gone = true, std::string_view waited_for = {});
  ~SandboxExecTimeoutError() override;
  double timeout_seconds() const noexcept { return timeout_.count(); }
  std::uint64_t stdout_len() const noexcept { return stdout_len_; }
  std::uint64_t stderr_len() const noexcept { return stderr_len_; }
  bool gone() const noexcept { return gone_; }

 private:
  std::chrono::duration<double> timeout_;
  std::uint64_t stdout_len_;
  std::uint64_t stderr_len_;
  bool gone_;
};

/// A spec cannot be honored: it breaks the contract (invalid_argument), the policy (policy_refused, message
/// "policy refused: ..."), or what the provider can enforce (not_enforceable, "provider cannot enforce:
/// ...").
class SandboxSpecRejectedError : public SandboxError {
 public:
  SandboxSpecRejectedError(ErrorCode code, const std::string& message, std::string field = {});
  ~SandboxSpecRejectedError() override;
};

/// An exec wrote more than its cap and truncation was not allowed. Carries both streams' totals in bytes.
class SandboxOutputLimitError : public SandboxError {
 public:
  SandboxOutputLimitError(std::uint64_t limit, std::uint64_t stdout_bytes, std::uint64_t stderr_bytes);
  ~SandboxOutputLimitError() override;
  std::uint64_t limit() const noexcept { return limit_; }
  std::uint64_t stdout_bytes() const noexcept { return stdout_bytes_; }
  std::uint64_t stderr_bytes() const noexcept { return stderr_bytes_; }

 private:
  std::uint64_t limit_;
  std::uint64_t stdout_bytes_;
  std::uint64_t stderr_bytes_;
};

}  // namespace caisson
