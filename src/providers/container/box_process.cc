// Starting caisson-init, having it build its box, and ending it.
#include "providers/container/box_process.h"

#include <linux/sched.h>
#include <signal.h>

#include <utility>

#include "caisson/kit/provider.h"
#include "kit/host_errors.h"
#include "os/id_map.h"
#include "os/namespaces.h"
#include "os/socket.h"
#include "os/spawn.h"

namespace caisson::container {
namespace {

using namespace std::chrono_literals;

// Of one reply. Generous: a box is killed for it, and a machine may be busy.
constexpr std::chrono::nanoseconds patience = 20s;
constexpr std::uint64_t box_namespaces =
    CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS;

[[noreturn]] void fail_to_start(int number, const std::string& what, const std::string& advice) {
  if (kit::is_exhaustion(number)) throw kit::DescriptorsExhausted();
  throw SandboxError(ErrorCode::unavailable, "a box cannot be started: " + what + advice);
}

os::IdMaps maps_of(const UidSlot& slot) {
  return {{{0, slot.first_user, slot.count}}, {{0, slot.first_group, slot.count}}};
}

std::string advice_for(const os::SpawnFailure& failure) {
  if (failure.step == os::SpawnStep::exec) return "; see that CAISSON_INIT names a program for this machine";
  if (failure.step != os::SpawnStep::clone) return {};
  switch (failure.number) {
    case EPERM:
      return "; user namespaces must be permitted: not in a chroot(2), and see "
             "kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns, and in Docker "
             "--security-opt seccomp=unconfined";
    case ENOSPC:
    case EUSERS:
      return "; see user.max_user_namespaces and its like in namespaces(7)";
    default:
      return {};
  }
}

std::string advice_for(const InitFailure& failure) {
  if (failure.fault != InitFault::refused) return {};
  switch (failure.step) {
    case init::Step::proc:
      return "; mounting proc takes one that nothing is mounted over: in Docker --security-opt "
             "seccomp=unconfined --security-opt systempaths=unconfined permit it";
    case init::Step::mount:
    case init::Step::dev:
      return "; see that the directories of the image and of the workspace can be reached by the box's user";
    default:
      return {};
  }
}

std::string in_words(const os::SpawnFailure& failure) {
  return std::string(failure.step == os::SpawnStep::clone ? "making its namespaces"
                                                          : "running caisson-init") +
         ": " + os::error_of(failure.number).message();
}

struct CompleteJob {
  void operator()() const { cgroup->complete(); }
  std::shared_ptr<BoxCgroup> cgroup;
};

}  // namespace

std::shared_ptr<BoxProcess> BoxProcess::spawn(std::shared_ptr<ContainerCore> core, const UidSlot& slot,
                                              std::shared_ptr<BoxCgroup> cgroup) {
  auto sockets = os::make_socket_pair();
  if (!sockets) fail_to_start(sockets.error().value(), "making a socket: " + sockets.error().message(), {});
  const auto input = os::open_empty_input();
  if (!input) fail_to_start(input.error().value(), "opening /dev/null: " + input.error().message(), {});
  const char* const argv[] = {"caisson-init", nullptr};
  const char* const envp[] = {nullptr};
  os::SpawnPlan plan;
  plan.program = core->init_program();
  plan.argv = argv;
  plan.envp = envp;
  for (os::FdRef& descriptor : plan.descriptors) descriptor = *input;
  plan.extra = sockets->second;
  if (cgroup) plan.cgroup = cgroup->init_leaf();
  plan.namespaces = box_namespaces;
  plan.raise_capabilities = true;
  auto process = os::spawn(plan);
  if (!process) {
    fail_to_start(process.error().number, in_words(process.error()), advice_for(process.error()));
  }
  std::shared_ptr<BoxProcess> box(
      new BoxProcess(std::move(core), std::move(*process), std::move(sockets->first), std::move(cgroup)));
  const auto mapped = os::write_id_maps(box->process_, maps_of(slot));
  if (!mapped) fail_to_start(mapped.error().number, mapped.error().text, {});
  return box;
}

std::shared_ptr<BoxProcess> BoxProcess::adopt(std::shared_ptr<ContainerCore> core, os::Process process,
                                              os::Fd socket) {
  return std::shared_ptr<BoxProcess>(
      new BoxProcess(std::move(core), std::move(process), std::move(socket), nullptr));
}

BoxProcess::BoxProcess(std::shared_ptr<ContainerCore> core, os::Process process, os::Fd socket,
                       std::shared_ptr<BoxCgroup> cgroup)
    : core_(std::move(core)),
      cgroup_(std::move(cgroup)),
      process_(std::move(process)),
      socket_(std::move(socket)) {}

BoxProcess::~BoxProcess() {
  if (core_->forked()) return;
  kill("it is not wanted any more");
  if (!ended()) core_->cleaner().take(std::move(process_), std::nullopt);
}

os::Result<os::Fd> BoxProcess::user_namespace() const noexcept {
  return os::open_namespace(process_.pidfd(), CLONE_NEWUSER);
}

Awaitable<void> BoxProcess::build(std::shared_ptr<BoxProcess> self, boost::asio::any_io_executor executor,
                                  PlannedBox planned) {
  InitClientOptions options;
  options.clock = self->core_->clock();
  options.on_end = [weak = std::weak_ptr(self)](const std::string& why) {
    if (const auto box = weak.lock()) box->kill("its caisson-init has ended: " + why);
  };
  self->client_ = std::make_unique<InitClient>(executor, std::move(self->socket_), std::move(options));
  if (self->cgroup_) self->cgroup_->add_to(planned.plan, planned.attached);
  // Together: an answer costs two changes of process.
  self->tell(init::Hello());
  init::BuildBox build;
  build.plan = std::move(planned.plan);
  init::Request request = std::move(build);
  auto answer = co_await ask(self, std::move(request), std::move(planned.attached));
  if (!answer && answer.error().step == init::Step::protocol) {
    // Why the greeting was refused says more.
    init::Request hello = init::Hello();
    const auto greeted = co_await ask(self, std::move(hello), std::vector<os::Fd>());
    if (!greeted && greeted.error().fault == InitFault::refused) answer = greeted.error();
  }
  if (answer && self->cgroup_) {
    CompleteJob complete{self->cgroup_};
    if (self->cgroup_->blocks_to_complete()) {
      co_await self->core_->spawners().run(std::move(complete));
    } else {
      complete();
    }
  }
  if (answer) co_return;
  const InitFailure failure = answer.error();
  self->kill("it could not be built");
  if (failure.fault == InitFault::unsent && kit::is_exhaustion(failure.number)) {
    throw kit::DescriptorsExhausted();
  }
  throw SandboxError(ErrorCode::unavailable,
                     "a box could not be built: " + describe(failure) + advice_for(failure));
}

Awaitable<InitResult<InitAnswer>> BoxProcess::ask(std::shared_ptr<BoxProcess> self, init::Request request,
                                                  std::vector<os::Fd> descriptors) {
  auto answer = co_await self->client_->call(std::move(request), std::move(descriptors), patience);
  if (!answer && answer.error().fault == InitFault::silent) {
    self->kill("its caisson-init did not answer in time");
  }
  co_return answer;
}

void BoxProcess::tell(init::Request request) { client_->tell(std::move(request)); }

void BoxProcess::kill(const std::string& why) noexcept {
  if (core_->forked()) return;
  const std::lock_guard lock(mutex_);
  if (cause_.empty()) cause_ = why;
  if (cgroup_ && !reaped_) static_cast<void>(cgroup_->kill());
  if (!reaped_) static_cast<void>(process_.signal(SIGKILL));
}

bool BoxProcess::ended() noexcept {
  if (core_->forked()) return false;
  const std::lock_guard lock(mutex_);
  // Process 1 of a PID namespace is a zombie when it has reaped all others (pid_namespaces(7)).
  if (!reaped_) reaped_ = process_.try_reap().has_value();
  return reaped_;
}

bool BoxProcess::wait_ended(std::chrono::milliseconds patience_for_it) noexcept {
  const auto until = std::chrono::steady_clock::now() + patience_for_it;
  while (!ended()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    if (left <= 0ms) return false;
    process_.wait(left);
  }
  return true;
}

void BoxProcess::remove(std::chrono::milliseconds patience_for_it) {
  kill("it is being removed");
  if (!wait_ended(patience_for_it)) {
    throw SandboxError(ErrorCode::removal_failed,
                       "the processes of a session's box were killed and do not end; it stays listed, and is "
                       "tried again at the next reap or destroy");
  }
  if (!cgroup_) return;
  const auto removed = cgroup_->remove(patience_for_it);
  if (removed) return;
  throw SandboxError(ErrorCode::removal_failed, "the cgroup of a session's box cannot be removed: " +
                                                    removed.error().text + "; it is tried again");
}

std::string BoxProcess::end_cause() const {
  const std::lock_guard lock(mutex_);
  return cause_;
}

}  // namespace caisson::container
