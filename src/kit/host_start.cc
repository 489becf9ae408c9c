// A command's start on the host.
#include "kit/host_start.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "kit/host_errors.h"
#include "kit/host_files.h"
#include "os/fault_point.h"
#include "os/rlimits.h"
#include "os/spawn.h"
#include "os/tty.h"

namespace caisson::kit {
namespace {

// How often a leaf that a clone refuses to enter is replaced by another.
constexpr int most_leaves = 3;

template <class T>
T prepared(os::Result<T> result, const char* what, const std::string& name) {
  if (!result) fail_preparation(result.error(), what, name);
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

// The environment as execve takes it, in one block that is wiped at its end (S-6).
class Environment {
 public:
  Environment(const SecretEnv& variables, const std::string& base_path) {
    const bool has_path = variables.contains("PATH");
    std::size_t size = has_path ? 0 : 5 + base_path.size() + 1;
    for (const auto& [name, value] : variables) size += name.size() + 1 + value.reveal().size() + 1;
    block_.resize(size);
    pointers_.reserve(variables.size() + 2);
    char* end = block_.data();
    if (!has_path) append(end, "PATH", base_path);
    for (const auto& [name, value] : variables) append(end, name, value.reveal());
    pointers_.push_back(nullptr);
  }
  ~Environment() { wipe(block_.data(), block_.size()); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

  const char* const* pointers() const noexcept { return pointers_.data(); }

 private:
  void append(char*& end, std::string_view name, std::string_view value) {
    pointers_.push_back(end);
    end = std::copy(name.begin(), name.end(), end);
    *end++ = '=';
    end = std::copy(value.begin(), value.end(), end);
    *end++ = '\0';
  }

  std::vector<char> block_;
  std::vector<const char*> pointers_;
};

// Where the command may be; the PATH it comes from may be the caller's, and is wiped like the rest of the
// environment.
class Candidates {
 public:
  Candidates(const std::string& name, std::string_view path) : paths_(os::exec_candidates(name, path)) {
    for (const std::string& path_of_one : paths_) pointers_.push_back(path_of_one.c_str());
  }
  ~Candidates() {
    for (std::string& path : paths_) wipe(path.data(), path.size());
  }
  Candidates(const Candidates&) = delete;
  Candidates& operator=(const Candidates&) = delete;

  const std::vector<std::string>& paths() const noexcept { return paths_; }
  std::span<const char* const> pointers() const noexcept { return pointers_; }

 private:
  std::vector<std::string> paths_;
  std::vector<const char*> pointers_;
};

std::string_view path_of(const SecretEnv& variables, const std::string& base_path) {
  const auto path = variables.find("PATH");
  return path == variables.end() ? std::string_view(base_path) : path->second.reveal();
}

// Both ends of the three streams: Caisson's, and the command's.
struct Streams {
  HostStarted ours;
  os::Fd theirs[3];
};

Streams make_streams(const ExecPlan& plan) {
  const std::string& name = plan.argv.front();
  prepared(os::fault_point("exec.streams"), "making its streams", name);
  Streams streams;
  if (plan.tty) {
    auto pty = prepared(os::open_pty(plan.tty->columns, plan.tty->rows), "opening a terminal", name);
    if (plan.input) streams.ours.in = prepared(os::duplicate(pty.master), "duplicating a terminal", name);
    streams.ours.out = std::move(pty.master);
    streams.theirs[0] = std::move(pty.terminal);
    return streams;
  }
  if (plan.input) {
    auto in = prepared(os::make_pipe(), "making a pipe", name);
    streams.ours.in = std::move(in.write);
    streams.theirs[0] = std::move(in.read);
  } else {
    streams.theirs[0] = prepared(os::open_empty_input(), "opening /dev/null", name);
  }
  auto out = prepared(os::make_pipe(), "making a pipe", name);
  auto err = prepared(os::make_pipe(), "making a pipe", name);
  streams.ours.out = std::move(out.read);
  streams.ours.err = std::move(err.read);
  streams.theirs[1] = std::move(out.write);
  streams.theirs[2] = std::move(err.write);
  return streams;
}

bool any_exists(os::FdRef directory, const std::vector<std::string>& candidates) {
  return std::any_of(candidates.begin(), candidates.end(),
                     [directory](const std::string& path) { return os::candidate_exists(directory, path); });
}

// Whether a clone failed because of the cgroup it was to enter: removed by somebody, or of a type that no
// process may be in.
bool is_about_the_cgroup(const os::SpawnFailure& failure) noexcept {
  const int number = failure.number;
  return failure.step == os::SpawnStep::clone &&
         (number == ENODEV || number == EOPNOTSUPP || number == EBUSY || number == ENOENT);
}

}  // namespace

bool Starting::enter(os::CgroupLeaf& leaf) noexcept {
  const std::lock_guard lock(mutex_);
  if (!cancelled_) leaf_ = &leaf;
  return !cancelled_;
}

bool Starting::enter(os::Cancel& shim) noexcept {
  const std::lock_guard lock(mutex_);
  if (!cancelled_) shim_ = &shim;
  return !cancelled_;
}

void Starting::leave() noexcept {
  const std::lock_guard lock(mutex_);
  leaf_ = nullptr;
  shim_ = nullptr;
}

void Starting::cancel() noexcept {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
  if (leaf_ != nullptr) static_cast<void>(leaf_->kill());
  if (shim_ != nullptr) shim_->cancel();
}

bool Starting::cancelled() const noexcept {
  const std::lock_guard lock(mutex_);
  return cancelled_;
}

StartCommand::StartCommand(std::shared_ptr<HostCore> core, std::shared_ptr<const HostBoxState> box,
                           std::shared_ptr<const ExecPlan> plan, boost::asio::any_io_executor executor,
                           std::shared_ptr<Starting> starting)
    : core_(std::move(core)),
      box_(std::move(box)),
      plan_(std::move(plan)),
      executor_(std::move(executor)),
      starting_(std::move(starting)) {}

HostStarted StartCommand::operator()() {
  const ExecPlan& plan = *plan_;
  if (const auto fault = os::fault_point("exec.directory"); !fault) fail_cwd(fault.error(), plan.cwd);
  auto directory = resolve_cwd(*box_->workspace, plan.cwd);
  if (!directory) fail_cwd(directory.error(), plan.cwd);
  Streams streams = make_streams(plan);

  const Candidates candidates(plan.argv.front(), path_of(plan.env, box_->base_path));
  const Environment environment(plan.env, box_->base_path);
  std::vector<const char*> argv;
  argv.reserve(plan.argv.size() + 1);
  for (const std::string& word : plan.argv) argv.push_back(word.c_str());
  argv.push_back(nullptr);

  os::SpawnPlan spawn;
  spawn.candidates = candidates.pointers();
  spawn.argv = argv.data();
  spawn.envp = environment.pointers();
  spawn.directory = *directory;
  for (int i = 0; i < 3; ++i) spawn.descriptors[i] = plan.tty ? streams.theirs[0] : streams.theirs[i];
  spawn.terminal = plan.tty.has_value();
  spawn.descriptor_limit_soft = os::original_descriptor_limit().soft;

  streams.ours.tree = core_->pool() != nullptr ? start_in_cgroup(spawn, candidates.paths())
                                               : start_under_shim(spawn, candidates.paths());
  return std::move(streams.ours);
}

namespace {

// A program written a moment ago may still be open for writing in a child of ours, between its clone and its
// execve, and is ETXTBSY (execve(2)) for that long.
class BusyProgram {
 public:
  /// Whether to try again, after a pause.
  bool pass(const os::SpawnFailure& failure) {
    if (failure.step != os::SpawnStep::exec || failure.number != ETXTBSY || ++tries_ > most_tries)
      return false;
    std::this_thread::sleep_for(pause);
    return true;
  }

 private:
  static constexpr int most_tries = 50;
  static constexpr std::chrono::milliseconds pause{2};
  int tries_ = 0;
};

}  // namespace

std::unique_ptr<HostTree> StartCommand::start_in_cgroup(os::SpawnPlan& plan, const Paths& candidates) {
  const std::string& name = plan_->argv.front();
  os::CgroupLeafPool& pool = *core_->pool();
  BusyProgram busy;
  for (int attempt = 1;; ++attempt) {
    os::CgroupLeaf leaf = prepared(pool.acquire(), "making its cgroup", name);
    if (!starting_->enter(leaf)) {
      core_->cleaner().recycle(std::move(leaf));
      return nullptr;
    }
    plan.cgroup = leaf.directory();
    auto process = os::spawn(plan);
    starting_->leave();
    if (process) {
      return std::make_unique<CgroupTree>(core_, executor_, std::move(*process), std::move(leaf));
    }
    const os::SpawnFailure failure = process.error();
    if (is_about_the_cgroup(failure) && attempt < most_leaves) {
      pool.discard(std::move(leaf));
      continue;
    }
    core_->cleaner().recycle(std::move(leaf));
    if (starting_->cancelled()) return nullptr;
    if (busy.pass(failure)) continue;
    fail_start(failure, name, plan_->cwd, any_exists(plan.directory, candidates));
  }
}

std::unique_ptr<HostTree> StartCommand::start_under_shim(const os::SpawnPlan& plan, const Paths& candidates) {
  const std::string& name = plan_->argv.front();
  BusyProgram busy;
  for (;;) {
    os::Cancel cancel = prepared(os::Cancel::make(), "making an eventfd", name);
    if (!starting_->enter(cancel)) return nullptr;
    auto tree = os::spawn_under_shim(plan, cancel.events());
    starting_->leave();
    if (tree) return std::make_unique<ShimHostTree>(core_, executor_, std::move(*tree));
    if (starting_->cancelled()) return nullptr;
    if (busy.pass(tree.error())) continue;
    fail_start(tree.error(), name, plan_->cwd, any_exists(plan.directory, candidates));
  }
}

}  // namespace caisson::kit
