// The container provider's conformance profile.
#include "cli/container_profile.h"

#include "caisson/providers/container.h"

namespace caisson::cli {
namespace {

namespace suite = kit::conformance;

constexpr std::chrono::hours max_timeout(5);
constexpr std::chrono::hours max_lifetime(4);
constexpr std::uint64_t max_file_bytes = 4 << 20;

SandboxSessionSpec container_spec() {
  SandboxSessionSpec spec;
  spec.image = "host";
  spec.isolation = SandboxIsolation::container;
  spec.network = SandboxNetwork::none;
  return spec;
}

}  // namespace

suite::ConformanceProfile container_profile(std::shared_ptr<kit::ManualClock> clock) {
  suite::ConformanceProfile profile;
  profile.name = "container";
  profile.open = [clock](const suite::OpenContext& context) -> std::shared_ptr<Sandbox> {
    container::ContainerOptions options;
    options.executor = context.executor;
    options.settings = container::ContainerSettings::from(kit::environment_settings());
    options.settings.root = context.root + "/root";
    options.settings.runtime_directory = context.root + "/run";
    // The suite's own directory is bounded by nothing either.
    options.settings.unbounded_disk = true;
    options.settings.dispatch.max_timeout_seconds = std::chrono::duration<double>(max_timeout).count();
    options.settings.dispatch.max_lifetime_seconds = std::chrono::duration<double>(max_lifetime).count();
    options.settings.dispatch.max_file_bytes = max_file_bytes;
    if (clock) options.clock = clock;
    return container::open(std::move(options));
  };
  profile.spec = container_spec;
  profile.rejections = {
      {"isolation vm", [](SandboxSessionSpec& spec) { spec.isolation = SandboxIsolation::vm; }},
      {"network internal", [](SandboxSessionSpec& spec) { spec.network = SandboxNetwork::internal; }},
      {"network egress", [](SandboxSessionSpec& spec) { spec.network = SandboxNetwork::egress; }},
      {"image", [](SandboxSessionSpec& spec) { spec.image = "docker.io/library/no-such"; }},
  };
  profile.isolation = SandboxIsolation::container;
  profile.own_root = true;
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
