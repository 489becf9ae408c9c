// Child processes as pidfds: waited for and signalled through them, never by number.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>

#include "os/fd.h"

namespace caisson::os {

/// How a child ended, from waitid(2).
struct ExitStatus {
  bool signaled = false;
  int code = 0;       ///< Exit code, or the signal's number.
  bool core = false;  ///< Dumped core.
};

/// A child's end, or why it cannot be known.
struct Reaped {
  std::optional<ExitStatus> status;
  Error lost;  ///< Set when `status` is not: ECHILD and no PIDFD_GET_INFO, because the host program reaps for
               ///< us.
};

/// One child: its pidfd, and its number for messages only.
class Process {
 public:
  Process() noexcept = default;
  Process(Fd pidfd, pid_t pid) noexcept : pidfd_(std::move(pidfd)), pid_(pid) {}

  /// Polls readable when the child has ended (pidfd_open(2)).
  FdRef pidfd() const noexcept { return pidfd_; }
  pid_t pid() const noexcept { return pid_; }
  explicit operator bool() const noexcept { return static_cast<bool>(pidfd_); }

  /// pidfd_send_signal(2); ESRCH after the child was reaped.
  Result<void> signal(int number) const noexcept;
  /// Reaps the child if it has ended; nothing if it has not. Where waitid finds no child (SIGCHLD ignored,
  /// reaped by the host program), the status comes from PIDFD_GET_INFO (Linux 6.15) or is lost.
  std::optional<Reaped> try_reap() const noexcept;
  /// Blocks until it has ended.
  Reaped reap() const noexcept;
  /// Blocks until it has ended, or at most so long, and reaps nothing.
  void wait(std::chrono::milliseconds patience) const noexcept;

 private:
  Fd pidfd_;
  pid_t pid_ = -1;
};

/// Whether waitid will find our children: false where the host program ignores SIGCHLD or set SA_NOCLDWAIT.
bool children_are_waitable() noexcept;

}  // namespace caisson::os
