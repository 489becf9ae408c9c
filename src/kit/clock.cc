// The system's clock, and one that a test advances.
#include "caisson/kit/clock.h"

#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/post.hpp>

#include "os/clock.h"

namespace caisson::kit {
namespace {

// Asio's reactor sleeps on CLOCK_MONOTONIC, which stands still in a suspend; waking at least this often
// bounds how late an alarm of CLOCK_BOOTTIME rings after one.
constexpr std::chrono::seconds longest_sleep{10};

struct BootWaitTraits {
  static BootClock::duration to_wait_duration(const BootClock::duration& wait) {
    return std::min<BootClock::duration>(wait, longest_sleep);
  }
  static BootClock::duration to_wait_duration(const BootTime& when) {
    return to_wait_duration(when - BootClock::now());
  }
};

using BootTimer = boost::asio::basic_waitable_timer<BootClock, BootWaitTraits, boost::asio::any_io_executor>;

class SystemAlarm final : public Alarm {
 public:
  explicit SystemAlarm(const boost::asio::any_io_executor& executor) : timer_(executor) {}
  ~SystemAlarm() override { cancel(); }

  void set(BootTime when, std::function<void()> ring) override {
    cancel();
    armed_ = std::make_shared<bool>(true);
    timer_.expires_at(when);
    // A handler that is already queued is past cancelling; `armed` still stops it.
    timer_.async_wait([armed = armed_, ring = std::move(ring)](const boost::system::error_code& error) {
      if (!error && *armed) ring();
    });
  }
  void cancel() override {
    if (armed_) *armed_ = false;
    timer_.cancel();
  }

 private:
  BootTimer timer_;
  std::shared_ptr<bool> armed_;
};

class SystemClock final : public Clock {
 public:
  BootTime now() const noexcept override { return BootClock::now(); }
  UtcTime utc() const noexcept override {
    return std::chrono::time_point_cast<UtcTime::duration>(std::chrono::system_clock::now());
  }
  std::unique_ptr<Alarm> alarm(boost::asio::any_io_executor executor) override {
    return std::make_unique<SystemAlarm>(executor);
  }
};

}  // namespace

BootTime BootClock::now() noexcept { return BootTime(os::boottime()); }

Alarm::~Alarm() = default;
Clock::~Clock() = default;

std::shared_ptr<Clock> system_clock() { return std::make_shared<SystemClock>(); }

struct ManualClock::State {
  struct Pending {
    BootTime when;
    boost::asio::any_io_executor executor;
    std::shared_ptr<bool> armed;
    std::function<void()> ring;
  };
  mutable std::mutex mutex;
  BootTime now{std::chrono::hours(1)};
  UtcTime utc{std::chrono::sys_days(std::chrono::year(2026) / 1 / 1)};
  std::vector<Pending> pending;  // by time, then by age

  void ring_due();
};

void ManualClock::State::ring_due() {
  std::vector<Pending> due;
  {
    std::lock_guard lock(mutex);
    auto end =
        std::find_if(pending.begin(), pending.end(), [this](const Pending& p) { return p.when > now; });
    due.assign(std::make_move_iterator(pending.begin()), std::make_move_iterator(end));
    pending.erase(pending.begin(), end);
  }
  for (auto& alarm : due) {
    boost::asio::post(alarm.executor, [armed = std::move(alarm.armed), ring = std::move(alarm.ring)] {
      if (*armed) ring();
    });
  }
}

class ManualClock::ManualAlarm final : public Alarm {
 public:
  ManualAlarm(std::shared_ptr<State> state, boost::asio::any_io_executor executor)
      : state_(std::move(state)), executor_(std::move(executor)) {}
  ~ManualAlarm() override { cancel(); }

  void set(BootTime when, std::function<void()> ring) override {
    cancel();
    armed_ = std::make_shared<bool>(true);
    {
      std::lock_guard lock(state_->mutex);
      auto at = std::upper_bound(state_->pending.begin(), state_->pending.end(), when,
                                 [](BootTime t, const State::Pending& p) { return t < p.when; });
      state_->pending.insert(at, {when, executor_, armed_, std::move(ring)});
    }
    state_->ring_due();
  }
  void cancel() override {
    if (!armed_) return;
    *armed_ = false;
    std::lock_guard lock(state_->mutex);
    std::erase_if(state_->pending, [this](const State::Pending& p) { return p.armed == armed_; });
  }

 private:
  std::shared_ptr<State> state_;
  boost::asio::any_io_executor executor_;
  std::shared_ptr<bool> armed_;
};

ManualClock::ManualClock() : state_(std::make_shared<State>()) {}
ManualClock::~ManualClock() = default;

BootTime ManualClock::now() const noexcept {
  std::lock_guard lock(state_->mutex);
  return state_->now;
}

UtcTime ManualClock::utc() const noexcept {
  std::lock_guard lock(state_->mutex);
  return state_->utc;
}

std::unique_ptr<Alarm> ManualClock::alarm(boost::asio::any_io_executor executor) {
  return std::make_unique<ManualAlarm>(state_, std::move(executor));
}

void ManualClock::advance(std::chrono::nanoseconds by) {
  {
    std::lock_guard lock(state_->mutex);
    state_->now += by;
    state_->utc += by;
  }
  state_->ring_due();
}

void ManualClock::step_utc(std::chrono::nanoseconds by) {
  std::lock_guard lock(state_->mutex);
  state_->utc += by;
}

}  // namespace caisson::kit
