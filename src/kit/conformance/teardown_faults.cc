// Faults of how sessions end, and of what outlives them.
#include "kit/conformance/shared_faults.h"

namespace caisson::kit::conformance {
namespace {

Awaitable<void> destroy_once(BenchPtr bench, SessionPtr session) {
  if (bench->count++ > 0) throw SandboxSessionNotFoundError(session->id());
  co_await session->destroy();
}

Awaitable<ExecResult> end_is_exit_code(BenchPtr, SessionPtr session, Argv argv, ExecOptions options) {
  ExecResult result;
  const std::exception_ptr error =
      co_await failure_of(session->exec(std::move(argv), std::move(options)), &result);
  if (error) result.exit_code = result.ended.exit_code = 137;
  co_return result;
}

Awaitable<void> release_destroys(SessionPtr session) { co_await session->destroy(); }

constexpr Fault table[] = {
    {"reap.kills_processes",
     "processes outlive the reap",
     {.create = with_hidden_twin, .exec = exec_in_twin, .exec_start = start_in_twin}},
    {"destroy.removes_persistent_workspace",
     "destroy keeps a persistent workspace",
     {.destroy = destroy_releases}},
    {"destroy.is_idempotent", "destroy may be called once", {.destroy = destroy_once}},
    {"destroy.at_once", "concurrent destroys fail", {.destroy = destroy_once}},
    {"destroy.refuses_calls_after", "destroy does nothing", {.destroy = destroy_ignored}},
    {"destroy.running_exec_ends",
     "an exec of a destroyed session is exit code 137",
     {.exec = end_is_exit_code}},
    {"destroy.kills_processes",
     "processes outlive their session",
     {.create = with_hidden_twin, .exec = exec_in_twin, .exec_start = start_in_twin}},
    {"destroy.spares_shared_workspace", "destroy empties a shared workspace", {.destroy = destroy_empties}},
    {"release.keeps_persistent_workspace", "release destroys", {.release = release_destroys}},
    {"release.kills_processes",
     "processes outlive their session",
     {.create = with_hidden_twin, .exec = exec_in_twin, .exec_start = start_in_twin}},
    {"persistent.survives_provider", "persistent is made ephemeral", {.create = never_persistent}},
    {"provider.end_refuses_calls", "an exec without a provider is exit code 137", {.exec = end_is_exit_code}},
};

}  // namespace

std::span<const Fault> teardown_faults() { return table; }

}  // namespace caisson::kit::conformance
