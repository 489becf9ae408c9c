// One box's cgroups: made, joined by init, given to execs, and removed.
#include "providers/container/box_cgroup.h"

#include <utility>

#include "os/self.h"
#include "providers/container/box_cgroup_state.h"

namespace caisson::container {

namespace {

using os::CgroupController;

// For a call that blocks, on a worker.
struct MakeLeaf {
  std::shared_ptr<BoxCgroup> cgroup;
  BoxLeaf operator()() const { return cgroup->make_leaf(); }
};

std::uint64_t since(std::uint64_t before, const os::Fd& file, const char* key) noexcept {
  if (!file) return 0;
  const auto now = os::read_counter(file, key);
  return now && *now > before ? *now - before : 0;
}

std::uint64_t count(const os::Fd& file, const char* key) noexcept {
  const auto now = file ? os::read_counter(file, key) : os::Result<std::uint64_t>(0);
  return now ? *now : 0;
}

}  // namespace

// --- a leaf

BoxLeaf::BoxLeaf(std::unique_ptr<Parts> parts) noexcept : parts_(std::move(parts)) {}
BoxLeaf::BoxLeaf(BoxLeaf&&) noexcept = default;
BoxLeaf& BoxLeaf::operator=(BoxLeaf&&) noexcept = default;
BoxLeaf::~BoxLeaf() = default;

void BoxLeaf::add_to(init::StartExec& request, std::vector<os::Fd>& descriptors) const {
  const BoxLeafShared& box = *parts_->shared;
  const std::string& path = parts_->leaf.path();
  request.cgroup = box.mounts ? path.substr(path.rfind('/') + 1) : std::string();
  request.joined = 0;
  const auto join = [&](const os::Fd& file) {
    if (!file) return;
    descriptors.push_back(copy_of(file));
    ++request.joined;
  };
  join(parts_->procs);
  join(parts_->memory_tasks);
  for (const os::Fd& tasks : box.exec_tasks) join(tasks);
}

const std::string& BoxLeaf::path() const noexcept { return parts_->leaf.path(); }
os::Result<void> BoxLeaf::kill() noexcept { return parts_->leaf.kill(); }
os::Result<bool> BoxLeaf::populated() const noexcept { return parts_->leaf.populated(); }

std::uint64_t BoxLeaf::oom_kills() const noexcept {
  return since(parts_->oom_kills_before, parts_->memory_events, "oom_kill");
}

std::vector<SandboxLimit> BoxLeaf::limits_hit() const {
  std::vector<SandboxLimit> hit;
  if (oom_kills() > 0) hit.push_back(SandboxLimit::memory);
  // Linux before 6.11 counts them where the fork was tried, later ones where the cap is.
  if (since(parts_->pids_before, parts_->pids_events, "max") > 0 ||
      since(parts_->box_pids_before, parts_->shared->pids_events, "max") > 0) {
    hit.push_back(SandboxLimit::pids);
  }
  return hit;
}

void BoxLeaf::begin() noexcept {
  parts_->oom_kills_before = count(parts_->memory_events, "oom_kill");
  parts_->pids_before = count(parts_->pids_events, "max");
  parts_->box_pids_before = count(parts_->shared->pids_events, "max");
}

bool BoxLeaf::reusable() const noexcept { return parts_->leaf.reusable(); }

// --- the box

BoxCgroup::BoxCgroup(std::shared_ptr<BoxCgroupState> state, kit::Workers& workers) noexcept
    : state_(std::move(state)), workers_(&workers) {}

BoxCgroup::~BoxCgroup() {
  if (state_->gone || os::own_pid() != state_->owner_process) return;
  static_cast<void>(remove());
}

const BoxCgroupPaths& BoxCgroup::paths() const noexcept { return state_->paths; }
os::FdRef BoxCgroup::init_leaf() const noexcept { return state_->init_leaf; }

void BoxCgroup::add_to(init::BoxPlan& plan, std::vector<os::Fd>& descriptors) const {
  plan.cgroup = state_->shared->mounts;
  if (plan.cgroup) {
    auto mount = os::clone_tree(state_->paths.unified, false);
    if (!mount) fail_cgroup(mount.error());
    descriptors.push_back(std::move(*mount));
  }
  plan.joined = 0;
  for (const os::Fd& tasks : state_->init_tasks) {
    descriptors.push_back(copy_of(tasks));
    ++plan.joined;
  }
}

void BoxCgroup::complete() {
  state_->set_unified_caps();
  tidy_soon();
}

bool BoxCgroup::blocks_to_complete() const noexcept { return !state_->unified.empty(); }

std::optional<BoxLeaf> BoxCgroup::ready_leaf() {
  auto leaf = state_->leaves.take();
  if (leaf) leaf->begin();
  // So that another is made while this one is in use.
  tidy_soon();
  return leaf;
}

BoxLeaf BoxCgroup::make_leaf() {
  auto leaf = state_->make_leaf();
  if (!leaf) fail_cgroup(leaf.error());
  leaf->begin();
  return std::move(*leaf);
}

Awaitable<BoxLeaf> BoxCgroup::acquire_leaf(std::shared_ptr<BoxCgroup> self) {
  auto ready = self->ready_leaf();
  if (ready) co_return std::move(*ready);
  MakeLeaf make{self};
  co_return co_await self->workers_->run(std::move(make));
}

void BoxCgroup::give_back(BoxLeaf leaf) noexcept {
  if (leaf.reusable()) {
    state_->leaves.give_back(std::move(leaf));
  } else {
    state_->leaves.put_aside(std::move(leaf));
  }
  tidy_soon();
}

void BoxCgroup::discard(BoxLeaf leaf) noexcept {
  state_->leaves.put_aside(std::move(leaf));
  tidy_soon();
}

void BoxCgroup::tidy_soon() noexcept {
  if (!state_->leaves.untidy() || state_->tidying.exchange(true)) return;
  workers_->post([state = state_] {
    state->tidying = false;
    state->tidy();
  });
}

os::Result<void> BoxCgroup::kill() noexcept { return state_->whole->kill(); }
os::Result<bool> BoxCgroup::populated() const noexcept { return state_->whole->populated(); }

os::ExplainedResult<void> BoxCgroup::remove(std::chrono::milliseconds patience) noexcept {
  return state_->remove(patience);
}

}  // namespace caisson::container
