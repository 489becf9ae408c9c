// The chokepoint: the one place where a spec meets the operator's policy (S-12 to S-14).
#pragma once

#include "caisson/contract/models.h"
#include "caisson/contract/policy.h"
#include "caisson/kit/settings.h"

namespace caisson::kit {

/// The effective spec: checked against `policy` in the order of S-12, isolation concrete, reserved labels
/// added. Throws SandboxSpecRejectedError (policy_refused).
SandboxSessionSpec apply_policy(const SandboxPolicy& policy, SandboxSessionSpec spec);

/// Throws SandboxSpecRejectedError (invalid_argument) for a ttl beyond max_lifetime_seconds (S-22).
void check_lifetime(const DispatchSettings& dispatch, const SandboxSessionSpec& spec);

/// The labels that are the consumer's own (S-14).
Labels consumer_labels(const Labels& labels);

}  // namespace caisson::kit
