// Clock: time as an interface, so that a test can advance it (S-20).
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <chrono>
#include <functional>
#include <memory>

#include "caisson/contract/models.h"

namespace caisson::kit {

/// CLOCK_BOOTTIME as a std::chrono clock (clock_gettime(2)): time since boot, suspend included. What
/// deadlines are kept on.
struct BootClock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<BootClock>;
  static constexpr bool is_steady = true;
  static time_point now() noexcept;
};
using BootTime = BootClock::time_point;

/// A one-shot alarm of a Clock. Destroying it cancels it.
class Alarm {
 public:
  virtual ~Alarm();
  /// Calls `ring` once, on the alarm's executor, at or soon after `when`; replaces what was set before.
  virtual void set(BootTime when, std::function<void()> ring) = 0;
  /// After this nothing rings that had not yet begun to. Call it on the alarm's executor.
  virtual void cancel() = 0;
};

/// Where Caisson gets the time from. Thread-safe.
class Clock {
 public:
  virtual ~Clock();
  virtual BootTime now() const noexcept = 0;
  /// The wall clock, for display only.
  virtual UtcTime utc() const noexcept = 0;
  virtual std::unique_ptr<Alarm> alarm(boost::asio::any_io_executor executor) = 0;
};

/// The system's time.
std::shared_ptr<Clock> system_clock();

/// A clock that stands still until it is advanced. For tests, of providers outside this repository too.
class ManualClock final : public Clock {
 public:
  ManualClock();
  ~ManualClock() override;
  BootTime now() const noexcept override;
  UtcTime utc() const noexcept override;
  std::unique_ptr<Alarm> alarm(boost::asio::any_io_executor executor) override;
  /// Moves both times forward and posts the alarms that are due, in the order of their times.
  void advance(std::chrono::nanoseconds by);
  /// Moves the wall clock alone, either way.
  void step_utc(std::chrono::nanoseconds by);

 private:
  class ManualAlarm;
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace caisson::kit
