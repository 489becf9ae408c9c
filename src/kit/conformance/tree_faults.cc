// Faults of killing trees that make it hard, and of what a handle leaves.
#include <csignal>

#include "kit/conformance/shared_faults.h"

namespace caisson::kit::conformance {
namespace {

Awaitable<void> asks_with_sigterm(BenchPtr, HandlePtr handle) { co_await handle->signal(SIGTERM); }

Awaitable<void> signal_kills_all(HandlePtr handle, int number) {
  co_await handle->signal(number);
  // The leader is to die of the signal first.
  for (int times = 0; times < 4; ++times) co_await doze();
  co_await handle->kill();
}

/// Only one may kill at a time.
Awaitable<void> kill_is_exclusive(BenchPtr bench, HandlePtr handle) {
  if (bench->count++ > 0) throw SandboxError(ErrorCode::internal, "the exec is being killed already");
  co_await handle->kill();
}

constexpr Fault table[] = {
    {"kill.ends_fork_chain", "kill reaches the leader alone", {.kill = kills_leader_only}},
    {"kill.reaches_new_session", "kill reaches the leader alone", {.kill = kills_leader_only}},
    {"kill.ends_stopped", "kill sends SIGTERM", {.kill = asks_with_sigterm}},
    {"kill.wakes_reader", "two kills at once fail", {.kill = kill_is_exclusive}},
    {"kill.signal_spares_descendants", "a signal ends the whole tree", {.signal = signal_kills_all}},
    {"timeout.kills_fork_chain", "nothing is killed at the timeout", {.exec = raises_and_lets_run}},
    {"timeout.kills_interactive_tree",
     "an interactive exec has no deadline",
     {.exec_start = deadline_ignored}},
    {"kill.drop_leaks_nothing", "a dropped exec stays", {.dropped = drop_lets_run}},
};

}  // namespace

std::span<const Fault> tree_faults() { return table; }

}  // namespace caisson::kit::conformance
