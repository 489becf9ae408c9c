// The runner: opens a provider over a fresh root, runs one check on an event loop of its own, and ends both.
#include "kit/conformance/runner.h"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <condition_variable>
#include <filesystem>
#include <future>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

namespace caisson::kit::conformance {
namespace {

namespace asio = boost::asio;
namespace fs = std::filesystem;
using Seconds = std::chrono::duration<double>;

/// Removes a tree whatever modes a provider left in it, and never follows a symlink.
void remove_directory(const std::string& path) noexcept {
  std::error_code ignored;
  fs::remove_all(path, ignored);
  if (!fs::exists(path, ignored)) return;
  auto entry = fs::recursive_directory_iterator(path, ignored);
  while (!ignored && entry != fs::recursive_directory_iterator()) {
    if (entry->is_directory(ignored) && !entry->is_symlink(ignored)) {
      fs::permissions(entry->path(), fs::perms::owner_all, ignored);
    }
    entry.increment(ignored);
  }
  fs::remove_all(path, ignored);
}

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::random_device random;
    do {
      path_ = (fs::temp_directory_path() /
               ("caisson-conformance-" + std::to_string(random()) + std::to_string(random())))
                  .string();
    } while (!fs::create_directory(path_));
  }
  ~TemporaryDirectory() { remove_directory(path_); }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

/// Makes a provider's own clock run as time does, beside the jumps a check makes: what waits for it must go
/// on.
class Ticker {
 public:
  explicit Ticker(std::function<void(std::chrono::nanoseconds)> advance) {
    if (advance) thread_ = std::thread(&Ticker::tick, this, std::move(advance));
  }
  ~Ticker() {
    {
      const std::scoped_lock lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    if (thread_.joinable()) thread_.join();
  }
  Ticker(const Ticker&) = delete;
  Ticker& operator=(const Ticker&) = delete;

 private:
  void tick(std::function<void(std::chrono::nanoseconds)> advance) {
    auto last = std::chrono::steady_clock::now();
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, std::chrono::milliseconds(5), [this] { return stop_; })) {
      const auto now = std::chrono::steady_clock::now();
      advance(now - last);
      last = now;
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread thread_;
};

/// An event loop on a thread of its own.
class Loop {
 public:
  Loop() : guard_(context_.get_executor()), thread_(&Loop::run, this) {}
  ~Loop() { stop(); }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  asio::any_io_executor executor() { return context_.get_executor(); }
  /// Waits for the handler under way. Coroutines that still wait stay as they are, and go with the loop.
  void stop() {
    context_.stop();
    if (thread_.joinable()) thread_.join();
  }
  /// What a handler threw out of the loop, if one did. After stop().
  const std::exception_ptr& error() const noexcept { return error_; }

 private:
  void run() {
    while (!context_.stopped()) {
      try {
        context_.run();
      } catch (...) {
        error_ = std::current_exception();
      }
    }
  }

  asio::io_context context_{1};
  asio::executor_work_guard<asio::io_context::executor_type> guard_;
  std::exception_ptr error_;
  std::thread thread_;
};

/// What the run so far has come to; the first thing that went wrong stays.
struct Verdict {
  Outcome outcome = Outcome::passed;
  std::string detail;

  void fail(const std::string& what) {
    if (outcome == Outcome::failed) return;
    outcome = Outcome::failed;
    detail = what;
  }
  void judge(const std::exception_ptr& error, const std::string& during) {
    if (!error) return;
    try {
      std::rethrow_exception(error);
    } catch (const NotRun& reason) {
      if (outcome != Outcome::passed) return;
      outcome = Outcome::not_run;
      detail = reason.what();
    } catch (...) {
      fail(during + describe(error));
    }
  }
};

/// The check's coroutine, seen from a thread that waits for it.
class Running {
 public:
  Running(const asio::any_io_executor& executor, Awaitable<void> work) : executor_(executor) {
    auto ended = [state = state_](std::exception_ptr error) {
      state->done = true;
      state->ended.set_value(error);
    };
    asio::co_spawn(executor_, std::move(work),
                   asio::bind_cancellation_slot(state_->signal.slot(), std::move(ended)));
  }
  bool ended_within(Seconds limit) {
    return future_.wait_for(std::chrono::duration_cast<std::chrono::nanoseconds>(limit)) ==
           std::future_status::ready;
  }
  void cancel() {
    asio::post(executor_, [state = state_] {
      if (!state->done) state->signal.emit(asio::cancellation_type::terminal);
    });
  }
  std::exception_ptr error() { return future_.get(); }

 private:
  struct State {
    asio::cancellation_signal signal;
    std::promise<std::exception_ptr> ended;
    bool done = false;
  };
  asio::any_io_executor executor_;
  std::shared_ptr<State> state_ = std::make_shared<State>();
  std::future<std::exception_ptr> future_ = state_->ended.get_future();
};

std::string seconds(Seconds time) { return std::to_string(time.count()) + " s"; }

/// False when the check did not end even when it was cancelled.
bool run_body(const Check& check, const Context& context, Seconds patience, Seconds stopping,
              Verdict& verdict) {
  Running running(context.executor(), check.run(context));
  if (running.ended_within(patience)) {
    verdict.judge(running.error(), "");
    return true;
  }
  verdict.fail("still running after " + seconds(patience));
  running.cancel();
  if (running.ended_within(stopping)) {
    const std::exception_ptr error = running.error();
    if (error) verdict.detail += "; when cancelled it ended with " + describe(error);
    return true;
  }
  verdict.detail += "; did not end when cancelled";
  return false;
}

Verdict execute(const Check& check, const ConformanceProfile& profile, Seconds patience, Seconds stopping) {
  Verdict verdict;
  TemporaryDirectory directory;
  Loop loop;
  {
    Context context(profile, loop.executor(), directory.path(), patience);
    Ticker ticker(profile.advance);
    try {
      context.open();
      // What did not end may use the provider at any moment, unless its loop stands still.
      if (!run_body(check, context, patience, stopping, verdict)) loop.stop();
    } catch (...) {
      verdict.judge(std::current_exception(), "opening the provider: ");
    }
    context.close();
    loop.stop();
  }
  if (loop.error()) verdict.fail("a handler threw out of the event loop: " + describe(loop.error()));
  return verdict;
}

}  // namespace

CheckResult run_check(const Check& check, const ConformanceProfile& profile, Seconds patience,
                      Seconds stopping) {
  const auto begun = std::chrono::steady_clock::now();
  auto promise = std::make_shared<std::promise<Verdict>>();
  auto future = promise->get_future();
  // By value: what is left behind must own all that it works with.
  std::thread thread([promise, check, profile, patience, stopping] {
    try {
      promise->set_value(execute(check, profile, patience, stopping));
    } catch (...) {
      Verdict verdict;
      verdict.judge(std::current_exception(), "");
      promise->set_value(verdict);
    }
  });
  const Seconds all = patience + 3 * stopping;
  Verdict verdict;
  if (future.wait_for(std::chrono::duration_cast<std::chrono::nanoseconds>(all)) ==
      std::future_status::ready) {
    thread.join();
    verdict = future.get();
  } else {
    thread.detach();
    verdict.fail("the check or the end of its provider still blocks after " + seconds(all) +
                 "; its thread and directory are left behind");
  }
  CheckResult result;
  result.name = check.name;
  result.rules = check.rules;
  result.outcome = verdict.outcome;
  result.detail = verdict.detail;
  result.took = std::chrono::steady_clock::now() - begun;
  return result;
}

}  // namespace caisson::kit::conformance
