// Workers: threads for calls that block, so that no event loop ever does (S-73).
#pragma once

#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/execution/outstanding_work.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/prefer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "caisson/contract/awaitable.h"

namespace caisson::kit {

/// A few threads that run blocking calls for coroutines. Destroying it waits for the calls under way; the
/// execution contexts of the coroutines that wait for them must still exist then.
class Workers {
 public:
  /// Throws SandboxError (unavailable) when so many threads cannot be had.
  explicit Workers(std::size_t threads);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// Runs `call` on a worker and resumes the caller on its own executor with what it returned or threw. Not
  /// cancellable: what has begun ends.
  template <class Call>
  Awaitable<std::invoke_result_t<Call&>> run(Call call);

  /// Blocks until no call is under way, nor waits for a thread. For who destroys what calls were made for
  /// while nothing runs their callers.
  void wait_idle() noexcept;

  /// Runs `call` on a worker, with nobody waiting for it. It must not throw.
  template <class Call>
  void post(Call call) {
    const Begun begun(this);
    boost::asio::post(queue_, [begun, call = std::move(call)]() mutable { call(); });
  }

 private:
  // A call's place in the waiting coroutine's frame, where the worker leaves the outcome.
  template <class Call>
  struct Job {
    using Value = std::invoke_result_t<Call&>;
    using Slot = std::conditional_t<std::is_void_v<Value>, char, Value>;

    void operator()() noexcept {
      try {
        if constexpr (std::is_void_v<Value>) {
          call();
        } else {
          value.emplace(call());
        }
      } catch (...) {
        error = std::current_exception();
      }
    }

    Call call;
    std::optional<Slot> value = std::nullopt;
    std::exception_ptr error = nullptr;
  };

  // Counts a call from its begin to the end of the last copy.
  class Begun {
   public:
    explicit Begun(Workers* workers) : workers_(workers) { workers_->count(1); }
    Begun(const Begun& other) noexcept : workers_(other.workers_) { workers_->count(1); }
    Begun& operator=(const Begun&) = delete;
    ~Begun() { workers_->count(-1); }

   private:
    Workers* workers_;
  };

  // A struct, not a lambda: lambdas with captures inside a co_await are off limits (GCC 12).
  template <class Call>
  struct Initiation {
    template <class Handler>
    void operator()(Handler handler) const {
      auto executor = boost::asio::prefer(boost::asio::get_associated_executor(handler),
                                          boost::asio::execution::outstanding_work.tracked);
      const Begun begun(workers);
      boost::asio::post(workers->queue_,
                        [begun, job = job, executor, handler = std::move(handler)]() mutable {
                          (*job)();
                          boost::asio::post(executor, std::move(handler));
                        });
    }
    Workers* workers;
    Job<Call>* job;
  };

  void count(int change) noexcept;
  void join() noexcept;

  // No thread_pool: its constructor waits for ever when it gets some threads and not all (Asio 1.26).
  boost::asio::io_context queue_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> open_;
  std::mutex mutex_;
  std::condition_variable idle_;
  long calls_ = 0;
  std::vector<std::thread> threads_;
};

template <class Call>
Awaitable<std::invoke_result_t<Call&>> Workers::run(Call call) {
  Job<Call> job{std::move(call)};
  Initiation<Call> initiation{this, &job};
  co_await boost::asio::async_initiate<const boost::asio::use_awaitable_t<>&, void()>(
      initiation, boost::asio::use_awaitable);
  if (job.error) std::rethrow_exception(job.error);
  if constexpr (!std::is_void_v<std::invoke_result_t<Call&>>) co_return std::move(*job.value);
}

}  // namespace caisson::kit
