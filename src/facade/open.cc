// caisson::open: from a name and the operator's settings to a provider.
#include <utility>

#include "caisson/caisson.h"
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

}  // namespace

std::shared_ptr<kit::ManagedSandbox> facade::open_provider(boost::asio::any_io_executor executor,
                                                           std::string_view name, OpenOptions options) {
  if (name != "local") {
    throw SandboxUnavailableError("there is no sandbox provider called " + quote(name) +
                                  " in this build; it has: local");
  }
  const kit::SettingSource source = options.settings ? options.settings : kit::environment_settings();
  const SandboxPolicy policy = options.policy ? *options.policy : kit::policy_from(source);
  log_weakening(policy, options.log);
  local::LocalOptions local_options{std::move(executor), local::LocalSettings::from(source)};
  if (options.clock) local_options.clock = std::move(options.clock);
  local_options.log = std::move(options.log);
  local_options.tree_kill = options.tree_kill;
  auto sandbox = local::open(std::move(local_options));
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
