// The neutral models of the contract: what a caller asks for and what it gets to see.
#pragma once

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "caisson/contract/secret.h"

namespace caisson {

/// Whether the workspace outlives its session. `unset` is what a default-constructed spec holds; it is
/// rejected.
enum class SandboxDurability { unset = -1, ephemeral, persistent };
/// How far a session's network reaches, tightest first.
enum class SandboxNetwork { none, internal, egress };
/// What stands between a session and the host, weakest first.
enum class SandboxIsolation { none, container, vm };

using Durability = SandboxDurability;
using Network = SandboxNetwork;
using Isolation = SandboxIsolation;

std::string_view to_string(SandboxDurability value) noexcept;
std::string_view to_string(SandboxNetwork value) noexcept;
std::string_view to_string(SandboxIsolation value) noexcept;
/// The enumerator with that name, or nothing.
std::optional<SandboxDurability> parse_durability(std::string_view text) noexcept;
std::optional<SandboxNetwork> parse_network(std::string_view text) noexcept;
std::optional<SandboxIsolation> parse_isolation(std::string_view text) noexcept;

/// A point in time as shown to people and in JSON: UTC.
using UtcTime = std::chrono::sys_time<std::chrono::nanoseconds>;
using Labels = std::map<std::string, std::string>;

/// The requested shape of one session (S-1). Required: image, workspace_key, durability, ttl_seconds. Moved,
/// never copied by accident, because of `env`; `clone()` is the copy on purpose.
struct SandboxSessionSpec {
  std::string image;                                        ///< Not empty.
  std::string workspace_key;                                ///< `^[A-Za-z0-9_-]{1,64}$`.
  SandboxDurability durability = SandboxDurability::unset;  ///< Required.
  SecretEnv env = {};                                       ///< Base environment of every exec.
  SandboxNetwork network = SandboxNetwork::none;
  std::optional<SandboxIsolation> isolation = std::nullopt;  ///< Unset inherits the policy's floor.
  std::optional<double> cpu = std::nullopt;                  ///< Cores; finite and > 0.
  std::optional<std::int64_t> memory_mb = std::nullopt;      ///< MiB; > 0.
  std::int64_t ttl_seconds = 0;  ///< Idle seconds before the session is reaped; 1 to ten years.
  Labels labels = {};            ///< Keys beginning with `tai42.sandbox` are reserved.

  SandboxSessionSpec clone() const;
};

/// The longest `ttl_seconds`: ten years of 365 days.
inline constexpr std::int64_t max_ttl_seconds = 10LL * 365 * 24 * 3600;

/// The observable state of a live session (S-7).
struct SandboxSessionInfo {
  std::string id;     ///< 32 lowercase hex digits.
  std::string image;  ///< As requested.
  std::string workspace_key;
  std::string workspace_path;  ///< Absolute, in the session's own view.
  SandboxDurability durability = SandboxDurability::unset;
  UtcTime created_at;
  UtcTime expires_at;
  Labels labels;  ///< Exactly the consumer's.

  bool operator==(const SandboxSessionInfo&) const = default;
};

/// How an exec ended (S-48).
enum class ExecEnd {
  exited,         ///< The leader exited by itself.
  signaled,       ///< A signal ended the leader.
  out_of_memory,  ///< The kernel killed the leader for memory, as this exec's own accounting proves.
  lost,           ///< The status cannot be known; ExecEnded::lost_cause says why.
};
std::string_view to_string(ExecEnd value) noexcept;

/// A limit that was run into while an exec ran.
enum class SandboxLimit { memory, pids, disk };
std::string_view to_string(SandboxLimit value) noexcept;

/// The outcome of an exec that ran, apart from errors, which mean that it could not be run or was cut short.
struct ExecEnded {
  ExecEnd how = ExecEnd::exited;
  int exit_code = 0;                         ///< The leader's own, or 128 + signal; 255 when lost.
  std::optional<int> signal = std::nullopt;  ///< The signal that ended the leader.
  bool core = false;                         ///< Whether it dumped core.
  std::string lost_cause = {};               ///< Why the status cannot be known, when lost.
  std::vector<SandboxLimit> limits_hit = {};

  bool operator==(const ExecEnded&) const = default;
};

/// The outcome of a completed `exec`. `out` and `err` are bytes (`stdout` and `stderr` in the contract and on
/// the wire, which are macros in C); text_view() of text.h replaces what is not UTF-8.
struct ExecResult {
  int exit_code = 0;
  std::string out;
  std::string err;
  // Beyond the contract:
  ExecEnded ended;                 ///< How it ended; `ended.exit_code == exit_code`.
  std::uint64_t stdout_bytes = 0;  ///< What was written, captured or not.
  std::uint64_t stderr_bytes = 0;
  bool truncated = false;  ///< Whether a cap cut `out` or `err` (only with allow_truncation).
};

enum class SandboxStream { out, err };
/// "stdout" or "stderr".
std::string_view to_string(SandboxStream value) noexcept;

/// One output frame of an interactive exec. Chunks of one stream are in order; frames keep no line borders.
struct SandboxStreamChunk {
  SandboxStream stream = SandboxStream::out;
  std::string data;  ///< Bytes, never empty.
};

/// The last item of an interactive exec's output.
struct SandboxStreamExit {
  int exit_code = 0;
  ExecEnded ended;  ///< Beyond the contract: how it ended.
};

using SandboxStreamItem = std::variant<SandboxStreamChunk, SandboxStreamExit>;

/// A command and its arguments. A class of its own because a braced list of strings inside a `co_await` does
/// not compile on GCC 12; `Argv argv{"python3", "-m", "runner"};` does everywhere.
class Argv {
 public:
  Argv(std::initializer_list<std::string_view> words);
  explicit Argv(std::vector<std::string> words) noexcept;
  const std::vector<std::string>& words() const noexcept { return words_; }

 private:
  std::vector<std::string> words_;
};

/// A terminal's size in character cells.
struct TtySize {
  std::uint16_t columns = 80;
  std::uint16_t rows = 24;
  bool operator==(const TtySize&) const = default;
};

/// Default cap of captured output, per stream, in bytes.
inline constexpr std::uint64_t default_output_cap = 64ULL << 20;

/// How to run a command. The timeout is required (S-46): finite, > 0, and at most the provider's
/// max_timeout_seconds. Setters return *this, to be chained: `ExecOptions(5s).cwd("src").env("LANG", "C")`.
class ExecOptions {
 public:
  explicit ExecOptions(std::chrono::duration<double> timeout) noexcept;

  /// Relative to the workspace; unset or empty is the workspace itself (S-42).
  ExecOptions& cwd(std::string path) &;
  ExecOptions&& cwd(std::string path) &&;
  /// One variable over the session's environment (S-41).
  ExecOptions& env(std::string name, Secret value) &;
  ExecOptions&& env(std::string name, Secret value) &&;
  /// All variables at once, replacing those set before.
  ExecOptions& env(SecretEnv variables) &;
  ExecOptions&& env(SecretEnv variables) &&;
  /// Standard input of `exec`; unset is an immediate end-of-file (S-43). `exec_start` takes none: it has
  /// write_stdin.
  ExecOptions& input(std::string bytes) &;
  ExecOptions&& input(std::string bytes) &&;
  /// Cap of captured output per stream, in bytes (S-50); only `exec` captures.
  ExecOptions& output_cap(std::uint64_t bytes) &;
  ExecOptions&& output_cap(std::uint64_t bytes) &&;
  /// Past the cap, return what was captured with `truncated` set, instead of raising SandboxOutputLimitError.
  ExecOptions& allow_truncation(bool allow) &;
  ExecOptions&& allow_truncation(bool allow) &&;
  /// Give the command a controlling terminal of that size (S-64); both streams then arrive as stdout.
  /// `exec_start` only.
  ExecOptions& tty(TtySize size) &;
  ExecOptions&& tty(TtySize size) &&;

  std::chrono::duration<double> timeout() const noexcept { return timeout_; }
  const std::string& cwd() const noexcept { return cwd_; }
  const SecretEnv& env() const noexcept { return env_; }
  const std::optional<std::string>& input() const noexcept { return input_; }
  std::uint64_t output_cap() const noexcept { return output_cap_; }
  [[nodiscard]] bool allow_truncation() const noexcept { return allow_truncation_; }
  const std::optional<TtySize>& tty() const noexcept { return tty_; }

  ExecOptions clone() const;

 private:
  std::chrono::duration<double> timeout_;
  std::string cwd_;
  SecretEnv env_;
  std::optional<std::string> input_;
  std::uint64_t output_cap_ = default_output_cap;
  bool allow_truncation_ = false;
  std::optional<TtySize> tty_;
};

}  // namespace caisson
