// The reaper: a task that sweeps expired sessions, for as long as it runs (S-82).
#pragma once

#include <chrono>
#include <memory>

#include "caisson/contract/sandbox.h"
#include "caisson/kit/clock.h"
#include "caisson/kit/log.h"

namespace caisson::kit {

/// Sleeps `interval`, reaps, logs each id, and begins again; a sweep that fails is logged and the next one
/// comes. Runs until it is cancelled, then ends with operation_aborted.
Awaitable<void> run_reaper(std::shared_ptr<Sandbox> sandbox, std::shared_ptr<Clock> clock,
                           std::chrono::duration<double> interval, Log log);

}  // namespace caisson::kit
