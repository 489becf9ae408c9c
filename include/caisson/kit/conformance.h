// The conformance suite: what any provider must do, as a library without a test framework.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "caisson/contract/sandbox.h"

namespace caisson::kit::conformance {

/// What the suite gives a provider to open with: a policy that permits everything the suite asks for, and an
/// empty directory of its own, removed afterwards.
struct OpenContext {
  boost::asio::any_io_executor executor;  ///< Of a loop that another thread runs until the provider is gone.
  std::string root;
  SandboxPolicy policy;
};

/// A spec that the provider must refuse, and why.
struct Rejection {
  std::string name;  ///< E.g. "network none".
  std::function<void(SandboxSessionSpec& spec)>
      change;  ///< Turns an acceptable spec into one that it cannot enforce.
};

/// How a provider describes itself to the suite. Its sessions' commands find sh(1) and the coreutils, or
/// busybox, on their PATH.
struct ConformanceProfile {
  std::string name;
  /// A fresh provider. Called at least once a check, off the event loop; the policy is bound by the suite
  /// afterwards.
  std::function<std::shared_ptr<Sandbox>(const OpenContext&)> open;
  /// An acceptable spec; the suite sets key, durability, ttl, env and labels itself.
  std::function<SandboxSessionSpec()> spec;
  std::vector<Rejection> rejections = {};
  /// Moves the provider's clock, from any thread. The suite then also makes it run at the real pace. Without
  /// it the suite uses short ttls and waits.
  std::function<void(std::chrono::nanoseconds)> advance = {};
  /// Steps the provider's wall clock alone, either way.
  std::function<void(std::chrono::nanoseconds)> step_wall_clock = {};
  /// What starts a program that calls serve() with this profile and the given root: the same provider in
  /// another process, which the suite starts, kills and waits for. It inherits this process's environment.
  std::function<std::vector<std::string>(const std::string& root)> peer = {};
  /// What the provider is opened with, where it has such limits: the longest timeout of an exec, the longest
  /// life of a session (over 2 h, and under the longest timeout, so that an exec can be asked to outlive it),
  /// and the cap of an in-memory file transfer.
  std::optional<std::chrono::seconds> max_timeout = std::nullopt;
  std::optional<std::chrono::seconds> max_lifetime = std::nullopt;
  std::optional<std::uint64_t> max_file_bytes = std::nullopt;
  /// The tier that it gives; a floor above it must be refused.
  SandboxIsolation isolation = SandboxIsolation::none;
  /// Whether it has persistent workspaces. Without, the checks that need one are not run.
  bool persistent = true;
  /// Whether a session has a root file system of its own: a path out of the workspace is then looked up
  /// there, and may be a miss where it is otherwise an escape.
  bool own_root = false;
};

enum class Outcome { passed, failed, not_run };
std::string_view to_string(Outcome outcome) noexcept;

struct CheckResult {
  std::string name;   ///< E.g. "exec.exit_code".
  std::string group;  ///< E.g. "core".
  std::string rules;  ///< The semantics it holds, e.g. "S-48".
  Outcome outcome = Outcome::not_run;
  std::string detail;  ///< What was expected and what was seen, when it failed; why, when it was not run.
  std::chrono::nanoseconds took{};
};

struct CheckInfo {
  std::string_view name;
  std::string_view group;
  std::string_view rules;
  std::string_view title;
};

/// The groups of checks: "core" is what callers meet first; "hardening" is races, hostile content, limits and
/// other processes.
std::vector<std::string_view> groups();

/// Every check, in the order they run.
std::vector<CheckInfo> checks();

inline constexpr std::chrono::seconds default_patience{30};

/// Runs the checks of `group` (empty: of every group) whose names begin with `prefix`, one after the other on
/// an event loop of its own, and calls `report` after each. Blocking; not to be called from an event loop.
///
/// A check that hangs is cancelled and failed after `patience`, a third of which it gives to any one command
/// that should be quick. Should it, or the provider's end, then still not return, its thread and its
/// directory are left behind, the detail says so, and the run goes on.
///
/// It sets the variable CAISSON_CONFORMANCE_CANARY in this process's environment, to see that no session
/// inherits it.
std::vector<CheckResult> run(const ConformanceProfile& profile, std::string_view prefix = {},
                             const std::function<void(const CheckResult&)>& report = {},
                             std::chrono::seconds patience = default_patience, std::string_view group = {});

/// What the main of a profile's `peer` calls: opens the provider on `root` and does what the suite asks on
/// standard input, a JSON object a line, answering each with one on standard output, until the end of the
/// input. Blocking; the program's exit code.
int serve(const ConformanceProfile& profile, const std::string& root);

/// A provider that wraps another and breaks one rule on purpose: the proof that a check can fail. `fault` is
/// the name of a check, which then fails; empty breaks nothing. invalid_argument for a name that is none.
std::shared_ptr<Sandbox> faulty_provider(std::shared_ptr<Sandbox> inner, std::string_view fault);

}  // namespace caisson::kit::conformance
