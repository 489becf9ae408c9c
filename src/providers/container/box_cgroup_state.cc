// The directories and files of one box's cgroups.
#include "providers/container/box_cgroup_state.h"

#include <fcntl.h>

#include <algorithm>
#include <utility>

#include "caisson/contract/errors.h"
#include "caisson/kit/provider.h"
#include "kit/host_errors.h"
#include "os/beneath.h"
#include "os/files.h"
#include "os/self.h"

namespace caisson::container {

namespace {

using os::CgroupController;

constexpr std::size_t leaves_ahead = 1;
// What init has beside its execs, so that they cannot take it from it: processors, bytes, processes. A frame
// of the protocol takes the most of it.
constexpr double init_processors = 0.1;
constexpr std::uint64_t init_memory = std::uint64_t{64} << 20U;
constexpr std::uint64_t init_pids = 16;
constexpr std::chrono::milliseconds tidy_patience{10};
constexpr std::chrono::milliseconds parents_patience{0};

std::string parent_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

os::ExplainedResult<void> make(const std::string& path, int parents = 0) {
  const auto made = os::make_cgroup(path, parents);
  if (!made) return os::explained(made.error(), "making the cgroup " + path);
  return {};
}

os::ExplainedResult<os::Fd> open_file(const std::string& directory, const char* name, int flags) {
  const auto opened = os::open_directory(directory);
  auto file = opened ? os::open_at(*opened, name, flags) : os::Result<os::Fd>(opened.error());
  if (file) file = os::spare_descriptor(std::move(*file));
  if (!file) return os::explained(file.error(), "opening " + directory + "/" + name);
  return std::move(*file);
}

// The caps of a box as a whole.
os::CgroupCaps with_init(os::CgroupCaps caps) noexcept {
  if (caps.cpu) *caps.cpu += init_processors;
  if (caps.memory) *caps.memory += init_memory;
  if (caps.pids) *caps.pids += init_pids;
  return caps;
}

// Whose processes may clone into it, or from one beneath it to another.
os::ExplainedResult<void> give_procs(const std::string& directory, InitOwner owner) {
  const auto procs = open_file(directory, "cgroup.procs", O_PATH);
  if (!procs) return procs.error();
  const auto given = os::set_owner(*procs, owner.user, owner.group);
  if (!given) return os::explained(given.error(), "giving init " + directory + "/cgroup.procs");
  return {};
}

bool has(const std::vector<CgroupController>& controllers, CgroupController controller) noexcept {
  return std::find(controllers.begin(), controllers.end(), controller) != controllers.end();
}

}  // namespace

void fail_cgroup(const os::ExplainedError& error) {
  if (error.number == EMFILE || error.number == ENFILE) throw kit::DescriptorsExhausted();
  std::string advice;
  if (error.number == EACCES || error.number == EPERM || error.number == EROFS) {
    advice = "; the cgroup hierarchies must be mounted writable, and stay so";
  } else if (error.number == EAGAIN || error.number == ENOSPC) {
    advice = "; see cgroup.max.descendants and cgroup.max.depth in the cgroups above";
  }
  throw SandboxError(ErrorCode::unavailable, "the cgroups of a box cannot be had: " + error.text + advice);
}

os::Fd copy_of(os::FdRef file) {
  auto copy = os::duplicate(file);
  if (!copy) fail_cgroup(os::explained(copy.error(), "a descriptor"));
  return std::move(*copy);
}

BoxCgroupState::BoxCgroupState(BoxCgroupPaths where, const os::CgroupCaps& what, InitOwner who,
                               bool has_mount)
    : paths(std::move(where)), caps(what), owner(who), owner_process(os::own_pid()), leaves(leaves_ahead) {
  shared->mounts = has_mount;
}

os::ExplainedResult<void> BoxCgroupState::make_unified() {
  // What is above is shared with other processes, who remove what they find empty.
  auto made = make(paths.unified, 2);
  gone = !made;
  if (made) made = make(paths.unified + "/init");
  if (made) made = make(paths.unified + "/execs");
  if (made && shared->mounts) made = give_procs(paths.unified, owner);
  if (!made) return made;
  auto opened = os::CgroupLeaf::open(paths.unified);
  if (!opened) return os::explained(opened.error(), "opening the cgroup " + paths.unified);
  whole.emplace(std::move(*opened));
  auto leaf = os::open_directory(paths.unified + "/init");
  if (leaf) leaf = os::spare_descriptor(std::move(*leaf));
  if (!leaf) return os::explained(leaf.error(), "opening the cgroup " + paths.unified + "/init");
  init_leaf = std::move(*leaf);
  return {};
}

os::ExplainedResult<void> BoxCgroupState::make_v1(const std::string& directory,
                                                  const std::vector<CgroupController>& controllers) {
  const std::string execs = directory + "/execs";
  auto made = make(directory, 1);
  // From above: no share of the processors may be larger than the one that it is of.
  if (made) made = os::set_cgroup_caps(directory, os::CgroupVersion::v1, controllers, with_init(caps));
  if (made) made = make(execs);
  if (made) made = os::set_cgroup_caps(execs, os::CgroupVersion::v1, controllers, caps);
  if (!made) return made;
  auto tasks = open_file(directory, "tasks", O_WRONLY);
  if (!tasks) return tasks.error();
  init_tasks.push_back(std::move(*tasks));
  const bool counts_pids = caps.pids && has(controllers, CgroupController::pids);
  if (caps.memory && has(controllers, CgroupController::memory)) {
    memory_execs = execs;
    memory_has_pids = counts_pids;
  } else {
    tasks = open_file(execs, "tasks", O_WRONLY);
    if (!tasks) return tasks.error();
    shared->exec_tasks.push_back(std::move(*tasks));
  }
  if (!counts_pids) return {};
  auto events = open_file(execs, "pids.events", O_RDONLY);
  if (!events) return events.error();
  shared->pids_events = std::move(*events);
  return {};
}

void BoxCgroupState::set_unified_caps() {
  if (unified.empty()) return;
  const std::string execs = paths.unified + "/execs";
  os::ExplainedResult<void> done;
  for (const std::string& above : unified_above) {
    if (done) done = os::enable_controllers(above, unified);
  }
  if (done) done = os::set_cgroup_caps(paths.unified, os::CgroupVersion::v2, unified, with_init(caps));
  if (done) done = os::enable_controllers(paths.unified, unified);
  if (done) done = os::set_cgroup_caps(execs, os::CgroupVersion::v2, unified, caps);
  // A share of the processors needs no part in the leaves.
  std::vector<CgroupController> counted = unified;
  std::erase(counted, CgroupController::cpu);
  if (done) done = os::enable_controllers(execs, counted);
  if (!done) fail_cgroup(done.error());
  if (!has(unified, CgroupController::pids)) return;
  auto events = open_file(execs, "pids.events", O_RDONLY);
  if (!events) fail_cgroup(events.error());
  shared->pids_events = std::move(*events);
}

os::ExplainedResult<BoxLeaf> BoxCgroupState::make_leaf() {
  if (removed) return os::explained(ENOENT, "making a cgroup for a command", "the box was removed");
  const std::string name = std::to_string(next++);
  const std::string path = paths.unified + "/execs/" + name;
  const auto made = make(path);
  if (!made) return made.error();
  auto leaf = open_leaf(name);
  if (leaf) return leaf;
  static_cast<void>(os::remove_cgroup_directories(path, parents_patience));
  if (!memory_execs.empty()) {
    static_cast<void>(os::remove_cgroup_directories(memory_execs + "/" + name, parents_patience));
  }
  return leaf;
}

os::ExplainedResult<BoxLeaf> BoxCgroupState::open_leaf(const std::string& name) {
  const std::string path = paths.unified + "/execs/" + name;
  auto leaf = os::CgroupLeaf::open(path);
  if (!leaf) return os::explained(leaf.error(), "opening the cgroup " + path);
  auto parts = std::make_unique<BoxLeaf::Parts>(BoxLeaf::Parts{shared, std::move(*leaf), {}, {}, {}, {}});
  const auto open = [](os::Fd& to, const std::string& directory, const char* file, int flags) {
    auto opened = open_file(directory, file, flags);
    if (!opened) return os::ExplainedResult<void>(opened.error());
    to = std::move(*opened);
    return os::ExplainedResult<void>();
  };
  auto done = shared->mounts ? give_procs(path, owner) : open(parts->procs, path, "cgroup.procs", O_WRONLY);
  if (done && has(unified, CgroupController::memory)) {
    done = open(parts->memory_events, path, "memory.events.local", O_RDONLY);
  }
  if (done && has(unified, CgroupController::pids)) {
    done = open(parts->pids_events, path, "pids.events", O_RDONLY);
  }
  if (done && !memory_execs.empty()) {
    parts->memory_path = memory_execs + "/" + name;
    done = make(parts->memory_path);
    if (done) done = open(parts->memory_tasks, parts->memory_path, "tasks", O_WRONLY);
    if (done) done = open(parts->memory_events, parts->memory_path, "memory.oom_control", O_RDONLY);
    // v1 counts them where the fork was tried.
    if (done && memory_has_pids) done = open(parts->pids_events, parts->memory_path, "pids.events", O_RDONLY);
  }
  if (!done) return done.error();
  return BoxLeaf(std::move(parts));
}

void BoxCgroupState::tidy() noexcept {
  if (removed) return;
  const auto remove_leaf = [](BoxLeaf& leaf) {
    BoxLeaf::Parts& parts = *leaf.parts_;
    if (!parts.leaf.killed()) static_cast<void>(parts.leaf.kill());
    auto done = os::remove_cgroup_directories(parts.leaf.path(), tidy_patience);
    if (done && !parts.memory_path.empty()) {
      done = os::remove_cgroup_directories(parts.memory_path, tidy_patience);
    }
    // What is busy is tried again with the next one; what cannot be removed goes with the box, or stays.
    return done || done.error() != os::error_of(EBUSY);
  };
  const auto make_one = [this] { return make_leaf(); };
  leaves.tidy(remove_leaf, make_one);
}

os::ExplainedResult<void> BoxCgroupState::remove(std::chrono::milliseconds patience) noexcept {
  removed = true;
  leaves.clear();
  const auto unified_gone = os::remove_cgroup_tree(paths.unified, patience);
  if (!unified_gone) return os::explained(unified_gone.error(), "removing the cgroup " + paths.unified);
  for (const std::string& directory : paths.v1) {
    const auto v1_gone = os::remove_cgroup_directories(directory, patience);
    if (!v1_gone) return os::explained(v1_gone.error(), "removing the cgroup " + directory);
  }
  // Those above, as far as nobody else has anything in them.
  const auto drop = [](const std::string& directory) {
    static_cast<void>(os::remove_empty_cgroup(directory));
  };
  drop(parent_of(paths.unified));
  drop(parent_of(parent_of(paths.unified)));
  for (const std::string& directory : paths.v1) drop(parent_of(directory));
  gone = true;
  return {};
}

}  // namespace caisson::container
