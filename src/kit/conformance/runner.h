// The runner: one check, on threads of its own, so that a provider that hangs costs that check alone.
#pragma once

#include <chrono>

#include "caisson/kit/conformance.h"
#include "kit/conformance/check.h"

namespace caisson::kit::conformance {

/// Blocking; see run() of the public header. `stopping` is how long each step of ending what was given up may
/// take, before all of it is left behind.
CheckResult run_check(const Check& check, const ConformanceProfile& profile,
                      std::chrono::duration<double> patience,
                      std::chrono::duration<double> stopping = std::chrono::seconds(5));

}  // namespace caisson::kit::conformance
