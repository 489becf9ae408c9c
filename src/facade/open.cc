// caisson::open: from a name and the operator's settings to a provider.
#include <utility>

#include "caisson/caisson.h"
#include "caisson/providers/container.h"
#include "caisson/providers/local.h"
#include "contract/quote.h"
#include "facade/engine.h"
#include "facade/providers.h"
#include "os/self.h"

namespace caisson {
namespace {

// What lowers a tier is said when it takes effect (D-10).
void log_weakening(const SandboxPolicy& policy, const kit::Log& log) {
  if (!log || policy.isolation != SandboxIsolation::none) return;
  log(kit::LogLevel::warning,
      "the policy's isolation floor is none (TAI_MCP_SANDBOX_ISOLATION=none): sessions may run on this "
      "machine itself, "
      "with its files, network and secrets in reach");
}

// What caisson::open gives out. In the child of a fork the provider is kept for ever instead of ended, which
// would end the parent's sessions.
struct ForkAware {
  ForkAware(pid_t owner, std::shared_ptr<kit::ManagedSandbox> provider)
      : pid(owner), sandbox(std::move(provider)) {}
  ForkAware(const ForkAware&) = delete;
  ForkAware& operator=(const ForkAware&) = delete;
  ~ForkAware() {
    if (os::own_pid() != pid) blocking::Engine::abandon(std::move(sandbox));
  }
  pid_t pid;
  std::shared_ptr<kit::ManagedSandbox> sandbox;
};

// A provider's own options from what all have in common.
template <class Options, class Settings>
Options options_of(boost::asio::any_io_executor executor, Settings settings, OpenOptions& given) {
  Options options{std::move(executor), std::move(settings)};
  if (given.clock) options.clock = std::move(given.clock);
  options.log = std::move(given.log);
  return options;
}

}  // namespace

std::string_view facade::provider_of(SandboxIsolation isolation) {
  switch (isolation) {
    case SandboxIsolation::none:
      return "local";
    case SandboxIsolation::container:
      return "container";
    case SandboxIsolation::vm:
      break;
  }
  throw SandboxUnavailableError(
      "no provider for isolation " + std::string(to_string(isolation)) +
      " is built in yet; the strongest there is is container: --isolation container");
}

std::shared_ptr<kit::ManagedSandbox> facade::open_provider(boost::asio::any_io_executor executor,
                                                           std::string_view name, OpenOptions options) {
  if (name != "local" && name != "container") {
    throw SandboxUnavailableError("there is no sandbox provider called " + quote(name) +
                                  " in this build; it has: container, local");
  }
  const kit::SettingSource source = options.settings ? options.settings : kit::environment_settings();
  const SandboxPolicy policy = options.policy ? *options.policy : kit::policy_from(source);
  log_weakening(policy, options.log);
  std::shared_ptr<kit::ManagedSandbox> sandbox;
  if (name == "container") {
    sandbox = container::open(options_of<container::ContainerOptions>(
        std::move(executor), container::ContainerSettings::from(source), options));
  } else {
    auto local_options =
        options_of<local::LocalOptions>(std::move(executor), local::LocalSettings::from(source), options);
    local_options.tree_kill = options.tree_kill;
    sandbox = local::open(std::move(local_options));
  }
  sandbox->bind_policy(policy);
  return sandbox;
}

std::shared_ptr<Sandbox> open(boost::asio::any_io_executor executor, std::string_view name,
                              OpenOptions options) {
  auto provider = facade::open_provider(std::move(executor), name, std::move(options));
  auto owner = std::make_shared<ForkAware>(os::own_pid(), std::move(provider));
  Sandbox* const sandbox = owner->sandbox.get();
  return {std::move(owner), sandbox};
}

blocking::Sandbox blocking::open(std::string_view name, OpenOptions options) {
  kit::Log log = options.log;
  return Engine::open(
      [&name, &options](boost::asio::any_io_executor executor) {
        auto provider = facade::open_provider(std::move(executor), name, std::move(options));
        const std::chrono::duration<double> interval(provider->dispatch().reap_interval_seconds);
        auto clock = provider->clock();
        return Engine::Opened{std::move(provider), std::move(clock), interval};
      },
      std::move(log));
}

}  // namespace caisson
