// Task: a coroutine that runs beside the check that started it.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>
#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "caisson/contract/awaitable.h"

namespace caisson::kit::conformance {

/// Runs `work` at once on `executor`, whose loop has one thread: the one that uses the task. Dropping the
/// task cancels the work without waiting for it. One coroutine waits at a time.
template <class T>
class Task {
 public:
  Task(boost::asio::any_io_executor executor, Awaitable<T> work)
      : executor_(std::move(executor)), state_(std::make_shared<State>(executor_)) {
    auto done = [state = state_](std::exception_ptr) {
      state->done = true;
      state->wake.cancel();
    };
    boost::asio::co_spawn(executor_, drive(state_, std::move(work)),
                          boost::asio::bind_cancellation_slot(state_->signal.slot(), std::move(done)));
  }
  Task(Task&&) noexcept = default;
  Task& operator=(Task&&) = delete;
  ~Task() {
    if (state_) cancel();
  }

  void cancel() {
    boost::asio::post(executor_, [state = state_] {
      if (!state->done) state->signal.emit(boost::asio::cancellation_type::terminal);
    });
  }
  bool done() const noexcept { return state_->done; }

  /// Whether the work ended within `limit`.
  Awaitable<bool> settled(std::chrono::duration<double> limit) { return wait(state_, limit); }

  /// What the work returned or threw, once.
  Awaitable<T> get() { return result(state_); }

 private:
  using Slot = std::conditional_t<std::is_void_v<T>, char, T>;

  struct State {
    explicit State(const boost::asio::any_io_executor& executor) : wake(executor) {}
    boost::asio::steady_timer wake;
    boost::asio::cancellation_signal signal;
    std::optional<Slot> value;
    std::exception_ptr error;
    bool done = false;
  };

  static Awaitable<void> drive(std::shared_ptr<State> state, Awaitable<T> work) {
    try {
      if constexpr (std::is_void_v<T>) {
        co_await std::move(work);
      } else {
        T value = co_await std::move(work);
        state->value.emplace(std::move(value));
      }
    } catch (...) {
      state->error = std::current_exception();
    }
  }

  static Awaitable<bool> wait(std::shared_ptr<State> state, std::chrono::duration<double> limit) {
    if (state->done) co_return true;
    state->wake.expires_after(std::chrono::duration_cast<std::chrono::nanoseconds>(limit));
    const auto [error] = co_await state->wake.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
    if (error && !state->done) throw boost::system::system_error(error);
    co_return state->done;
  }

  static Awaitable<T> result(std::shared_ptr<State> state) {
    while (!state->done) co_await wait(state, std::chrono::hours(24));
    if (state->error) std::rethrow_exception(state->error);
    if constexpr (!std::is_void_v<T>) co_return std::move(*state->value);
  }

  boost::asio::any_io_executor executor_;
  std::shared_ptr<State> state_;
};

}  // namespace caisson::kit::conformance
