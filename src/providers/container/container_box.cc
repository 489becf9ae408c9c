// The box of a session.
#include "providers/container/container_box.h"

#include <utility>

namespace caisson::container {
namespace {

// What of a box's making blocks, as a worker takes it.
struct Begun {
  std::shared_ptr<BoxProcess> process;
  PlannedBox planned;
  UidSlot slot;
};
class BeginBox {
 public:
  BeginBox(std::shared_ptr<ContainerCore> core, PrepareBox prepare)
      : core_(std::move(core)), prepare_(std::move(prepare)) {}

  Begun operator()() const {
    BoxRequest request = prepare_();
    const ContainerSettings& settings = core_->settings();
    BoxShape& shape = request.shape;
    const Image image = find_image(request.image, settings, shape.slot).value();
    std::shared_ptr<BoxCgroup> cgroup;
    if (core_->cgroups() != nullptr) {
      const os::CgroupCaps caps = caps_of(request);
      cgroup = core_->cgroups()->make(request.cgroup_name, caps, owner_of_init(shape.slot));
      shape.pids_capped = caps.pids.has_value();
    }
    Begun begun;
    begun.slot = shape.slot;
    begun.process = BoxProcess::spawn(core_, shape.slot, std::move(cgroup));
    begun.planned = plan_box(settings, image, shape, ids_of(*begun.process, image)).value();
    return begun;
  }

 private:
  os::CgroupCaps caps_of(const BoxRequest& request) const {
    os::CgroupCaps caps{request.cpu, request.memory, std::nullopt};
    if (core_->cap_obstacle(os::CgroupController::pids).empty()) caps.pids = core_->settings().pids;
    return caps;
  }
  static InitOwner owner_of_init(const UidSlot& slot) {
    return {slot.first_user + slot.count - 1, slot.first_group + slot.count - 1};
  }
  static os::Fd ids_of(const BoxProcess& process, const Image& image) {
    if (!image.directory) return {};
    auto opened = process.user_namespace();
    if (opened) return std::move(*opened);
    throw SandboxError(ErrorCode::unavailable,
                       "the ids of a new box cannot be had: " + opened.error().message());
  }

  std::shared_ptr<ContainerCore> core_;
  PrepareBox prepare_;
};

struct RemoveBox {
  void operator()() const { process->remove(std::chrono::seconds(2)); }
  std::shared_ptr<BoxProcess> process;
};

}  // namespace

ContainerBox::ContainerBox(std::shared_ptr<BoxProcess> process, const UidSlot& slot)
    : commands_{std::move(process), slot.first_user, slot.first_group}, files_(commands_.process) {}

ContainerBox::~ContainerBox() { end_processes(); }

void ContainerBox::end_processes() noexcept { commands_.process->kill("its session has ended"); }

Awaitable<kit::StartedExec> ContainerBox::start(std::shared_ptr<const kit::ExecPlan> plan,
                                                boost::asio::any_io_executor executor) {
  return start_in_box(commands_, std::move(plan), std::move(executor));
}

Awaitable<std::unique_ptr<SandboxFileReader>> ContainerBox::open_reader(std::string path) {
  return files_.open_reader(std::move(path));
}

Awaitable<std::unique_ptr<SandboxFileWriter>> ContainerBox::open_writer(std::string path, FileMode mode) {
  return files_.open_writer(std::move(path), mode);
}

Awaitable<std::shared_ptr<ContainerBox>> make_box(std::shared_ptr<ContainerCore> core, PrepareBox prepare,
                                                  boost::asio::any_io_executor executor) {
  BeginBox begin(core, std::move(prepare));
  Begun begun = co_await core->spawners().run(std::move(begin));
  std::exception_ptr failure;
  try {
    co_await BoxProcess::build(begun.process, std::move(executor), std::move(begun.planned));
    co_return std::make_shared<ContainerBox>(std::move(begun.process), begun.slot);
  } catch (...) {
    failure = std::current_exception();
  }
  co_await boost::asio::this_coro::reset_cancellation_state(boost::asio::disable_cancellation());
  try {
    RemoveBox remove{begun.process};
    co_await core->sessions().run(std::move(remove));
  } catch (const SandboxError& error) {
    kit::log_to(core->log(), kit::LogLevel::error, error.what());
  }
  std::rethrow_exception(failure);
}

}  // namespace caisson::container
