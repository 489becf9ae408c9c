// What all rows share: a provider on a temporary root, and its event loop.
#pragma once

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

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

/// Settings and policy for a provider on that root, which makes `pool` boxes ahead.
OpenOptions options_for(const TemporaryRoot& root, int pool = 0);
/// An ephemeral session of the host's image that outlasts the benchmark: of tier none with the host's
/// network, of another with none.
SandboxSessionSpec spec(Isolation isolation = Isolation::none);

/// Runs /bin/true in it, and waits for its end; throws when that was another than 0.
Awaitable<void> exec_true(std::shared_ptr<SandboxSession> session);
/// Adds the milliseconds of each of `count` such execs, one after the other.
Awaitable<void> time_execs(std::shared_ptr<SandboxSession> session, int count, std::vector<double>* samples);

/// A provider of that tier, and a session of it. Its coroutines run on the calling thread.
class Bed {
 public:
  explicit Bed(Isolation isolation = Isolation::none, int pool = 0);
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
