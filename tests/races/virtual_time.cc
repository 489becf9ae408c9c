// The two calls of libc that Asio and libstdc++ take their time from.
#include "tests/races/virtual_time.h"

#include <errno.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace {

thread_local const std::int64_t* virtual_now = nullptr;

}  // namespace

// These take the place of libc's in this program and in the libraries it loads.
extern "C" int clock_gettime(clockid_t clock, struct timespec* time) noexcept {
  if (clock == CLOCK_MONOTONIC && virtual_now != nullptr) {
    time->tv_sec = *virtual_now / 1'000'000'000;
    time->tv_nsec = *virtual_now % 1'000'000'000;
    return 0;
  }
  return static_cast<int>(::syscall(SYS_clock_gettime, clock, time));
}

extern "C" int timerfd_create(int clock, int flags) noexcept {
  if (virtual_now != nullptr) {
    errno = ENOSYS;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_timerfd_create, clock, flags));
}

namespace caisson::test {

VirtualTime::VirtualTime() {
  now_ = std::chrono::steady_clock::now().time_since_epoch().count();
  virtual_now = &now_;
}

VirtualTime::~VirtualTime() { virtual_now = nullptr; }

}  // namespace caisson::test
