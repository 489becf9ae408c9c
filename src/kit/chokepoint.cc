// The policy checks of every session create.
#include "kit/chokepoint.h"

#include "caisson/contract/errors.h"
#include "contract/quote.h"

namespace caisson::kit {
namespace {

constexpr std::string_view reserved_prefix = "tai42.sandbox";

[[noreturn]] void refuse(const std::string& what, std::string field) {
  throw SandboxSpecRejectedError(ErrorCode::policy_refused, "policy refused: " + what, std::move(field));
}

}  // namespace

SandboxSessionSpec apply_policy(const SandboxPolicy& policy, SandboxSessionSpec spec) {
  if (network_openness(spec.network) > network_openness(policy.egress)) {
    refuse("network " + quote(to_string(spec.network)) + " is looser than the operator's ceiling " +
               quote(to_string(policy.egress)) +
               "; ask for a tighter one, or the operator sets TAI_MCP_SANDBOX_EGRESS=" +
               std::string(to_string(spec.network)),
           "network");
  }
  if (!spec.isolation) spec.isolation = policy.isolation;
  if (isolation_strength(*spec.isolation) < isolation_strength(policy.isolation)) {
    refuse("isolation " + quote(to_string(*spec.isolation)) + " is weaker than the operator's floor " +
               quote(to_string(policy.isolation)) +
               "; ask for a stronger one, or the operator sets TAI_MCP_SANDBOX_ISOLATION=" +
               std::string(to_string(*spec.isolation)),
           "isolation");
  }
  if (spec.durability == SandboxDurability::persistent && !policy.durable) {
    refuse(
        "durability 'persistent' is switched off; ask for 'ephemeral', or the operator sets "
        "TAI_MCP_SANDBOX_DURABLE=true",
        "durability");
  }
  std::string offending;
  for (const auto& [key, value] : spec.labels) {  // a map: sorted
    if (!key.starts_with(reserved_prefix)) continue;
    offending += (offending.empty() ? "" : ", ") + escape(key);
  }
  if (!offending.empty()) {
    refuse("label keys beginning with 'tai42.sandbox' are reserved: " + offending +
               "; rename them (no setting changes this)",
           "labels");
  }
  spec.labels["tai42.sandbox"] = "1";
  spec.labels["tai42.sandbox.workspace"] = spec.workspace_key;
  spec.labels["tai42.sandbox.durability"] = to_string(spec.durability);
  return spec;
}

void check_lifetime(const DispatchSettings& dispatch, const SandboxSessionSpec& spec) {
  if (!dispatch.max_lifetime_seconds ||
      static_cast<double>(spec.ttl_seconds) <= *dispatch.max_lifetime_seconds)
    return;
  throw SandboxSpecRejectedError(
      ErrorCode::invalid_argument,
      "ttl_seconds " + std::to_string(spec.ttl_seconds) + " is longer than a session may live here, " +
          plain_number(*dispatch.max_lifetime_seconds) +
          " s; ask for less, or the operator raises the provider's MAX_LIFETIME_SECONDS",
      "ttl_seconds");
}

Labels consumer_labels(const Labels& labels) {
  Labels own;
  for (const auto& [key, value] : labels) {
    if (!key.starts_with(reserved_prefix)) own.emplace(key, value);
  }
  return own;
}

}  // namespace caisson::kit
