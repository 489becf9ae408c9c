// Strands: how the kit's coroutines enter the one that guards a session's state, and start tasks on it.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/prefer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <memory>
#include <utility>

#include "caisson/contract/awaitable.h"
#include "caisson/kit/log.h"

namespace caisson::kit {

using Strand = boost::asio::strand<boost::asio::any_io_executor>;

namespace detail {

// co_spawn's own forwarding of a cancellation keeps a bare pointer into the caller's frame across an executor
// hop (Asio 1.26). Here the signal is shared, is emitted on the strand, and never after the call is done.
struct StrandCall {
  explicit StrandCall(Strand where) : strand(std::move(where)) {}
  Strand strand;
  boost::asio::cancellation_signal signal;
  bool done = false;
};

struct CancelOnStrand {
  void operator()(boost::asio::cancellation_type type) const {
    boost::asio::post(call->strand, [call = call, type] {
      if (!call->done) call->signal.emit(type);
    });
  }
  std::shared_ptr<StrandCall> call;
};

// The caller resumes by a post, never inline: inline its code would run inside the strand and hold it.
template <class Handler, class... Value>
struct StrandCompletion {
  void operator()(std::exception_ptr error, Value... value) {
    call->done = true;
    boost::asio::post(work, [handler = std::move(handler), error, ... value = std::move(value)]() mutable {
      std::move(handler)(error, std::move(value)...);
    });
  }
  std::shared_ptr<StrandCall> call;
  boost::asio::any_io_executor work;
  Handler handler;
};

template <class T, class... Value>
struct StrandInitiation {
  template <class Handler>
  void operator()(Handler handler) const {
    auto call = std::make_shared<StrandCall>(*strand);
    auto slot = boost::asio::get_associated_cancellation_slot(handler);
    if (slot.is_connected()) slot.assign(CancelOnStrand{call});
    boost::asio::any_io_executor work = boost::asio::prefer(boost::asio::get_associated_executor(handler),
                                                            boost::asio::execution::outstanding_work.tracked);
    boost::asio::co_spawn(*strand, std::move(*body),
                          boost::asio::bind_cancellation_slot(
                              call->signal.slot(), StrandCompletion<Handler, Value...>{call, std::move(work),
                                                                                       std::move(handler)}));
  }
  const Strand* strand;
  Awaitable<T>* body;
};

template <class T>
Awaitable<T> hearing_every_cancellation(Awaitable<T> body) {
  co_await boost::asio::this_coro::reset_cancellation_state(boost::asio::enable_total_cancellation());
  co_return co_await std::move(body);
}

}  // namespace detail

/// Runs `body` on `strand` and resumes the caller on its own executor with the outcome. Every cancellation of
/// the caller (terminal, partial, total) reaches `body` there.
template <class T>
Awaitable<T> on_strand(Strand strand, Awaitable<T> body) {
  Awaitable<T> hearing = detail::hearing_every_cancellation(std::move(body));
  if constexpr (std::is_void_v<T>) {
    detail::StrandInitiation<void> initiation{&strand, &hearing};
    co_await boost::asio::async_initiate<const boost::asio::use_awaitable_t<>&, void(std::exception_ptr)>(
        initiation, boost::asio::use_awaitable);
  } else {
    detail::StrandInitiation<T, T> initiation{&strand, &hearing};
    co_return co_await boost::asio::async_initiate<const boost::asio::use_awaitable_t<>&,
                                                   void(std::exception_ptr, T)>(initiation,
                                                                                boost::asio::use_awaitable);
  }
}

/// Starts `body` on `executor` with nobody waiting. What it throws is logged, as a defect: a task handles its
/// errors.
void spawn_task(const boost::asio::any_io_executor& executor, Awaitable<void> body, Log log,
                const char* what);

}  // namespace caisson::kit
