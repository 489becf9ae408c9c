// Host and its boxes.
#include "caisson/kit/host.h"

#include <boost/asio/this_coro.hpp>

#include "contract/quote.h"
#include "kit/host_core.h"
#include "kit/host_files.h"
#include "kit/host_start.h"
#include "os/fault_point.h"
#include "os/shim.h"

namespace caisson::kit {
namespace {

namespace asio = boost::asio;
using asio::posix::stream_descriptor;

// Leaves made ahead of the execs that will want them.
constexpr std::size_t leaves_ahead = 4;

struct CancelStart {
  void operator()(asio::cancellation_type) const noexcept { starting->cancel(); }
  std::shared_ptr<Starting> starting;
};

// Hears the cancellation of a start while it lives.
class HearCancellation {
 public:
  HearCancellation(asio::cancellation_slot slot, std::shared_ptr<Starting> starting) : slot_(slot) {
    if (slot_.is_connected()) slot_.assign(CancelStart{std::move(starting)});
  }
  ~HearCancellation() {
    if (slot_.is_connected()) slot_.clear();
  }
  HearCancellation(const HearCancellation&) = delete;
  HearCancellation& operator=(const HearCancellation&) = delete;

 private:
  asio::cancellation_slot slot_;
};

stream_descriptor bind(os::Fd fd, const asio::any_io_executor& executor) {
  stream_descriptor descriptor(executor);
  if (fd) {
    descriptor.assign(fd.number());
    static_cast<void>(std::move(fd).release());
  }
  return descriptor;
}

// A command that cannot be watched ends with its tree.
StartedExec bind(HostStarted started, const asio::any_io_executor& executor) {
  try {
    started.tree->watch();
    StartedExec bound{std::move(started.tree), bind(std::move(started.in), executor),
                      bind(std::move(started.out), executor), bind(std::move(started.err), executor)};
    return bound;
  } catch (const boost::system::system_error& error) {
    throw SandboxError(ErrorCode::unavailable, std::string("the event loop cannot watch the command: ") +
                                                   error.code().message() +
                                                   "; see max_user_watches in epoll(7)");
  }
}

// Not a member: nothing of the box is touched once it is under way.
Awaitable<StartedExec> start_exec(std::shared_ptr<HostCore> core, std::shared_ptr<const HostBoxState> box,
                                  std::shared_ptr<const ExecPlan> plan, asio::any_io_executor executor) {
  auto starting = std::make_shared<Starting>();
  auto cancellation = co_await asio::this_coro::cancellation_state;
  HostStarted started;
  {
    const HearCancellation hearing(cancellation.slot(), starting);
    StartCommand command(core, box, plan, executor, starting);
    started = co_await core->spawners().run(std::move(command));
  }
  if (starting->cancelled()) throw boost::system::system_error(asio::error::operation_aborted);
  co_return bind(std::move(started), executor);
}

class HostBox final : public SessionBox {
 public:
  HostBox(std::shared_ptr<HostCore> core, std::shared_ptr<const HostBoxState> state,
          std::string temporary_directory)
      : core_(std::move(core)),
        state_(std::move(state)),
        files_(std::shared_ptr<Workers>(core_, &core_->files()), state_->workspace,
               std::move(temporary_directory)) {}

  const std::string& workspace_path() const noexcept override { return state_->workspace->path(); }
  Awaitable<StartedExec> start(std::shared_ptr<const ExecPlan> plan,
                               asio::any_io_executor executor) override {
    return start_exec(core_, state_, std::move(plan), std::move(executor));
  }
  Awaitable<std::unique_ptr<SandboxFileReader>> open_reader(std::string path) override {
    return files_.open_reader(std::move(path));
  }
  Awaitable<std::unique_ptr<SandboxFileWriter>> open_writer(std::string path, FileMode mode) override {
    return files_.open_writer(std::move(path), mode);
  }
  Awaitable<void> put_file(std::string path, std::string data, FileMode mode) override {
    return files_.put(std::move(path), std::move(data), mode);
  }
  Awaitable<std::string> get_file(std::string path, std::uint64_t cap) override {
    return files_.get(std::move(path), cap);
  }

 private:
  std::shared_ptr<HostCore> core_;
  std::shared_ptr<const HostBoxState> state_;
  HostFiles files_;
};

class RealHost final : public Host {
 public:
  explicit RealHost(std::shared_ptr<HostCore> core) : core_(std::move(core)) {}

  TreeKill tree_kill() const noexcept override {
    return core_->pool() != nullptr ? TreeKill::cgroup : TreeKill::shim;
  }
  std::string cgroup_path() const override {
    return core_->pool() != nullptr ? core_->pool()->path() : std::string();
  }
  Workers& workers() noexcept override { return core_->sessions(); }
  std::shared_ptr<SessionBox> make_box(HostBoxOptions options) override;

 private:
  std::shared_ptr<HostCore> core_;
};

os::Fd usable_directory(const std::string& path) {
  const auto fault = os::fault_point("create.box");
  auto directory = fault ? os::open_directory(path) : os::Result<os::Fd>(fault.error());
  if (!directory) {
    throw SandboxError(ErrorCode::root_unusable, "directory " + quote(path) +
                                                     " cannot be used: " + directory.error().message() +
                                                     "; make it, or name another");
  }
  return std::move(*directory);
}

std::shared_ptr<SessionBox> RealHost::make_box(HostBoxOptions options) {
  auto directory = usable_directory(options.workspace_path);
  auto state = std::make_shared<HostBoxState>();
  state->workspace = std::make_shared<os::Beneath>(std::move(directory), std::move(options.workspace_path));
  state->base_path = std::move(options.base_path);
  return std::make_shared<HostBox>(core_, std::move(state), std::move(options.temporary_directory));
}

// A pool, or why there can be none.
boost::system::result<std::unique_ptr<os::CgroupLeafPool>, std::string> make_pool() {
  const auto place = os::find_cgroup_place();
  if (!place) return {boost::system::in_place_error, place.error()};
  const std::string name = os::new_cgroup_name();
  auto pool = os::CgroupLeafPool::create(*place, name, leaves_ahead);
  if (!pool) {
    return {boost::system::in_place_error,
            "making cgroup " + quote(name) + " in " + place->directory + ": " + pool.error().message()};
  }
  return std::move(*pool);
}

}  // namespace

Host::~Host() = default;

std::string_view to_string(TreeKill value) noexcept {
  switch (value) {
    case TreeKill::automatic:
      return "automatic";
    case TreeKill::cgroup:
      return "cgroup";
    case TreeKill::shim:
      return "shim";
  }
  return "unknown";
}

std::shared_ptr<Host> Host::open(HostOptions options) {
  prepare_host_program(options.log);
  std::string obstacles;
  if (options.tree_kill != TreeKill::shim) {
    auto pool = make_pool();
    if (pool) return std::make_shared<RealHost>(std::make_shared<HostCore>(std::move(*pool)));
    obstacles = "no cgroup can be had for commands: " + pool.error();
  }
  if (options.tree_kill != TreeKill::cgroup) {
    const auto works = os::probe_shim();
    if (works) {
      if (!obstacles.empty()) {
        log_to(options.log, LogLevel::info, obstacles + "; each command gets a subreaper shim instead");
      }
      return std::make_shared<RealHost>(std::make_shared<HostCore>(nullptr));
    }
    obstacles += (obstacles.empty() ? "" : "; ") + ("no shim can be run: " + works.error().message());
  }
  throw SandboxError(ErrorCode::unavailable, obstacles);
}

}  // namespace caisson::kit
