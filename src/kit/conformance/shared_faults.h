// Hooks that faults of several themes use.
#pragma once

#include "kit/conformance/fault.h"

namespace caisson::kit::conformance {

/// Each session gets a hidden one on the same workspace, which runs its commands and which nobody ends.
Awaitable<SessionPtr> with_hidden_twin(BenchPtr bench, SandboxSessionSpec spec);
Awaitable<ExecResult> exec_in_twin(BenchPtr bench, SessionPtr session, Argv argv, ExecOptions options);
Awaitable<HandlePtr> start_in_twin(BenchPtr bench, SessionPtr session, Argv argv, ExecOptions options);

Awaitable<void> destroy_releases(BenchPtr bench, SessionPtr session);
/// Empties the workspace first, whoever else uses it.
Awaitable<void> destroy_empties(BenchPtr bench, SessionPtr session);
Awaitable<SessionPtr> never_persistent(BenchPtr bench, SandboxSessionSpec spec);
/// Where a workspace is to be removed the session gets another one.
Awaitable<SessionPtr> conflict_is_scratch(BenchPtr bench, SandboxSessionSpec spec);
Awaitable<void> destroy_ignored(BenchPtr bench, SessionPtr session);
Awaitable<void> release_ignored(SessionPtr session);
Awaitable<std::vector<std::string>> reaps_all(BenchPtr bench);
Awaitable<void> touch_ignored(SessionPtr session);
/// The suite's long ttl, from the session's creation on and never again.
void deadline_stays(BenchPtr bench, SandboxSessionInfo& info);

/// What a shell in between would make of a command that cannot be started.
template <int code>
Awaitable<ExecResult> error_is_exit_code(BenchPtr, SessionPtr session, Argv argv, ExecOptions options) {
  ExecResult result;
  const std::exception_ptr error =
      co_await failure_of(session->exec(std::move(argv), std::move(options)), &result);
  if (error) result.exit_code = result.ended.exit_code = code;
  co_return result;
}

Awaitable<void> kills_leader_only(BenchPtr bench, HandlePtr handle);
void drop_lets_run(BenchPtr bench, HandlePtr handle);
/// An exec that tells of its deadline and forgets to kill.
Awaitable<ExecResult> raises_and_lets_run(BenchPtr bench, SessionPtr session, Argv argv, ExecOptions options);
Awaitable<HandlePtr> deadline_ignored(BenchPtr bench, SessionPtr session, Argv argv, ExecOptions options);

Awaitable<std::string> any_failure_is_empty(SessionPtr session, std::string path);
/// put_file by a shell of the session, which overwrites in place.
Awaitable<void> put_in_place(SessionPtr session, std::string path, std::string data, FileMode mode);

}  // namespace caisson::kit::conformance
