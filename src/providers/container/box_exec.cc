// Starting a command in a box, and its tree.
#include "providers/container/box_exec.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <utility>

#include "contract/quote.h"
#include "init/wire.h"
#include "kit/event.h"
#include "kit/host_errors.h"
#include "kit/strand.h"
#include "os/files.h"
#include "os/rlimits.h"
#include "os/spawn.h"

namespace caisson::container {
namespace {

namespace asio = boost::asio;
using asio::posix::stream_descriptor;

// A program that was put into the box a moment ago may still be open for writing in a child of this process
// that has not come to its execve.
constexpr int most_tries = 50;
constexpr std::chrono::milliseconds try_pause{2};

// How long the processes of a killed command may live where init kills them.
constexpr int most_looks = 100;
constexpr std::chrono::milliseconds look_pause{10};

// How often a leaf that a command cannot be started in is replaced by another.
constexpr int most_leaves = 3;

constexpr unsigned terminal_major = 5;
constexpr unsigned terminal_minor = 2;

template <class T>
T prepared(os::Result<T> result, const char* what, const std::string& name) {
  if (!result) kit::fail_preparation(result.error(), what, name);
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

// Caisson's ends of the streams, and those that ride along.
struct Streams {
  os::Fd in, out, err;
  std::vector<os::Fd> theirs;
};

class StreamMaker {
 public:
  StreamMaker(const BoxCommands& box, const std::string& name) : box_(box), name_(name) {}

  Streams make(bool with_input) const {
    Streams streams;
    if (with_input) {
      auto in = pipe();
      streams.in = std::move(in.write);
      give(std::move(in.read), streams);
    }
    auto out = pipe();
    auto err = pipe();
    streams.out = std::move(out.read);
    streams.err = std::move(err.read);
    give(std::move(out.write), streams);
    give(std::move(err.write), streams);
    return streams;
  }

 private:
  os::Pipe pipe() const { return prepared(os::make_pipe(), "making a pipe", name_); }
  void give(os::Fd end, Streams& streams) const {
    // Else /dev/stdout could not be opened in the box. Who may not give it away opens it to everybody: nobody
    // but the box's processes, and this user's, has a path to it.
    auto given = os::set_owner(end, box_.host_user, box_.host_group);
    if (!given && given.error() == os::error_of(EPERM)) given = os::set_mode(end, 0666);
    prepared(given, "giving it its pipe", name_);
    streams.theirs.push_back(std::move(end));
  }

  const BoxCommands& box_;
  const std::string& name_;
};

// The init encoder: one of the places where values of the environment are revealed (S-6). The call wipes
// them.
std::vector<std::string> revealed(const kit::ExecPlan& plan) {
  std::vector<std::string> env;
  env.reserve(plan.env.size() + 1);
  if (plan.tty && !plan.env.contains("TERM")) env.emplace_back("TERM=xterm");
  for (const auto& [name, value] : plan.env) {
    std::string& entry = env.emplace_back();
    entry.reserve(name.size() + 1 + value.reveal().size());
    entry.append(name).append("=").append(value.reveal());
  }
  return env;
}

// All but the environment.
init::StartExec start_of(const kit::ExecPlan& plan) {
  init::StartExec start;
  start.argv = plan.argv;
  start.cwd = plan.cwd;
  if (plan.tty) start.tty = init::TtySize{plan.tty->columns, plan.tty->rows};
  start.input = plan.input && !plan.tty;
  start.descriptor_limit_soft = os::original_descriptor_limit().soft;
  return start;
}

bool is_busy_program(const InitFailure& failure) noexcept {
  return failure.fault == InitFault::refused && failure.step == init::Step::exec && failure.number == ETXTBSY;
}

os::SpawnStep step_of(init::Step step) noexcept {
  switch (step) {
    case init::Step::clone:
      return os::SpawnStep::clone;
    case init::Step::session:
      return os::SpawnStep::session;
    case init::Step::tty:
      return os::SpawnStep::terminal;
    case init::Step::cwd:
      return os::SpawnStep::directory;
    case init::Step::limits:
      return os::SpawnStep::limits;
    case init::Step::ids:
    case init::Step::capabilities:
    case init::Step::seccomp:
      return os::SpawnStep::credentials;
    case init::Step::exec:
      return os::SpawnStep::exec;
    case init::Step::cgroup:
      return os::SpawnStep::cgroup;
    default:
      return os::SpawnStep::descriptors;
  }
}

[[noreturn]] void fail_lost(const BoxProcess& box, const std::string& why) {
  const std::string cause = box.end_cause();
  throw SandboxError(ErrorCode::unavailable, "the session's box has ended: " + (cause.empty() ? why : cause) +
                                                 "; destroy the session and create a new one");
}

[[noreturn]] void fail_start(const InitFailure& failure, const kit::ExecPlan& plan, const BoxProcess& box) {
  const std::string& name = plan.argv.front();
  const bool encoded = failure.fault != InitFault::unsent;
  if (failure.fault == InitFault::refused && failure.step != init::Step::protocol) {
    const bool is_exec = failure.step == init::Step::exec;
    kit::fail_start({step_of(failure.step), failure.number}, name, plan.cwd,
                    is_exec && failure.number == ENOENT && !failure.detail.empty());
  }
  if (failure.fault == InitFault::lost || failure.fault == InitFault::silent)
    fail_lost(box, describe(failure));
  if (!encoded && (failure.number == E2BIG || failure.number == EMSGSIZE))
    kit::fail_start({os::SpawnStep::exec, E2BIG}, name, plan.cwd, false);
  if (!encoded && failure.number == ENAMETOOLONG) kit::fail_cwd(os::error_of(ENAMETOOLONG), plan.cwd);
  if (!encoded) kit::fail_preparation(os::error_of(failure.number), "telling its box of it", name);
  throw SandboxError(ErrorCode::internal,
                     "command " + quote(name) + " could not be started: " + describe(failure));
}

stream_descriptor bind(os::Fd fd, const asio::any_io_executor& executor) {
  stream_descriptor descriptor(executor);
  if (fd) {
    descriptor.assign(fd.number());
    static_cast<void>(std::move(fd).release());
  }
  return descriptor;
}

// Whether it is the master of a pseudo-terminal: what is not would be read as a stream all the same.
bool is_terminal_master(os::FdRef fd) {
  const auto is = os::status(fd);
  return is && S_ISCHR(is->st_mode) && major(is->st_rdev) == terminal_major &&
         minor(is->st_rdev) == terminal_minor;
}

void take_terminal(InitAnswer& answer, const kit::ExecPlan& plan, Streams& streams, BoxProcess& box) {
  streams.out = std::move(answer.descriptors.front());
  if (!is_terminal_master(streams.out)) {
    box.kill("its caisson-init passed something else for a terminal");
    fail_lost(box, {});
  }
  const std::string& name = plan.argv.front();
  if (plan.input) streams.in = prepared(os::duplicate(streams.out), "duplicating a terminal", name);
}

// A command that cannot be watched ends with its tree.
kit::StartedExec bound(std::unique_ptr<BoxExecTree> tree, Streams streams,
                       const asio::any_io_executor& executor) {
  try {
    tree->watch();
    kit::StartedExec started{std::move(tree), bind(std::move(streams.in), executor),
                             bind(std::move(streams.out), executor), bind(std::move(streams.err), executor)};
    return started;
  } catch (const boost::system::system_error& error) {
    throw SandboxError(ErrorCode::unavailable, std::string("the event loop cannot watch the command: ") +
                                                   error.code().message() +
                                                   "; see max_user_watches in epoll(7)");
  }
}

// A tree that init has to end, one process after the other, and that grows as fast, ends with its box.
Awaitable<void> kill_in_box(std::shared_ptr<BoxProcess> box, std::shared_ptr<InitExec> exec, bool by_init) {
  init::Request request = init::KillExec{exec->id()};
  // A refusal says that there is no such exec any more; an init that does not answer loses its box.
  static_cast<void>(co_await BoxProcess::ask(box, std::move(request), std::vector<os::Fd>()));
  if (!by_init) co_return;
  for (int look = 0; look < most_looks; ++look) {
    if (exec->state().empty || box->ended()) co_return;
    co_await kit::pause_for(look_pause);
  }
  box->kill("the processes of a command that was killed do not end");
}

ExecEnded ended_of(const init::Exited& exited) {
  ExecEnded ended;
  const auto code = static_cast<int>(exited.code);
  ended.exit_code = exited.signaled ? 128 + code : code;
  if (exited.signaled) {
    ended.how = ExecEnd::signaled;
    ended.signal = code;
    ended.core = exited.core;
  }
  return ended;
}

ExecEnded lost_of(std::string cause) {
  ExecEnded ended;
  ended.how = ExecEnd::lost;
  ended.exit_code = 255;
  ended.lost_cause = std::move(cause);
  return ended;
}

// The cgroups of a command that is being started. Unless they are taken nothing of them is used again: what
// was to be started may yet come up in them.
class LeafInUse {
 public:
  LeafInUse(std::shared_ptr<BoxCgroup> cgroup, BoxLeaf leaf)
      : cgroup_(std::move(cgroup)), leaf_(std::move(leaf)) {}
  ~LeafInUse() {
    if (!leaf_) return;
    static_cast<void>(leaf_->kill());
    cgroup_->discard(std::move(*leaf_));
  }
  LeafInUse(const LeafInUse&) = delete;
  LeafInUse& operator=(const LeafInUse&) = delete;

  const BoxLeaf& leaf() const noexcept { return *leaf_; }
  BoxLeaf take() { return *std::exchange(leaf_, std::nullopt); }
  /// Nothing was started in it.
  void give_back() { cgroup_->give_back(take()); }

 private:
  std::shared_ptr<BoxCgroup> cgroup_;
  std::optional<BoxLeaf> leaf_;
};

bool is_refusal(const InitFailure& failure, init::Step step) noexcept {
  return failure.fault == InitFault::refused && failure.step == step;
}

}  // namespace

Awaitable<kit::StartedExec> start_in_box(BoxCommands box, std::shared_ptr<const kit::ExecPlan> plan,
                                         asio::any_io_executor executor) {
  const std::string& name = plan->argv.front();
  const std::shared_ptr<BoxCgroup> cgroup = box.process->cgroup();
  int leaves = 0;
  for (int tries = 1;; ++tries) {
    Streams streams;
    if (!plan->tty) streams = StreamMaker(box, name).make(plan->input);
    init::StartExec start = start_of(*plan);
    std::unique_ptr<LeafInUse> in_use;
    if (cgroup) {
      BoxLeaf leaf = co_await BoxCgroup::acquire_leaf(cgroup);
      in_use = std::make_unique<LeafInUse>(cgroup, std::move(leaf));
      in_use->leaf().add_to(start, streams.theirs);
    }
    // Last of all: from here on the call wipes it, whatever happens.
    start.env = revealed(*plan);
    init::Request request = std::move(start);
    auto answer = co_await BoxProcess::ask(box.process, std::move(request), std::move(streams.theirs));
    if (answer) {
      std::optional<BoxLeaf> leaf;
      if (in_use) leaf.emplace(in_use->take());
      auto tree =
          std::make_unique<BoxExecTree>(box.process, std::move(answer->exec), std::move(leaf), executor);
      if (plan->tty) take_terminal(*answer, *plan, streams, *box.process);
      co_return bound(std::move(tree), std::move(streams), executor);
    }
    const InitFailure failure = answer.error();
    // Somebody removed the cgroup, most likely.
    if (is_refusal(failure, init::Step::cgroup) && ++leaves < most_leaves) continue;
    if (in_use && failure.fault == InitFault::refused && !is_refusal(failure, init::Step::cgroup)) {
      in_use->give_back();
    }
    if (!is_busy_program(failure) || tries >= most_tries) fail_start(failure, *plan, *box.process);
    co_await kit::pause_for(try_pause);
  }
}

BoxExecTree::BoxExecTree(std::shared_ptr<BoxProcess> box, std::shared_ptr<InitExec> exec,
                         std::optional<BoxLeaf> leaf, const asio::any_io_executor& executor)
    : box_(std::move(box)), exec_(std::move(exec)), leaf_(std::move(leaf)), leader_(executor) {}

BoxExecTree::~BoxExecTree() {
  if (leader_.is_open()) leader_.release();
  if (box_->core()->forked()) return;
  if (!empty_locked()) kill_locked();
  if (leaf_) box_->cgroup()->give_back(std::move(*leaf_));
}

void BoxExecTree::watch() { leader_.assign(exec_->ended().number); }

std::optional<ExecEnded> BoxExecTree::try_reap() {
  const std::lock_guard lock(mutex_);
  reap_locked();
  return ended_;
}

void BoxExecTree::signal(int number) noexcept {
  if (box_->core()->forked() || exec_->state().exited) return;
  box_->tell(init::SignalExec{exec_->id(), static_cast<std::uint32_t>(number)});
}

void BoxExecTree::kill() noexcept {
  if (box_->core()->forked()) return;
  const std::lock_guard lock(mutex_);
  kill_locked();
}

bool BoxExecTree::empty() noexcept {
  const std::lock_guard lock(mutex_);
  return empty_locked();
}

void BoxExecTree::retire() noexcept {
  const std::lock_guard lock(mutex_);
  if (!leaf_) return;
  box_->cgroup()->give_back(std::move(*leaf_));
  leaf_.reset();
}

void BoxExecTree::reap_locked() {
  if (ended_) return;
  const InitExec::State state = exec_->state();
  if (state.exited) {
    ended_ = container::ended_of(*state.exited);
    if (!leaf_) return;
    ended_->limits_hit = leaf_->limits_hit();
    // Its own accounting is the only proof (S-48).
    if (ended_->signal == SIGKILL && leaf_->oom_kills() > 0) ended_->how = ExecEnd::out_of_memory;
  } else if (!state.lost.empty() || box_->ended()) {
    const std::string cause = box_->end_cause();
    ended_ = lost_of(cause.empty() ? state.lost : "the box has ended: " + cause);
  }
}

bool BoxExecTree::empty_locked() noexcept {
  if (empty_) return true;
  const InitExec::State state = exec_->state();
  if (state.exited && leaf_) {
    const auto populated = leaf_->populated();
    // ENODEV: somebody removed the cgroup, which takes an empty one.
    empty_ = populated ? !*populated : populated.error() == os::error_of(ENODEV);
  } else if (state.exited) {
    empty_ = state.empty;
  }
  if (!empty_) empty_ = box_->ended();
  return empty_;
}

void BoxExecTree::kill_locked() noexcept {
  if (leaf_) static_cast<void>(leaf_->kill());
  // With cgroups too, unless the leader's end is known: an init that does not tell it loses its box.
  if (!empty_locked() && !(leaf_ && ended_) && !std::exchange(killed_, true)) {
    kit::spawn_task(leader_.get_executor(), kill_in_box(box_, exec_, !leaf_), box_->core()->log(),
                    "killing a command of a box");
  }
}

}  // namespace caisson::container
