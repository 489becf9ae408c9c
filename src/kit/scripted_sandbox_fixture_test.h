// The fixture of tests on a scripted sandbox: an event loop, an injected clock, a script.
#pragma once

#include <gtest/gtest.h>

#include <future>

#include "kit/scripted_sandbox_test.h"
#include "tests/support/async.h"

namespace caisson::kit {

class ScriptedSandboxTest : public testing::Test {
 protected:
  std::shared_ptr<ScriptedSandbox> open(DispatchSettings dispatch = {}) {
    ManagedOptions options;
    options.executor = loop.get_executor();
    options.clock = clock;
    options.dispatch = dispatch;
    options.log = [this](LogLevel, const std::string& line) { logged.push_back(line); };
    auto opened = std::make_shared<ScriptedSandbox>(options, script);
    opened->bind_policy({Network::egress, Isolation::none, false, true});
    return opened;
  }
  static SandboxSessionSpec spec(std::string key = "key") {
    SandboxSessionSpec spec;
    spec.image = "host";
    spec.workspace_key = std::move(key);
    spec.durability = Durability::ephemeral;
    spec.ttl_seconds = 60;
    return spec;
  }
  std::shared_ptr<SandboxSession> create(ManagedSandbox& sandbox, SandboxSessionSpec what = spec()) {
    return test::run(loop, sandbox.create_session(std::move(what)));
  }
  // Runs what can run now.
  void settle() {
    loop.restart();
    loop.poll();
  }
  // Emits on the loop, as Asio wants it: from outside, co_spawn would forward a pointer that the end of the
  // call leaves dangling.
  void emit(boost::asio::cancellation_signal& signal) {
    bool emitted = false;
    boost::asio::post(loop, [&signal, &emitted] {
      signal.emit(boost::asio::cancellation_type::terminal);
      emitted = true;
    });
    loop.restart();
    while (!emitted) loop.poll_one();
  }
  template <class T>
  std::future<T> begin(Awaitable<T> work) {
    auto outcome = boost::asio::co_spawn(loop, std::move(work), boost::asio::use_future);
    settle();
    return outcome;
  }
  template <class T>
  T finish(std::future<T>& outcome) {
    const auto is_done = [&outcome] {
      return outcome.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    };
    EXPECT_TRUE(test::run_until(loop, is_done));
    return outcome.get();
  }
  // The typed failure of a call, which must fail.
  template <class T>
  ErrorCode failure_of(Awaitable<T> work) {
    try {
      if constexpr (std::is_void_v<T>) {
        test::run(loop, std::move(work));
      } else {
        (void)test::run(loop, std::move(work));
      }
    } catch (const SandboxError& error) {
      last_message = error.what();
      return error.code();
    }
    ADD_FAILURE() << "the call succeeded";
    return ErrorCode::internal;
  }
  UtcTime expiry(SandboxSession& session) { return test::run(loop, session.info()).expires_at; }

  boost::asio::io_context loop;
  std::shared_ptr<ManualClock> clock = std::make_shared<ManualClock>();
  std::shared_ptr<Script> script = std::make_shared<Script>();
  std::vector<std::string> logged;
  std::string last_message;
};

}  // namespace caisson::kit
