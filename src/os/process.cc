// Waiting for and signalling children through their pidfds.
#include "os/process.h"

#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <climits>

#include "os/pidfd_info.h"

namespace caisson::os {

namespace {

ExitStatus status_of(const siginfo_t& info) noexcept {
  return {info.si_code != CLD_EXITED, info.si_status, info.si_code == CLD_DUMPED};
}

ExitStatus status_of_wait(int status) noexcept {
  if (WIFSIGNALED(status)) return {true, WTERMSIG(status), WCOREDUMP(status) != 0};
  return {false, WEXITSTATUS(status), false};
}

// The end of a process that is no child of ours, or not any more.
std::optional<Reaped> end_of_a_stranger(FdRef pidfd) noexcept {
  pollfd end{pidfd.number, POLLIN, 0};
  if (::poll(&end, 1, 0) <= 0) return std::nullopt;
  PidfdInfo info{};
  info.mask = pidfd_info_exit;
  if (::ioctl(pidfd.number, pidfd_get_info, &info) == 0) {
    if ((info.mask & pidfd_info_exit) != 0) return Reaped{status_of_wait(info.exit_code), {}};
    // Ended but not yet reaped by whoever reaps it: the kernel keeps the status only from then on, and says
    // so by POLLHUP.
    if ((end.revents & POLLHUP) == 0) return std::nullopt;
  }
  return Reaped{std::nullopt, error_of(ECHILD)};
}

}  // namespace

Result<void> Process::signal(int number) const noexcept {
  if (::syscall(SYS_pidfd_send_signal, pidfd_.number(), number, nullptr, 0) != 0) return last_error();
  return {};
}

std::optional<Reaped> Process::try_reap() const noexcept {
  siginfo_t info{};
  while (::waitid(static_cast<idtype_t>(P_PIDFD), static_cast<id_t>(pidfd_.number()), &info,
                  WEXITED | WNOHANG) != 0) {
    if (errno == EINTR) continue;
    // EAGAIN: an event loop has made the pidfd non-blocking, which waitid(2) reports so.
    if (errno == EAGAIN) return std::nullopt;
    if (errno == ECHILD) return end_of_a_stranger(pidfd_);
    return Reaped{std::nullopt, last_error()};
  }
  if (info.si_pid == 0) return std::nullopt;
  return Reaped{status_of(info), {}};
}

Reaped Process::reap() const noexcept {
  short events = POLLIN;
  for (;;) {
    pollfd end{pidfd_.number(), events, 0};
    if (::poll(&end, 1, -1) < 0 && errno != EINTR) return {std::nullopt, last_error()};
    if (const auto reaped = try_reap()) return *reaped;
    // A zombie that somebody else has yet to reap stays readable; POLLHUP alone is news then.
    if ((end.revents & POLLIN) != 0) events = 0;
  }
}

void Process::wait(std::chrono::milliseconds patience) const noexcept {
  pollfd end{pidfd_.number(), POLLIN, 0};
  ::poll(&end, 1, static_cast<int>(std::min<std::chrono::milliseconds::rep>(patience.count(), INT_MAX)));
}

bool children_are_waitable() noexcept {
  struct sigaction action{};
  if (::sigaction(SIGCHLD, nullptr, &action) != 0) return true;
  return action.sa_handler != SIG_IGN && (action.sa_flags & SA_NOCLDWAIT) == 0;
}

}  // namespace caisson::os
