// The container provider.
#include <map>
#include <mutex>
#include <utility>

#include "caisson/providers/container.h"
#include "contract/quote.h"
#include "os/identity.h"
#include "providers/container/box_pool.h"
#include "providers/container/container_box.h"
#include "providers/container/container_core.h"
#include "providers/container/recovery.h"
#include "providers/container/session_state.h"
#include "providers/container/storage.h"
#include "providers/container/volumes.h"

namespace caisson::container {
namespace {

constexpr std::chrono::milliseconds end_patience{2000};
constexpr std::size_t hostname_size = 12;

// A session of this process.
struct Held {
  std::shared_ptr<SessionOnDisk> on_disk;
  std::shared_ptr<BoxProcess> process;  // None before its box is there.
};

// What the provider's calls work on; theirs too, for a call may outlast a provider whose event loop stood
// still.
struct State {
  std::shared_ptr<const Storage> storage;
  std::shared_ptr<ContainerCore> core;
  os::ProcessIdentity owner;

  std::mutex mutex;
  std::map<std::string, Held> sessions;

  Held find(const std::string& id) {
    const std::lock_guard lock(mutex);
    const auto at = sessions.find(id);
    return at == sessions.end() ? Held() : at->second;
  }
  void remember(const std::string& id, Held held) {
    const std::lock_guard lock(mutex);
    sessions[id] = std::move(held);
  }
  void forget(const std::string& id) {
    const std::lock_guard lock(mutex);
    sessions.erase(id);
  }
};

// Blocking calls as a worker takes them.

// Puts a session on disk, and says what box it is to have.
struct PrepareSession {
  BoxRequest operator()() const {
    BoxRequest request;
    request.cgroup_name = cgroup_name(state->owner, record->id);
    SessionCgroups cgroups;
    if (const BoxCgroups* const all = state->core->cgroups()) {
      BoxCgroupPaths paths = all->paths(request.cgroup_name);
      cgroups = {std::move(paths.unified), std::move(paths.v1)};
    }
    *on_disk = std::make_shared<SessionOnDisk>(state->storage, *record, state->owner, std::move(cgroups));
    request.image = record->spec.image;
    request.shape.hostname = record->id.substr(0, hostname_size);
    request.shape.slot = (*on_disk)->slot();
    request.shape.volume = (*on_disk)->volume_path();
    request.cpu = record->spec.cpu;
    if (record->spec.memory_mb) request.memory = static_cast<std::uint64_t>(*record->spec.memory_mb) << 20U;
    return request;
  }
  std::shared_ptr<State> state;
  const kit::SessionRecord* record;
  std::shared_ptr<SessionOnDisk>* on_disk;
};
struct AbandonJob {
  void operator()() const { on_disk->abandon(); }
  std::shared_ptr<SessionOnDisk> on_disk;
};
// The ids and the workspace are another's only when no process of the box is left.
struct RemoveJob {
  void operator()() const {
    if (held.process) held.process->remove(end_patience);
    if (undo) {
      held.on_disk->abandon();
    } else {
      held.on_disk->remove(remove_workspace);
    }
  }
  Held held;
  bool undo;
  bool remove_workspace;
};
struct PassOnJob {
  void operator()() const { on_disk->pass_on(*record); }
  std::shared_ptr<SessionOnDisk> on_disk;
  const kit::SessionRecord* record;
};
struct RemoveVolumeJob {
  void operator()() const { Volume::remove_when_unused(*state->storage, *key); }
  std::shared_ptr<State> state;
  const std::string* key;
};
struct RecoverJob {
  std::vector<std::string> operator()() const { return recover(*state->storage, state->core->log()); }
  std::shared_ptr<State> state;
};

Awaitable<std::vector<std::string>> recover_state(std::shared_ptr<State> state) {
  RecoverJob job{state};
  co_return co_await state->core->sessions().run(std::move(job));
}

// Takes back what a session has on disk when the coroutine that makes it is not run to its end.
struct Unfinished {
  ~Unfinished() {
    if (on_disk) on_disk->abandon();
  }
  std::shared_ptr<SessionOnDisk> on_disk;
};

Awaitable<std::shared_ptr<ContainerBox>> make_session(std::shared_ptr<State> state, kit::SessionRecord record,
                                                      boost::asio::any_io_executor executor) {
  Held held;
  Unfinished unfinished;
  std::exception_ptr failure;
  try {
    PrepareBox prepare = PrepareSession{state, &record, &unfinished.on_disk};
    auto box = co_await make_box(state->core, std::move(prepare), std::move(executor));
    held.on_disk = std::exchange(unfinished.on_disk, nullptr);
    held.process = box->process();
    state->remember(record.id, std::move(held));
    co_return box;
  } catch (...) {
    failure = std::current_exception();
  }
  // Not cancelled with what it cleans up after.
  co_await boost::asio::this_coro::reset_cancellation_state(boost::asio::disable_cancellation());
  if (unfinished.on_disk) {
    AbandonJob abandon{std::exchange(unfinished.on_disk, nullptr)};
    co_await state->core->sessions().run(std::move(abandon));
  }
  std::rethrow_exception(failure);
}

Awaitable<void> end_session(std::shared_ptr<State> state, kit::SessionRecord record, kit::Disposal disposal) {
  const std::string id = record.id;
  const Held held = state->find(id);
  if (!held.on_disk) {
    // Released already, and its workspace is wanted gone after all.
    const bool persistent = record.spec.durability == SandboxDurability::persistent;
    if (!persistent || disposal != kit::Disposal::remove_workspace) co_return;
    RemoveVolumeJob remove{state, &record.spec.workspace_key};
    co_await state->core->sessions().run(std::move(remove));
    co_return;
  }
  RemoveJob remove{held, disposal == kit::Disposal::undo, disposal == kit::Disposal::remove_workspace};
  co_await state->core->sessions().run(std::move(remove));
  state->forget(id);
}

// A session that waits in the pool, or a new one.
Awaitable<std::shared_ptr<kit::SessionBox>> provide_session(std::shared_ptr<State> state,
                                                            std::shared_ptr<BoxPool> pool,
                                                            kit::SessionRecord record,
                                                            boost::asio::any_io_executor executor) {
  std::shared_ptr<ContainerBox> box = pool->take(record.id);
  if (!box) {
    box = co_await make_session(state, std::move(record), std::move(executor));
    pool->refill();
    co_return box;
  }
  std::exception_ptr failure;
  try {
    PassOnJob pass_on{state->find(record.id).on_disk, &record};
    co_await state->core->sessions().run(std::move(pass_on));
    pool->refill();
    co_return box;
  } catch (...) {
    failure = std::current_exception();
  }
  co_await boost::asio::this_coro::reset_cancellation_state(boost::asio::disable_cancellation());
  co_await end_session(state, std::move(record), kit::Disposal::undo);
  std::rethrow_exception(failure);
}

using RunInBackground = std::function<void(Awaitable<void>, const char*)>;

std::shared_ptr<BoxPool> open_pool(const std::shared_ptr<State>& state, const kit::ManagedOptions& options,
                                   RunInBackground run_in_background) {
  BoxPool::Work work;
  work.run_in_background = std::move(run_in_background);
  work.make = [state, executor = options.executor](kit::SessionRecord record) {
    return make_session(state, std::move(record), executor);
  };
  work.end = [state](kit::SessionRecord record) {
    return end_session(state, std::move(record), kit::Disposal::undo);
  };
  work.end_now = [state](const std::string& id) {
    RemoveJob{state->find(id), true, false}();
    state->forget(id);
  };
  return std::make_shared<BoxPool>(state->core->settings().pool_size, options.clock, options.log,
                                   std::move(work));
}

class ContainerSandbox final : public kit::ManagedSandbox {
 public:
  ContainerSandbox(kit::ManagedOptions options, std::shared_ptr<State> state)
      : ManagedSandbox(options),
        state_(std::move(state)),
        pool_(open_pool(state_, options, [this](Awaitable<void> work, const char* what) {
          run_in_background(std::move(work), what);
        })) {}
  ~ContainerSandbox() override {
    pool_->stop();
    close();
    if (state_->core->forked()) return;
    // Of an event loop that does not run: its coroutines go with it, and with them what they were making.
    state_->core->sessions().wait_idle();
    state_->core->spawners().wait_idle();
    pool_->end_all();
  }

  std::string_view name() const noexcept override { return "container"; }
  Awaitable<std::vector<std::string>> recover_orphans() override { return recover_state(state_); }

 protected:
  void check_enforceable(const SandboxSessionSpec& spec) const override {
    if (spec.isolation == SandboxIsolation::vm) {
      reject("isolation 'vm': a container shares this machine's kernel; ask for 'container'");
    }
    if (spec.image != host_image && !spec.image.starts_with("/")) {
      reject("image " + quote(spec.image) +
             ": images are this machine's own programs, `host`, or the absolute path of a directory that "
             "holds a root "
             "file system");
    }
    if (spec.network != SandboxNetwork::none) {
      reject("network '" + std::string(to_string(spec.network)) +
             "': containers have no network but their own loopback yet; ask for 'none'");
    }
    if (spec.cpu) require_cap(os::CgroupController::cpu, "cpu");
    if (spec.memory_mb) require_cap(os::CgroupController::memory, "memory_mb");
  }

  std::string new_session_id(const SandboxSessionSpec& spec) override {
    auto waiting = pool_->reserve(spec);
    return waiting ? std::move(*waiting) : ManagedSandbox::new_session_id(spec);
  }
  Awaitable<std::shared_ptr<kit::SessionBox>> create_resources(const kit::SessionRecord& record) override {
    return provide_session(state_, pool_, record.clone(), executor());
  }
  Awaitable<void> destroy_resources(const kit::SessionRecord& record, std::shared_ptr<kit::SessionBox>,
                                    kit::Disposal disposal) override {
    return end_session(state_, record.clone(), disposal);
  }

 private:
  void require_cap(os::CgroupController controller, const std::string& facet) const {
    const std::string& obstacle = state_->core->cap_obstacle(controller);
    if (!obstacle.empty()) reject(facet + ": " + obstacle);
  }

  std::shared_ptr<State> state_;
  std::shared_ptr<BoxPool> pool_;
};

}  // namespace

std::shared_ptr<kit::ManagedSandbox> open(ContainerOptions options) {
  auto state = std::make_shared<State>();
  kit::ManagedOptions managed;
  managed.executor = options.executor;
  managed.dispatch = options.settings.dispatch;
  managed.clock = options.clock;
  managed.log = options.log;
  // First, for it says when the kernel cannot do what the rest needs.
  state->core = std::make_shared<ContainerCore>(std::move(options.settings), options.clock, options.log);
  const ContainerSettings& settings = state->core->settings();
  state->storage = Storage::open(settings);
  state->owner = os::own_identity();
  if (settings.unbounded_disk) {
    kit::log_to(
        options.log, kit::LogLevel::warning,
        "CAISSON_CONTAINER_UNBOUNDED_DISK=1 lets sessions fill the disk through persistent workspaces "
        "that cannot be bounded");
  }
  recover(*state->storage, options.log);
  return std::make_shared<ContainerSandbox>(std::move(managed), std::move(state));
}

}  // namespace caisson::container
