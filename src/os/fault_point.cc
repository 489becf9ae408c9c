// Fault points: what is armed, and what was passed.
#include "os/fault_point.h"

#ifdef CAISSON_FAULT_POINTS

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

namespace caisson::os {
namespace {

std::atomic<bool> armed = false;
std::mutex mutex;
std::vector<Fault> faults;
std::map<std::string, std::size_t> passages;

// What strikes at this passage, or nothing.
const Fault* pass(const char* name) {
  const std::size_t passage = ++passages[name];
  const auto strikes = [&](const Fault& fault) {
    return fault.point == name && fault.first <= passage && passage <= fault.last;
  };
  const auto fault = std::ranges::find_if(faults, strikes);
  return fault == faults.end() ? nullptr : &*fault;
}

}  // namespace

Result<void> fault_point(const char* name) noexcept {
  if (!armed.load(std::memory_order_relaxed)) return {};
  const std::lock_guard lock(mutex);
  const Fault* const fault = pass(name);
  if (fault == nullptr) return {};
  if (fault->error != 0) return error_of(fault->error);
  // No other thread may come further than this one: the lock stays held until the kernel has ended them all.
  ::kill(::getpid(), SIGKILL);
  for (;;) ::pause();
}

void kill_point(const char* name) noexcept { static_cast<void>(fault_point(name)); }

void arm_faults(std::vector<Fault> to_arm) {
  const std::lock_guard lock(mutex);
  faults = std::move(to_arm);
  passages.clear();
  armed = true;
}

std::map<std::string, std::size_t> disarm_faults() {
  const std::lock_guard lock(mutex);
  armed = false;
  faults.clear();
  return std::exchange(passages, {});
}

}  // namespace caisson::os

#endif
