// The facet's slot: the one singleton of the project.
#include "caisson/kit/facet.h"

#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "caisson/contract/errors.h"

namespace caisson::kit {
namespace {

struct Installed {
  std::shared_ptr<Sandbox> sandbox;
  SandboxPolicy policy;
};

struct Slot {
  std::mutex mutex;
  std::optional<Installed> installed;
};

/// Never destroyed: static destructors of the host program may still ask for the provider.
Slot& slot() {
  static Slot* const instance = new Slot;
  return *instance;
}

[[noreturn]] void refuse_empty() {
  throw SandboxUnavailableError(
      std::string("no sandbox provider is registered in this process: open one (the local provider reads "
                  "SANDBOX_LOCAL_ROOT and needs ") +
      isolation_setting + "=none) and register it; its policy comes from " + egress_setting + ", " +
      isolation_setting + ", " + scrub_transcript_setting + " and " + durable_setting);
}

Installed require_installed() {
  Slot& place = slot();
  const std::lock_guard lock(place.mutex);
  if (!place.installed) refuse_empty();
  return *place.installed;
}

}  // namespace

void register_sandbox(std::shared_ptr<Sandbox> sandbox, SandboxPolicy policy) {
  if (!sandbox) {
    throw SandboxError(ErrorCode::invalid_argument, "register_sandbox was given no provider: open one first",
                       "sandbox");
  }
  // Released after the lock: the last reference to a provider ends its sessions, which takes a while.
  std::optional<Installed> replaced;
  Slot& place = slot();
  const std::lock_guard lock(place.mutex);
  if (place.installed && place.installed->sandbox->name() != sandbox->name()) {
    throw SandboxError(
        ErrorCode::invalid_argument,
        "the provider \"" + std::string(place.installed->sandbox->name()) +
            "\" is registered already, and a process has one: unregister it before registering \"" +
            std::string(sandbox->name()) + "\"",
        "sandbox");
  }
  sandbox->bind_policy(policy);
  replaced = std::exchange(place.installed, Installed{std::move(sandbox), policy});
}

std::shared_ptr<Sandbox> require_sandbox() { return require_installed().sandbox; }

SandboxPolicy sandbox_policy() { return require_installed().policy; }

void unregister_sandbox() noexcept {
  std::optional<Installed> removed;
  Slot& place = slot();
  const std::lock_guard lock(place.mutex);
  removed.swap(place.installed);
}

}  // namespace caisson::kit
