// SeededLoop: an event loop that runs what is ready in an order chosen by a seed, over a time it moves
// itself.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/execution/blocking.hpp>
#include <boost/asio/execution/context.hpp>
#include <boost/asio/io_context.hpp>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "caisson/kit/clock.h"
#include "tests/races/virtual_time.h"

namespace caisson::test {

/// Single-threaded, and the same each time for one seed. Its executor queues every handler; a step takes one
/// of the queue, any one. Descriptors and timers bound to that executor work. Time (clock(), and the steady
/// clock of this thread) stands still but for advance(), and for run_until() when nothing is ready.
class SeededLoop {
 public:
  class Executor;

  explicit SeededLoop(std::uint64_t seed) : random_(seed) {}
  ~SeededLoop();
  SeededLoop(const SeededLoop&) = delete;
  SeededLoop& operator=(const SeededLoop&) = delete;

  boost::asio::any_io_executor executor();
  const std::shared_ptr<kit::ManualClock>& clock() const noexcept { return clock_; }
  /// How many handlers have run: tells what came before what where time stood still.
  std::uint64_t steps() const noexcept { return steps_; }

  /// A number of the seed's, from 0 to `bound` - 1.
  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(random_() % bound); }
  bool one_in(std::size_t count) { return below(count) == 0; }

  void advance(std::chrono::nanoseconds by);
  /// Runs one ready handler; false when none is.
  bool step();
  /// The same, moving time on until one is ready; false when none is within `patience`.
  bool step_in_time(std::chrono::nanoseconds patience = std::chrono::minutes(10));
  /// Steps in time until nothing is ready for longer than any pause of the kit's own lasts.
  void settle() {
    while (step_in_time(std::chrono::seconds(5))) {
    }
  }
  /// Steps in time until `done()`; false when nothing will ever be ready before.
  template <class Done>
  bool run_until(Done done) {
    while (!done()) {
      if (!step_in_time()) return false;
    }
    return true;
  }
  /// Runs a blocking call on a thread of its own. Once it waits for this loop (it has posted something), or
  /// has ended, steps while `busy()`, then lets it end. What it posts is ready afterwards. Where it
  /// `may_poll` for something of the loop's, steps until it ends: then real time has a say in the order.
  /// False when nothing is ever ready while `busy()`.
  bool run_beside(const std::function<void()>& call, const std::function<bool()>& busy,
                  bool may_poll = false);
  /// Held while a handler runs: for what a call of run_beside() shares with handlers. Recursive, so that they
  /// may take it too.
  std::recursive_mutex& turn() noexcept { return turn_; }
  bool on_thread() const noexcept { return std::this_thread::get_id() == thread_; }

 private:
  struct Work {
    virtual ~Work() = default;
    virtual void run() = 0;
  };
  template <class Function>
  struct WorkOf final : Work {
    explicit WorkOf(Function&& what) : function(std::move(what)) {}
    void run() override { std::move(function)(); }
    Function function;
  };

  void add(std::unique_ptr<Work> work);
  void take_from_beside();

  const std::thread::id thread_ = std::this_thread::get_id();
  VirtualTime steady_;
  std::shared_ptr<kit::ManualClock> clock_ = std::make_shared<kit::ManualClock>();
  std::vector<std::unique_ptr<Work>> ready_;
  boost::asio::io_context context_;  // for its descriptors and timers
  std::mt19937_64 random_;
  std::uint64_t steps_ = 0;
  bool running_ = false;

  std::mutex mutex_;
  std::recursive_mutex turn_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Work>> from_beside_;
  bool beside_over_ = true;
};

/// Behaves as io_context's own: a post queues; a dispatch from a handler runs at once.
class SeededLoop::Executor {
 public:
  explicit Executor(SeededLoop* loop) : loop_(loop) {}

  boost::asio::execution_context& query(boost::asio::execution::context_t) const noexcept {
    return loop_->context_;
  }
  constexpr boost::asio::execution::blocking_t query(boost::asio::execution::blocking_t) const noexcept {
    if (inline_) return boost::asio::execution::blocking.possibly;
    return boost::asio::execution::blocking.never;
  }
  Executor require(boost::asio::execution::blocking_t::never_t) const noexcept { return {loop_, false}; }
  Executor require(boost::asio::execution::blocking_t::possibly_t) const noexcept { return {loop_, true}; }
  template <class Function>
  void execute(Function&& function) const {
    if (inline_ && loop_->running_ && loop_->on_thread()) {
      std::decay_t<Function> now(std::forward<Function>(function));
      std::move(now)();
      return;
    }
    std::decay_t<Function> later(std::forward<Function>(function));
    loop_->add(std::make_unique<WorkOf<std::decay_t<Function>>>(std::move(later)));
  }
  friend bool operator==(const Executor& one, const Executor& other) noexcept = default;

 private:
  Executor(SeededLoop* loop, bool runs_inline) : loop_(loop), inline_(runs_inline) {}
  SeededLoop* loop_;
  bool inline_ = true;
};

}  // namespace caisson::test
