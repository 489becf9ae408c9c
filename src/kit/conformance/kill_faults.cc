// Faults of how an interactive exec is ended.
#include <csignal>

#include "kit/conformance/shared_faults.h"

namespace caisson::kit::conformance {
namespace {

Awaitable<void> asks_politely(BenchPtr, HandlePtr handle) { co_await handle->signal(SIGTERM); }

Awaitable<void> kill_once(BenchPtr bench, HandlePtr handle) {
  if (bench->count++ > 0) throw SandboxError(ErrorCode::internal, "the exec is not running");
  co_await handle->kill();
}

Awaitable<void> signal_ignored(HandlePtr, int) { co_return; }

Awaitable<std::optional<SandboxStreamItem>> exit_kills_leftovers(BenchPtr, HandlePtr handle) {
  std::optional<SandboxStreamItem> item = co_await handle->output().next();
  if (item && std::holds_alternative<SandboxStreamExit>(*item)) co_await handle->kill();
  co_return item;
}

constexpr Fault table[] = {
    {"kill.ends_command", "kill sends SIGTERM", {.kill = asks_politely}},
    {"kill.is_idempotent", "kill may be called once", {.kill = kill_once}},
    {"kill.reaches_tree", "kill reaches the leader alone", {.kill = kills_leader_only}},
    {"kill.reaches_leftovers", "kill reaches the leader alone", {.kill = kills_leader_only}},
    {"kill.signals_leader", "signal does nothing", {.signal = signal_ignored}},
    {"kill.bad_signal", "any number is a signal", {.signal = signal_ignored}},
    {"kill.drop_kills", "a dropped exec runs on", {.dropped = drop_lets_run}},
    {"kill.drop_spares_leftovers",
     "leftovers are killed at their leader's exit",
     {.next = exit_kills_leftovers}},
};

}  // namespace

std::span<const Fault> kill_faults() { return table; }

}  // namespace caisson::kit::conformance
