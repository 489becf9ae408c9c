// VirtualTime: std::chrono::steady_clock and Asio's timers on one thread, moved by the test.
#pragma once

#include <chrono>
#include <cstdint>

namespace caisson::test {

/// While it lives, steady_clock stands still on the thread that made it, and the timers of every io_context
/// made meanwhile follow that time alone. Other threads keep the real time. One at a time on a thread.
///
/// The kit's own mechanics (back-off, grace, patience) are on steady_clock; in real time they would fall
/// differently in each run of one seed. This replaces clock_gettime(2) and timerfd_create(2) in the program
/// that links it: without a timerfd Asio looks at its timers at every poll.
class VirtualTime {
 public:
  VirtualTime();
  ~VirtualTime();
  VirtualTime(const VirtualTime&) = delete;
  VirtualTime& operator=(const VirtualTime&) = delete;

  void advance(std::chrono::nanoseconds by) noexcept { now_ += by.count(); }

 private:
  std::int64_t now_ = 0;
};

}  // namespace caisson::test
