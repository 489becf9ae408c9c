// Faults of what a provider must refuse to create.
#include "caisson/contract/validate.h"
#include "kit/conformance/shared_faults.h"

namespace caisson::kit::conformance {
namespace {

Awaitable<SessionPtr> key_repaired(BenchPtr bench, SandboxSessionSpec spec) {
  if (!is_workspace_key(spec.workspace_key)) spec.workspace_key = "repaired";
  return bench->sandbox().create_session(std::move(spec));
}

Awaitable<SessionPtr> image_defaulted(BenchPtr bench, SandboxSessionSpec spec) {
  if (spec.image.empty()) spec.image = "default";
  return bench->sandbox().create_session(std::move(spec));
}

void no_ceiling(SandboxPolicy& policy) { policy.egress = SandboxNetwork::egress; }
void no_floor(SandboxPolicy& policy) { policy.isolation = SandboxIsolation::none; }
void always_durable(SandboxPolicy& policy) { policy.durable = true; }

Awaitable<SessionPtr> reserved_labels_dropped(BenchPtr bench, SandboxSessionSpec spec) {
  std::erase_if(spec.labels, [](const auto& label) { return label.first.starts_with("tai42.sandbox"); });
  return bench->sandbox().create_session(std::move(spec));
}

/// A spec with less asked for, such as any provider can give.
SandboxSessionSpec lowered(SandboxSessionSpec spec) {
  spec.network = SandboxNetwork::egress;
  spec.isolation = SandboxIsolation::none;
  spec.cpu.reset();
  spec.memory_mb.reset();
  return spec;
}

Awaitable<SessionPtr> falls_back(BenchPtr bench, SandboxSessionSpec spec) {
  SessionPtr session;
  SandboxSessionSpec less = lowered(spec.clone());
  const std::exception_ptr error =
      co_await failure_of(bench->sandbox().create_session(std::move(spec)), &session);
  if (!error) co_return session;
  if (!is_code(error, ErrorCode::not_enforceable)) std::rethrow_exception(error);
  co_return co_await bench->sandbox().create_session(std::move(less));
}

Awaitable<SessionPtr> leaves_a_session(BenchPtr bench, SandboxSessionSpec spec) {
  SessionPtr session;
  SandboxSessionSpec stray = lowered(spec.clone());
  stray.labels.clear();
  stray.ttl_seconds = 3600;
  const std::exception_ptr error =
      co_await failure_of(bench->sandbox().create_session(std::move(spec)), &session);
  if (!error) co_return session;
  co_await bench->sandbox().create_session(std::move(stray));
  std::rethrow_exception(error);
}

Awaitable<SessionPtr> unbound_is_rejected(BenchPtr bench, SandboxSessionSpec spec) {
  try {
    co_return co_await bench->sandbox().create_session(std::move(spec));
  } catch (const std::logic_error&) {
    throw SandboxSpecRejectedError(ErrorCode::policy_refused, "policy refused: there is none");
  }
}

constexpr Fault table[] = {
    {"reject.workspace_key", "a bad key is repaired", {.create = key_repaired}},
    {"reject.broken_fields", "a missing image is made up", {.create = image_defaulted}},
    {"reject.policy_network_ceiling", "the ceiling is not looked at", {.policy = no_ceiling}},
    {"reject.policy_isolation_floor", "the floor is not looked at", {.policy = no_floor}},
    {"reject.policy_floor_inherited", "unset isolation is none", {.policy = no_floor}},
    {"reject.policy_durable", "durable is not looked at", {.policy = always_durable}},
    {"reject.policy_reserved_labels",
     "reserved labels are dropped in silence",
     {.create = reserved_labels_dropped}},
    {"reject.not_enforceable", "what cannot be enforced is lowered", {.create = falls_back}},
    {"reject.persistence_as_declared", "persistent is made ephemeral", {.create = never_persistent}},
    {"reject.before_provider", "the policy is not looked at", {.policy = always_durable}},
    {"reject.leaves_nothing", "a refused create leaves a session", {.create = leaves_a_session}},
    {"reject.unbound_policy", "a missing policy is a rejection", {.create = unbound_is_rejected}},
};

}  // namespace

std::span<const Fault> reject_faults() { return table; }

}  // namespace caisson::kit::conformance
