// The container provider as the conformance suite is to see it.
#pragma once

#include <memory>

#include "caisson/kit/clock.h"
#include "caisson/kit/conformance.h"

namespace caisson::cli {

/// Without `clock` on the system's time; with one the suite advances it.
kit::conformance::ConformanceProfile container_profile(std::shared_ptr<kit::ManualClock> clock = nullptr);

}  // namespace caisson::cli
