// Event: what coroutines of one strand wait on for a change of the strand's state.
#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>

#include "caisson/contract/awaitable.h"

namespace caisson::kit {

/// Throws operation_aborted if the running coroutine was cancelled.
inline Awaitable<void> throw_if_cancelled() {
  const auto state = co_await boost::asio::this_coro::cancellation_state;
  if (state.cancelled() != boost::asio::cancellation_type::none) {
    throw boost::system::system_error(boost::asio::error::operation_aborted);
  }
}

/// Used on one strand only. There is no memory: wait() looks forward, so callers loop over the state they
/// wait for.
class Event {
 public:
  explicit Event(const boost::asio::any_io_executor& executor)
      : timer_(executor, boost::asio::steady_timer::time_point::max()) {}

  /// Until the next notify(). Throws operation_aborted when the waiting coroutine is cancelled.
  Awaitable<void> wait() {
    co_await timer_.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
    co_await throw_if_cancelled();
  }
  /// Wakes whoever waits now.
  void notify() { timer_.cancel(); }

 private:
  boost::asio::steady_timer timer_;
};

/// A pause of real time for the kit's own mechanics (back-off, grace); deadlines are the Clock's.
inline Awaitable<void> pause_for(std::chrono::steady_clock::duration time) {
  boost::asio::steady_timer timer(co_await boost::asio::this_coro::executor, time);
  co_await timer.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
  co_await throw_if_cancelled();
}

}  // namespace caisson::kit
