// Engine: the event loop thread behind the blocking facade, and how a call waits for it.
#pragma once

#include <sys/types.h>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "caisson/caisson.h"

namespace caisson::blocking {

/// Where a call's outcome arrives, from the event loop, for the thread that waits.
template <class T>
class Completion {
 public:
  void set(std::exception_ptr error, T value) {
    // Notified under the lock: the waiter owns this and destroys it as soon as it has the lock.
    const std::lock_guard lock(mutex_);
    error_ = error;
    value_.emplace(std::move(value));
    done_.notify_one();
  }
  T wait() {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return value_.has_value(); });
    if (error_) std::rethrow_exception(error_);
    return std::move(*value_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable done_;
  std::exception_ptr error_;
  std::optional<T> value_;
};

template <class T>
struct Deliver {
  void operator()(std::exception_ptr error, T value) const { completion->set(error, std::move(value)); }
  Completion<T>* completion;
};
struct DeliverDone {
  void operator()(std::exception_ptr error) const { completion->set(error, true); }
  Completion<bool>* completion;
};

/// One sandbox, its event loop, the thread that runs it and the reaper on it. Held by every object that came
/// from it; the thread ends with the last of them.
class Engine {
 public:
  struct Opened {
    std::shared_ptr<caisson::Sandbox> sandbox;
    std::shared_ptr<kit::Clock> clock = kit::system_clock();  ///< The reaper's.
    std::chrono::duration<double> reap_interval{300};
  };
  using Opener = std::function<Opened(boost::asio::any_io_executor)>;

  /// Calls `opener` on this thread, then starts the loop's.
  static Sandbox open(const Opener& opener, kit::Log log);

  Engine(const Opener& opener, kit::Log log);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// `engine`, if a call may be made on it here and now. Throws std::logic_error for none (a moved-from
  /// object) and on the loop's own thread, SandboxError (unavailable) in the child of a fork.
  static Engine& usable(const std::shared_ptr<Engine>& engine);
  /// Whether usable() would give it: destructors ask, for they must not throw.
  bool is_usable() const noexcept;

  /// Runs `call` on the loop and waits for it. The engine must be usable.
  template <class T>
  T run(Awaitable<T> call) {
    if constexpr (std::is_void_v<T>) {
      Completion<bool> completion;
      boost::asio::co_spawn(loop_->context, std::move(call), DeliverDone{&completion});
      completion.wait();
    } else {
      Completion<T> completion;
      boost::asio::co_spawn(loop_->context, std::move(call), Deliver<T>{&completion});
      return completion.wait();
    }
  }

  /// The same for a destructor: what fails is logged.
  void run_quietly(Awaitable<void> call, const char* what) noexcept;
  /// Drops an object on the loop, where its destructor meets none of its coroutines half way, and waits for
  /// that.
  void drop(std::shared_ptr<void> object) noexcept;
  /// Ends the reaper, releases every session, all at the same time, and ends the sandbox, waiting for all of
  /// it. Idempotent.
  void close() noexcept;

  caisson::Sandbox& sandbox() const noexcept { return *sandbox_; }

  /// Keeps `object` for ever: for what can be ended neither in the child of a fork nor on the loop's own
  /// thread.
  static void abandon(std::shared_ptr<void> object) noexcept;

 private:
  // Shared with the thread, which outlives the Engine when that ends on it.
  struct Loop {
    boost::asio::io_context context{1};
    boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work{context.get_executor()};
  };
  class ReaperTask;
  static void run_loop(std::shared_ptr<Loop> loop, kit::Log log);
  static Awaitable<void> release_session(std::shared_ptr<caisson::Sandbox> sandbox, std::string id);
  void release_sessions();

  pid_t pid_;
  kit::Log log_;
  std::shared_ptr<Loop> loop_;
  std::shared_ptr<caisson::Sandbox> sandbox_;
  std::shared_ptr<ReaperTask> reaper_;
  std::thread thread_;
};

}  // namespace caisson::blocking
