// The operator's policy and its ranks.
#pragma once

#include "caisson/contract/models.h"

namespace caisson {

/// The resolved policy that every session create is checked against (S-10). Nothing is defaulted here:
/// defaults are the operator's settings' (kit/settings.h).
struct SandboxPolicy {
  SandboxNetwork egress;       ///< The ceiling: a session's network is at or tighter than this.
  SandboxIsolation isolation;  ///< The floor: a session runs at or stronger than this.
  bool scrub_transcript;       ///< Carried for the consumer; gates nothing here.
  bool durable;                ///< Whether persistent sessions are permitted.

  bool operator==(const SandboxPolicy&) const = default;
};

/// none 0 < internal 1 < egress 2.
int network_openness(SandboxNetwork network) noexcept;
/// none 0 < container 1 < vm 2.
int isolation_strength(SandboxIsolation isolation) noexcept;

}  // namespace caisson
