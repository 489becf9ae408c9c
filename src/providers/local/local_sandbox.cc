// The local provider.
#include <map>
#include <mutex>

#include "caisson/providers/local.h"
#include "kit/workspace_lock.h"
#include "os/cgroup.h"
#include "os/identity.h"
#include "os/shim.h"
#include "providers/local/layout.h"
#include "providers/local/marker.h"
#include "providers/local/recovery.h"
#include "providers/local/session_on_disk.h"

namespace caisson::local {
namespace {

// What the provider's calls work on; theirs too, for a call may outlast a provider whose event loop stood
// still.
struct State {
  std::shared_ptr<const Layout> layout;
  std::shared_ptr<kit::Host> host;
  std::string base_path;
  os::ProcessIdentity owner;
  kit::Log log;

  std::mutex mutex;
  std::map<std::string, std::shared_ptr<SessionOnDisk>> sessions;

  std::shared_ptr<SessionOnDisk> find(const std::string& id) {
    const std::lock_guard lock(mutex);
    const auto at = sessions.find(id);
    return at == sessions.end() ? nullptr : at->second;
  }
  void remember(const std::string& id, std::shared_ptr<SessionOnDisk> session) {
    const std::lock_guard lock(mutex);
    sessions[id] = std::move(session);
  }
  void forget(const std::string& id) {
    const std::lock_guard lock(mutex);
    sessions.erase(id);
  }
};

// Blocking calls as a worker takes them.
struct MakeJob {
  std::shared_ptr<kit::SessionBox> operator()() const {
    auto on_disk =
        std::make_shared<SessionOnDisk>(state->layout, *record, state->owner, state->host->cgroup_path());
    try {
      auto box =
          state->host->make_box({on_disk->workspace_path(), on_disk->temporary_path(), state->base_path});
      state->remember(record->id, on_disk);
      return box;
    } catch (...) {
      on_disk->abandon();
      throw;
    }
  }
  std::shared_ptr<State> state;
  const kit::SessionRecord* record;
};
struct AbandonJob {
  void operator()() const { on_disk->abandon(); }
  std::shared_ptr<SessionOnDisk> on_disk;
};
struct RemoveJob {
  void operator()() const { on_disk->remove(remove_workspace); }
  std::shared_ptr<SessionOnDisk> on_disk;
  bool remove_workspace;
};
struct RemoveWorkspaceJob {
  void operator()() const { kit::WorkspaceLock::remove_when_unused(state->layout->store(), *key); }
  std::shared_ptr<State> state;
  const std::string* key;
};
struct RecoverJob {
  std::vector<std::string> operator()() const { return recover(*state->layout, state->log); }
  std::shared_ptr<State> state;
};

Awaitable<std::vector<std::string>> recover_root(std::shared_ptr<State> state) {
  RecoverJob job{state};
  co_return co_await state->host->workers().run(std::move(job));
}

Awaitable<std::shared_ptr<kit::SessionBox>> make_session(std::shared_ptr<State> state,
                                                         kit::SessionRecord record) {
  MakeJob make{state, &record};
  co_return co_await state->host->workers().run(std::move(make));
}

Awaitable<void> end_session(std::shared_ptr<State> state, kit::SessionRecord record, kit::Disposal disposal) {
  const std::string id = record.id;
  auto on_disk = state->find(id);
  if (!on_disk) {
    // Released already, and its workspace is wanted gone after all.
    const bool persistent = record.spec.durability == SandboxDurability::persistent;
    if (!persistent || disposal != kit::Disposal::remove_workspace) co_return;
    RemoveWorkspaceJob remove{state, &record.spec.workspace_key};
    co_await state->host->workers().run(std::move(remove));
    co_return;
  }
  if (disposal == kit::Disposal::undo) {
    AbandonJob abandon{on_disk};
    co_await state->host->workers().run(std::move(abandon));
  } else {
    RemoveJob remove{on_disk, disposal == kit::Disposal::remove_workspace};
    co_await state->host->workers().run(std::move(remove));
  }
  state->forget(id);
}

class LocalSandbox final : public kit::ManagedSandbox {
 public:
  LocalSandbox(kit::ManagedOptions options, std::shared_ptr<State> state)
      : ManagedSandbox(std::move(options)), state_(std::move(state)) {}
  ~LocalSandbox() override { close(); }

  std::string_view name() const noexcept override { return "local"; }
  Awaitable<std::vector<std::string>> recover_orphans() override { return recover_root(state_); }

 protected:
  void check_enforceable(const SandboxSessionSpec& spec) const override {
    if (spec.isolation != SandboxIsolation::none) {
      reject("isolation '" + std::string(to_string(*spec.isolation)) +
             "': the local provider runs commands on the host itself; ask for 'none', or use a container "
             "provider");
    }
    if (spec.network != SandboxNetwork::egress) {
      reject("network '" + std::string(to_string(spec.network)) +
             "': the local provider's commands have the host's network; ask for 'egress', or use a container "
             "provider");
    }
    if (spec.cpu) reject("cpu: the local provider caps no processor time; leave it unset");
    if (spec.memory_mb) reject("memory_mb: the local provider caps no memory; leave it unset");
  }

  Awaitable<std::shared_ptr<kit::SessionBox>> create_resources(const kit::SessionRecord& record) override {
    return make_session(state_, record.clone());
  }
  Awaitable<void> destroy_resources(const kit::SessionRecord& record, std::shared_ptr<kit::SessionBox>,
                                    kit::Disposal disposal) override {
    return end_session(state_, record.clone(), disposal);
  }

 private:
  std::shared_ptr<State> state_;
};

}  // namespace

std::shared_ptr<kit::ManagedSandbox> open(LocalOptions options) {
  auto state = std::make_shared<State>();
  // First, for it says when the kernel cannot do what the rest needs.
  kit::HostOptions host_options;
  host_options.tree_kill = options.tree_kill;
  host_options.log = options.log;
  state->host = kit::Host::open(std::move(host_options));
  state->layout = std::make_shared<const Layout>(Layout::open(options.settings.root));
  state->base_path = options.settings.base_path;
  state->owner = os::own_identity();
  state->log = options.log;
  recover(*state->layout, state->log);
  kit::ManagedOptions managed;
  managed.executor = options.executor;
  managed.dispatch = options.settings.dispatch;
  managed.clock = options.clock;
  managed.log = options.log;
  return std::make_shared<LocalSandbox>(std::move(managed), std::move(state));
}

TreeKillReport probe_tree_kill() {
  const auto place = os::find_cgroup_place();
  if (!place) {
    const auto works = os::probe_shim();
    if (works) return {kit::TreeKill::shim, place.error()};
    throw SandboxError(ErrorCode::unavailable,
                       place.error() + "; and no shim can be run: " + works.error().message());
  }
  return {kit::TreeKill::cgroup, place->directory + " (" + place->how + ")"};
}

}  // namespace caisson::local
