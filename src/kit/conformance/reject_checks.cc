// Checks of what a provider must refuse to create: broken specs, the operator's policy, what it cannot
// enforce.
#include <limits>

#include "kit/conformance/check.h"
#include "kit/conformance/shell.h"

namespace caisson::kit::conformance {
namespace {

constexpr std::string_view policy_prefix = "policy refused:";
constexpr std::string_view provider_prefix = "provider cannot enforce:";

/// A spec to be refused: what is wrong, and the field the error names.
struct Broken {
  std::string what;
  std::string field;
  void (*change)(SandboxSessionSpec& spec);
};

Awaitable<Refusal> rejected(Context context, std::string what, SandboxSessionSpec spec, ErrorCode code) {
  const Refusal refusal = co_await refused("create with " + what, context.create(std::move(spec)), code);
  expect(refusal.spec_rejected,
         "create with " + what + ": expected a SandboxSpecRejectedError, saw another SandboxError");
  co_return refusal;
}

Awaitable<void> all_rejected(Context context, std::vector<Broken> broken) {
  for (const Broken& each : broken) {
    SandboxSessionSpec spec = context.spec();
    each.change(spec);
    const Refusal refusal =
        co_await rejected(context, each.what, std::move(spec), ErrorCode::invalid_argument);
    expect_contains("the field named for " + each.what, refusal.field, each.field);
  }
  // The same without the change is accepted.
  co_await context.session();
}

Awaitable<void> bad_key(Context context) {
  std::vector<Broken> broken;
  broken.push_back({"an empty key", "workspace_key", [](SandboxSessionSpec& s) { s.workspace_key = ""; }});
  broken.push_back(
      {"a key with a newline", "workspace_key", [](SandboxSessionSpec& s) { s.workspace_key = "key\n"; }});
  broken.push_back(
      {"a key with a slash", "workspace_key", [](SandboxSessionSpec& s) { s.workspace_key = "../key"; }});
  broken.push_back({"a dot as key", "workspace_key", [](SandboxSessionSpec& s) { s.workspace_key = "."; }});
  broken.push_back({"a key outside ASCII", "workspace_key",
                    [](SandboxSessionSpec& s) { s.workspace_key = "k\xc3\xa9y"; }});
  broken.push_back({"a key of 65 letters", "workspace_key",
                    [](SandboxSessionSpec& s) { s.workspace_key = std::string(65, 'k'); }});
  co_await all_rejected(context, std::move(broken));
  co_await context.create(context.spec(std::string(64, 'k')));
}

Awaitable<void> bad_field(Context context) {
  std::vector<Broken> broken;
  broken.push_back({"no image", "image", [](SandboxSessionSpec& s) { s.image = ""; }});
  broken.push_back(
      {"no durability", "durability", [](SandboxSessionSpec& s) { s.durability = Durability::unset; }});
  broken.push_back({"ttl 0", "ttl_seconds", [](SandboxSessionSpec& s) { s.ttl_seconds = 0; }});
  broken.push_back({"a ttl over ten years", "ttl_seconds",
                    [](SandboxSessionSpec& s) { s.ttl_seconds = max_ttl_seconds + 1; }});
  broken.push_back({"cpu 0", "cpu", [](SandboxSessionSpec& s) { s.cpu = 0; }});
  broken.push_back(
      {"cpu NaN", "cpu", [](SandboxSessionSpec& s) { s.cpu = std::numeric_limits<double>::quiet_NaN(); }});
  broken.push_back({"memory_mb 0", "memory_mb", [](SandboxSessionSpec& s) { s.memory_mb = 0; }});
  broken.push_back({"an env name with =", "env", [](SandboxSessionSpec& s) { s.env.emplace("A=B", "x"); }});
  co_await all_rejected(context, std::move(broken));
}

Awaitable<void> network_ceiling(Context context) {
  SandboxPolicy policy = permissive_policy();
  policy.egress = SandboxNetwork::internal;
  context.sandbox().bind_policy(policy);
  SandboxSessionSpec spec = context.spec();
  spec.network = SandboxNetwork::egress;
  const Refusal refusal = co_await rejected(context, "egress under the ceiling internal", std::move(spec),
                                            ErrorCode::policy_refused);
  expect(refusal.message.starts_with(policy_prefix),
         "expected a message that begins \"policy refused:\", saw " + show(refusal.message));
  context.sandbox().bind_policy(permissive_policy());
  co_await context.session();
}

Awaitable<void> isolation_floor(Context context) {
  SandboxPolicy policy = permissive_policy();
  policy.isolation = SandboxIsolation::container;
  context.sandbox().bind_policy(policy);
  SandboxSessionSpec spec = context.spec();
  spec.isolation = SandboxIsolation::none;
  const Refusal refusal = co_await rejected(context, "isolation none under the floor container",
                                            std::move(spec), ErrorCode::policy_refused);
  expect(refusal.message.starts_with(policy_prefix),
         "expected a message that begins \"policy refused:\", saw " + show(refusal.message));
  context.sandbox().bind_policy(permissive_policy());
  co_await context.session();
}

Awaitable<void> floor_inherited(Context context) {
  if (context.profile().isolation == SandboxIsolation::vm)
    throw NotRun("no floor is above what the profile gives");
  SandboxPolicy policy = permissive_policy();
  policy.isolation = SandboxIsolation::vm;
  context.sandbox().bind_policy(policy);
  SandboxSessionSpec spec = context.spec();
  spec.isolation.reset();
  const Refusal refusal = co_await rejected(context, "isolation unset under the floor vm", std::move(spec),
                                            ErrorCode::not_enforceable);
  expect(refusal.message.starts_with(provider_prefix),
         "expected a message that begins \"provider cannot enforce:\", saw " + show(refusal.message));
  policy.isolation = SandboxIsolation::none;
  context.sandbox().bind_policy(policy);
  SandboxSessionSpec acceptable = context.spec();
  acceptable.isolation.reset();
  co_await context.create(std::move(acceptable));
}

Awaitable<void> durable_off(Context context) {
  SandboxPolicy policy = permissive_policy();
  policy.durable = false;
  context.sandbox().bind_policy(policy);
  SandboxSessionSpec spec = context.spec();
  spec.durability = SandboxDurability::persistent;
  const Refusal refusal = co_await rejected(context, "persistent while durable is off", std::move(spec),
                                            ErrorCode::policy_refused);
  expect(refusal.message.starts_with(policy_prefix),
         "expected a message that begins \"policy refused:\", saw " + show(refusal.message));
  co_await context.session();
}

Awaitable<void> reserved_labels(Context context) {
  SandboxSessionSpec spec = context.spec();
  spec.labels.emplace("team", "blue");
  spec.labels.emplace("tai42.sandboxed", "x");
  spec.labels.emplace("tai42.sandbox.workspace", "x");
  const Refusal refusal =
      co_await rejected(context, "reserved labels", std::move(spec), ErrorCode::policy_refused);
  const std::size_t first = refusal.message.find("tai42.sandbox.workspace");
  const std::size_t second = refusal.message.find("tai42.sandboxed");
  expect(first != std::string::npos && second != std::string::npos && first < second,
         "expected a message with the offending keys, sorted, saw " + show(refusal.message));
  SandboxSessionSpec near = context.spec();
  near.labels.emplace("Tai42.sandbox", "x");
  near.labels.emplace("my.tai42.sandbox", "x");
  co_await context.create(std::move(near));
}

const std::vector<Rejection>& rejections(const Context& context) {
  if (context.profile().rejections.empty())
    throw NotRun("the profile names nothing that the provider cannot enforce");
  return context.profile().rejections;
}

Awaitable<void> not_enforceable(Context context) {
  for (const Rejection& rejection : rejections(context)) {
    SandboxSessionSpec spec = context.spec();
    rejection.change(spec);
    const Refusal refusal =
        co_await rejected(context, rejection.name, std::move(spec), ErrorCode::not_enforceable);
    expect(refusal.message.starts_with(provider_prefix),
           "expected a message that begins \"provider cannot enforce:\", saw " + show(refusal.message));
  }
  co_await context.session();
}

Awaitable<void> no_persistence(Context context) {
  SandboxSessionSpec spec = context.spec();
  spec.durability = SandboxDurability::persistent;
  if (!context.profile().persistent) {
    co_await rejected(context, "persistent", std::move(spec), ErrorCode::not_enforceable);
    co_return;
  }
  auto session = co_await context.create(std::move(spec));
  const SandboxSessionInfo info = co_await session->info();
  expect_equal("durability", to_string(info.durability), to_string(SandboxDurability::persistent));
}

Awaitable<void> policy_first(Context context) {
  SandboxPolicy policy = permissive_policy();
  policy.durable = false;
  const std::vector<Rejection> all = rejections(context);
  context.sandbox().bind_policy(policy);
  for (const Rejection& rejection : all) {
    SandboxSessionSpec spec = context.spec();
    rejection.change(spec);
    spec.durability = SandboxDurability::persistent;
    co_await rejected(context, rejection.name + " and persistent while durable is off", std::move(spec),
                      ErrorCode::policy_refused);
  }
}

Awaitable<void> leaves_nothing(Context context) {
  SandboxSessionSpec reserved = context.spec("rejected");
  reserved.labels.emplace("tai42.sandbox", "x");
  co_await rejected(context, "a reserved label", std::move(reserved), ErrorCode::policy_refused);
  SandboxSessionSpec broken = context.spec("rejected");
  broken.ttl_seconds = 0;
  co_await rejected(context, "ttl 0", std::move(broken), ErrorCode::invalid_argument);
  for (const Rejection& rejection : context.profile().rejections) {
    SandboxSessionSpec spec = context.spec("rejected");
    rejection.change(spec);
    co_await rejected(context, rejection.name, std::move(spec), ErrorCode::not_enforceable);
  }
  const std::vector<SandboxSessionInfo> listed = co_await context.sandbox().list_sessions();
  expect_equal("sessions listed after refused creates", listed.size(), std::size_t{0});
}

Awaitable<Caught> create_unbound(Sandbox* sandbox, SandboxSessionSpec spec) {
  co_return co_await caught(sandbox->create_session(std::move(spec)));
}

Awaitable<void> no_policy(Context context) {
  std::shared_ptr<Sandbox> sandbox = co_await context.open_unbound();
  const Caught seen = co_await create_unbound(sandbox.get(), context.spec());
  co_await context.drop(std::move(sandbox));
  expect(seen.error != nullptr, "create with no policy bound: expected std::logic_error, saw success");
  try {
    std::rethrow_exception(seen.error);
  } catch (const std::logic_error&) {
    co_return;
  } catch (...) {
    throw Failure("create with no policy bound: expected std::logic_error, saw " + describe(seen.error));
  }
}

constexpr Check table[] = {
    {"reject.workspace_key", "S-2", "a key is ^[A-Za-z0-9_-]{1,64}$, the whole of it", bad_key},
    {"reject.broken_fields", "S-3 S-4 S-5 S-6", "a broken spec is refused, naming the field", bad_field},
    {"reject.policy_network_ceiling", "S-12", "a network looser than the ceiling is refused",
     network_ceiling},
    {"reject.policy_isolation_floor", "S-12", "an isolation below the floor is refused", isolation_floor},
    {"reject.policy_floor_inherited", "S-12 S-14 S-16", "unset isolation is the floor, never less",
     floor_inherited},
    {"reject.policy_durable", "S-12", "persistent is refused while durable is off", durable_off},
    {"reject.policy_reserved_labels", "S-12 S-13", "reserved labels are refused, listed sorted",
     reserved_labels},
    {"reject.not_enforceable", "S-15", "what the provider cannot enforce is refused", not_enforceable},
    {"reject.persistence_as_declared", "S-15", "persistent is given or refused, never lowered",
     no_persistence},
    {"reject.before_provider", "S-12", "the policy speaks before the provider", policy_first},
    {"reject.leaves_nothing", "S-27", "a failed create leaves nothing behind", leaves_nothing},
    {"reject.unbound_policy", "S-11", "creating with no policy bound is a programming error", no_policy},
};

}  // namespace

std::span<const Check> reject_checks() { return table; }

}  // namespace caisson::kit::conformance
