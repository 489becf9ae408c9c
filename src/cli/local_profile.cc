// The local provider's conformance profile.
#include "cli/local_profile.h"

#include "caisson/providers/local.h"

namespace caisson::cli {
namespace {

namespace suite = kit::conformance;

constexpr std::chrono::hours max_timeout(5);
constexpr std::chrono::hours max_lifetime(4);
constexpr std::uint64_t max_file_bytes = 4 << 20;

SandboxSessionSpec local_spec() {
  SandboxSessionSpec spec;
  spec.image = "host";
  spec.isolation = SandboxIsolation::none;
  spec.network = SandboxNetwork::egress;
  return spec;
}

}  // namespace

suite::ConformanceProfile local_profile(kit::TreeKill tree_kill, std::shared_ptr<kit::ManualClock> clock) {
  suite::ConformanceProfile profile;
  profile.name = "local";
  profile.open = [tree_kill, clock](const suite::OpenContext& context) -> std::shared_ptr<Sandbox> {
    local::LocalOptions options;
    options.executor = context.executor;
    options.settings.root = context.root;
    options.settings.dispatch.max_timeout_seconds = std::chrono::duration<double>(max_timeout).count();
    options.settings.dispatch.max_lifetime_seconds = std::chrono::duration<double>(max_lifetime).count();
    options.settings.dispatch.max_file_bytes = max_file_bytes;
    options.tree_kill = tree_kill;
    if (clock) options.clock = clock;
    return local::open(std::move(options));
  };
  profile.spec = local_spec;
  profile.rejections = {
      {"isolation container", [](SandboxSessionSpec& spec) { spec.isolation = SandboxIsolation::container; }},
      {"isolation vm", [](SandboxSessionSpec& spec) { spec.isolation = SandboxIsolation::vm; }},
      {"network none", [](SandboxSessionSpec& spec) { spec.network = SandboxNetwork::none; }},
      {"network internal", [](SandboxSessionSpec& spec) { spec.network = SandboxNetwork::internal; }},
      {"cpu", [](SandboxSessionSpec& spec) { spec.cpu = 1; }},
      {"memory_mb", [](SandboxSessionSpec& spec) { spec.memory_mb = 64; }},
  };
  profile.max_timeout = max_timeout;
  profile.max_lifetime = max_lifetime;
  profile.max_file_bytes = max_file_bytes;
  if (clock) {
    profile.advance = [clock](std::chrono::nanoseconds by) { clock->advance(by); };
    profile.step_wall_clock = [clock](std::chrono::nanoseconds by) { clock->step_utc(by); };
  }
  return profile;
}

}  // namespace caisson::cli
