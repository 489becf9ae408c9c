// Caisson's side of the shim.
#include "os/shim.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <thread>
#include <vector>

#include "os/fault_point.h"
#include "os/shim_program.h"
#include "os/shim_protocol.h"

namespace caisson::os {

namespace {

std::uint32_t count_of(const char* const* strings) noexcept {
  std::uint32_t count = 0;
  while (strings[count] != nullptr) ++count;
  return count;
}

// The request as it goes over the socket, wiped at its end.
class Message {
 public:
  explicit Message(const SpawnPlan& plan) {
    ShimRequest request{};
    request.candidates = static_cast<std::uint32_t>(plan.candidates.size());
    request.arguments = count_of(plan.argv);
    request.variables = count_of(plan.envp);
    request.terminal = plan.terminal ? 1 : 0;
    request.descriptor_limit_soft = plan.descriptor_limit_soft;
    for (const char* string : plan.candidates) request.bytes += ::strlen(string) + 1;
    for (const char* const* string = plan.argv; *string != nullptr; ++string)
      request.bytes += ::strlen(*string) + 1;
    for (const char* const* string = plan.envp; *string != nullptr; ++string)
      request.bytes += ::strlen(*string) + 1;
    bytes_.reserve(sizeof request + request.bytes);
    append(reinterpret_cast<const char*>(&request), sizeof request);
    for (const char* string : plan.candidates) append(string, ::strlen(string) + 1);
    for (const char* const* string = plan.argv; *string != nullptr; ++string)
      append(*string, ::strlen(*string) + 1);
    for (const char* const* string = plan.envp; *string != nullptr; ++string)
      append(*string, ::strlen(*string) + 1);
  }
  ~Message() { ::explicit_bzero(bytes_.data(), bytes_.size()); }
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;
  std::string_view bytes() const noexcept { return {bytes_.data(), bytes_.size()}; }

 private:
  void append(const char* data, std::size_t size) { bytes_.insert(bytes_.end(), data, data + size); }
  std::vector<char> bytes_;  // its whole size is reserved first, so that no copy is left behind
};

// What is said to a shim until its first report. A command may have stopped its shim (kill -STOP $PPID), even
// before that report; a stopped shim hears of a cancellation, or of our end, only when it is continued.
class ShimHandshake {
 public:
  ShimHandshake(Fd& socket, const Process& shim, FdRef cancel) noexcept
      : socket_(socket), shim_(shim), cancel_(cancel) {}

  // Sends the plan. A shim that does not take it says why in its answer, or says nothing.
  void send(std::string_view bytes) noexcept {
    while (!bytes.empty()) {
      const ssize_t count = ::send(socket_.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (count >= 0) {
        bytes.remove_prefix(static_cast<std::size_t>(count));
      } else if (errno == EAGAIN) {
        if (!wait_for(POLLOUT)) return;
      } else if (errno != EINTR) {
        return;
      }
    }
  }

  // Whether the leader started.
  Result<ShimReport> receive() noexcept {
    ShimReport report;
    for (;;) {
      // A report is sent in one piece.
      const ssize_t count = ::recv(socket_.number(), &report, sizeof report, MSG_DONTWAIT);
      if (count == static_cast<ssize_t>(sizeof report)) return report;
      if (count >= 0) return error_of(ECONNRESET);
      if (errno == EAGAIN) {
        if (!wait_for(POLLIN)) return error_of(ETIMEDOUT);
      } else if (errno != EINTR) {
        return last_error();
      }
    }
  }

  // Tells the shim to kill its tree and go, and sees it gone. Killing it is the last resort, for its
  // descendants would live.
  void end() noexcept {
    socket_.reset();
    give_up();
    while (!shim_.try_reap()) {
      if (std::chrono::steady_clock::now() >= *last_) {
        static_cast<void>(shim_.signal(SIGKILL));
        shim_.reap();
        return;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(next_pause()));
    }
  }

 private:
  static constexpr std::chrono::seconds patience{10};
  static constexpr int longest_pause_ms = 20;

  // False when the shim, told to end, has not answered for too long.
  bool wait_for(short events) noexcept {
    std::array<pollfd, 2> polled{{{socket_.number(), events, 0}, {cancel_.number, POLLIN, 0}}};
    if (last_) {
      if (std::chrono::steady_clock::now() >= *last_) return false;
      ::poll(polled.data(), 1, next_pause());
    } else if (::poll(polled.data(), polled.size(), -1) > 0 && polled[1].revents != 0) {
      ::shutdown(socket_.number(), SHUT_WR);
      give_up();
    }
    return true;
  }

  void give_up() noexcept {
    if (!last_) last_ = std::chrono::steady_clock::now() + patience;
    pause_ms_ = 0;
  }

  // Continues the shim, and says how long to wait before that is done again.
  int next_pause() noexcept {
    static_cast<void>(shim_.signal(SIGCONT));
    pause_ms_ = std::min(pause_ms_ + 1, longest_pause_ms);
    return pause_ms_;
  }

  Fd& socket_;
  const Process& shim_;
  FdRef cancel_;
  int pause_ms_ = 0;
  std::optional<std::chrono::steady_clock::time_point> last_;  // Set once the shim is to end.
};

SpawnFailure failure_of(SpawnStep step, const Error& error) noexcept { return {step, error.value()}; }

}  // namespace

void ShimTree::poll() noexcept {
  if (empty_ || !socket_) return;
  if (killing_) static_cast<void>(shim_.signal(SIGCONT));
  std::array<char, 256> buffer;
  for (;;) {
    const ssize_t count = ::recv(socket_.number(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) break;
    if (count <= 0) {
      if (!leader_) leader_ = Reaped{std::nullopt, error_of(ECONNRESET)};
      empty_ = true;
      break;
    }
    inbox_.append(buffer.data(), static_cast<std::size_t>(count));
    while (inbox_.size() >= sizeof(ShimReport)) {
      ShimReport report;
      ::memcpy(&report, inbox_.data(), sizeof report);
      inbox_.erase(0, sizeof report);
      if (report.news == ShimNews::ended) {
        leader_ = Reaped{ExitStatus{report.signaled != 0, report.value, report.core != 0}, {}};
      } else if (report.news == ShimNews::empty) {
        empty_ = true;
      }
    }
  }
}

Result<void> ShimTree::signal(int number) noexcept {
  if (leader_) return error_of(ESRCH);
  if (number < 1 || number > 64) return error_of(EINVAL);
  const auto byte = static_cast<unsigned char>(number);
  if (::send(socket_.number(), &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1) return {};
  return errno == EPIPE || errno == ECONNRESET ? error_of(ESRCH) : last_error();
}

void ShimTree::kill() noexcept {
  killing_ = true;
  kill_point("shim.kill");
  ::shutdown(socket_.number(), SHUT_WR);
  // A command may have stopped its shim, which then hears nothing; poll() goes on with it until the tree is
  // gone.
  if (!empty_) static_cast<void>(shim_.signal(SIGCONT));
}

boost::system::result<ShimTree, SpawnFailure> spawn_under_shim(const SpawnPlan& plan, FdRef cancel) {
  if (const auto fault = fault_point("shim.start"); !fault) {
    return failure_of(SpawnStep::shim, fault.error());
  }
  if (!plan.limits.empty() || plan.namespaces != 0 || plan.raise_capabilities || plan.ids ||
      plan.capability_mask || plan.no_new_privileges || !plan.seccomp.empty()) {
    return SpawnFailure{SpawnStep::shim, EINVAL};
  }
  const auto program = shim_program();
  if (!program) return failure_of(SpawnStep::shim, program.error());
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return failure_of(SpawnStep::shim, last_error());
  }
  Fd our_end = Fd::adopt(ends[0]);
  Fd its_end = Fd::adopt(ends[1]);
  auto ours = spare_descriptor(std::move(our_end));
  auto its = spare_descriptor(std::move(its_end));
  if (!ours || !its) return failure_of(SpawnStep::shim, !ours ? ours.error() : its.error());

  const Message message(plan);
  const char* const argv[] = {"caisson-shim", nullptr};
  const char* const envp[] = {nullptr};
  SpawnPlan shim;
  shim.program = *program;
  shim.argv = argv;
  shim.envp = envp;
  shim.directory = plan.directory;
  for (int i = 0; i < 3; ++i) shim.descriptors[i] = plan.descriptors[i];
  shim.extra = *its;
  shim.subreaper = true;
  // One that its command has stopped would not hear of our end.
  shim.parent_death_signal = SIGCONT;
  auto process = spawn(shim);
  its->reset();
  if (!process) {
    // That the shim cannot be run is nothing about the command.
    const SpawnFailure failure = process.error();
    return SpawnFailure{failure.step == SpawnStep::exec ? SpawnStep::shim : failure.step, failure.number};
  }

  ShimHandshake handshake(*ours, *process, cancel);
  kill_point("shim.send");
  handshake.send(message.bytes());
  kill_point("shim.sent");
  const auto answer = handshake.receive();
  if (answer && answer->news == ShimNews::started) return ShimTree(std::move(*ours), std::move(*process));
  handshake.end();
  return answer ? SpawnFailure{answer->step, answer->value} : failure_of(SpawnStep::shim, answer.error());
}

Result<Cancel> Cancel::make() noexcept {
  const int number = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (number < 0) return last_error();
  auto event = spare_descriptor(Fd::adopt(number));
  if (!event) return event.error();
  return Cancel(std::move(*event));
}

void Cancel::cancel() noexcept {
  const std::uint64_t one = 1;
  // Fails only when it was cancelled often enough already.
  static_cast<void>(::write(event_.number(), &one, sizeof one));
}

Result<void> probe_shim() noexcept {
  const auto empty = open_empty_input();
  if (!empty) return empty.error();
  const char* const none[] = {nullptr};
  SpawnPlan plan;
  plan.argv = none;
  plan.envp = none;
  for (FdRef& descriptor : plan.descriptors) descriptor = *empty;
  // With nothing to run, a shim that works answers that it found nothing.
  auto tree = spawn_under_shim(plan);
  if (tree || tree.error().step == SpawnStep::exec) return {};
  return error_of(tree.error().number);
}

}  // namespace caisson::os
