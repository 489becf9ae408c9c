// What the rows of a local provider share: a provider on a temporary root, and its event loop.
#pragma once

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <memory>
#include <string>

#include "caisson/caisson.h"

namespace caisson::bench {

using Steady = std::chrono::steady_clock;

double milliseconds_since(Steady::time_point start);

/// A new directory, removed at the end with all that is in it.
class TemporaryRoot {
 public:
  TemporaryRoot();
  ~TemporaryRoot();
  TemporaryRoot(const TemporaryRoot&) = delete;
  TemporaryRoot& operator=(const TemporaryRoot&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Settings and policy for a provider on that root.
OpenOptions options_for(const TemporaryRoot& root);
/// An ephemeral session that outlasts the benchmark.
SandboxSessionSpec spec();

/// A local provider whose coroutines run on the calling thread.
class Bed {
 public:
  Bed();
  ~Bed();
  Bed(const Bed&) = delete;
  Bed& operator=(const Bed&) = delete;

  const TemporaryRoot& root() const { return root_; }
  boost::asio::io_context& loop() { return loop_; }
  Sandbox& sandbox() { return *sandbox_; }
  const std::shared_ptr<SandboxSession>& session() const { return session_; }

  /// Runs the loop until `work` is done; its result.
  template <class T>
  T run(Awaitable<T> work) {
    auto outcome = boost::asio::co_spawn(loop_, std::move(work), boost::asio::use_future);
    run_until(outcome);
    return outcome.get();
  }
  /// Runs the loop until that is ready.
  template <class Future>
  void run_until(Future& outcome) {
    loop_.restart();
    while (outcome.wait_for(std::chrono::seconds(0)) != std::future_status::ready) loop_.run_one();
  }

 private:
  TemporaryRoot root_;
  boost::asio::io_context loop_;
  std::shared_ptr<Sandbox> sandbox_;
  std::shared_ptr<SandboxSession> session_;
};

}  // namespace caisson::bench
