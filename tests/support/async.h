// run: a coroutine's outcome, for tests.
#pragma once

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <future>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "caisson/contract/awaitable.h"

namespace caisson::test {

/// Runs `context` on this thread until `done()`, at most `patience`, and returns whether it is done. It takes
/// no stop of the context for an end: one for want of work may come late from the thread that had the last of
/// it.
template <class Done>
bool run_until(boost::asio::io_context& context, Done done,
               std::chrono::milliseconds patience = std::chrono::seconds(60)) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  // Work that is on another thread meanwhile must not end the loop.
  const auto work = boost::asio::make_work_guard(context);
  while (!done()) {
    context.restart();
    if (context.run_one_until(deadline) == 0 && std::chrono::steady_clock::now() >= deadline) return false;
  }
  return true;
}

/// Runs `context` on this thread until the coroutine is done, and returns its value or throws what it threw.
/// What else the context has to do stays in it, for the next run. Throws std::runtime_error when the
/// coroutine is not done after `patience`; it is then left in the context.
///
/// The coroutine is a named function called with named objects: `run(context, read_all(session, path))`.
template <class T>
T run(boost::asio::io_context& context, Awaitable<T> coroutine,
      std::chrono::milliseconds patience = std::chrono::seconds(60)) {
  std::future<T> outcome = boost::asio::co_spawn(context, std::move(coroutine), boost::asio::use_future);
  const auto is_done = [&outcome] {
    return outcome.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  };
  if (!run_until(context, is_done, patience)) {
    throw std::runtime_error("the coroutine is not done after " + std::to_string(patience.count()) + " ms");
  }
  return outcome.get();
}

/// The same in a context of its own, which is then run until it has nothing left to do.
template <class T>
T run(Awaitable<T> coroutine, std::chrono::milliseconds patience = std::chrono::seconds(60)) {
  boost::asio::io_context context;
  if constexpr (std::is_void_v<T>) {
    run(context, std::move(coroutine), patience);
    context.run_for(patience);
  } else {
    T value = run(context, std::move(coroutine), patience);
    context.run_for(patience);
    return value;
  }
}

}  // namespace caisson::test
