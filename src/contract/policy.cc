// The ranks of networks and isolation tiers: the order of their enumerators.
#include "caisson/contract/policy.h"

namespace caisson {

static_assert(static_cast<int>(SandboxNetwork::none) == 0 &&
              static_cast<int>(SandboxNetwork::internal) == 1 &&
              static_cast<int>(SandboxNetwork::egress) == 2);
static_assert(static_cast<int>(SandboxIsolation::none) == 0 &&
              static_cast<int>(SandboxIsolation::container) == 1 &&
              static_cast<int>(SandboxIsolation::vm) == 2);

int network_openness(SandboxNetwork network) noexcept { return static_cast<int>(network); }
int isolation_strength(SandboxIsolation isolation) noexcept { return static_cast<int>(isolation); }

}  // namespace caisson
