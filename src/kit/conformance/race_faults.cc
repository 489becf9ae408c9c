// Faults of calls that race.
#include <boost/asio/cancellation_state.hpp>
#include <boost/asio/this_coro.hpp>

#include "kit/conformance/shared_faults.h"

namespace caisson::kit::conformance {
namespace {

/// Comes only when the reap that it races has been decided.
Awaitable<void> after_the_reap(SessionPtr session) {
  for (int tries = 0; tries < 400; ++tries) {
    SandboxSessionInfo info;
    const std::exception_ptr gone = co_await failure_of(session->info(), &info);
    if (gone) co_return;
    co_await doze();
  }
}

Awaitable<void> late_touch_succeeds(SessionPtr session) { co_await after_the_reap(std::move(session)); }

Awaitable<ExecResult> late_exec_succeeds(BenchPtr, SessionPtr session, Argv, ExecOptions) {
  co_await after_the_reap(std::move(session));
  co_return ExecResult();
}

Awaitable<SessionPtr> one_create_at_a_time(BenchPtr bench, SandboxSessionSpec spec) {
  if (bench->count++ > 0) throw SandboxError(ErrorCode::workspace_conflict, "another create is under way");
  SessionPtr session = co_await bench->sandbox().create_session(std::move(spec));
  co_return session;
}

Awaitable<SessionPtr> cancel_comes_too_late(BenchPtr bench, SandboxSessionSpec spec) {
  std::exception_ptr cancelled;
  try {
    co_await doze();
  } catch (const boost::system::system_error&) {
    cancelled = std::current_exception();
  }
  co_await boost::asio::this_coro::reset_cancellation_state(boost::asio::disable_cancellation());
  SessionPtr session = co_await bench->sandbox().create_session(std::move(spec));
  if (cancelled) std::rethrow_exception(cancelled);
  co_return session;
}

/// In place, in halves: two at once mix. The second half waits for another put, so that they do mix.
Awaitable<void> put_in_halves(SessionPtr session, std::string path, std::string data, FileMode) {
  const std::string half = data.substr(0, data.size() / 2);
  co_await session->put_file(path, half);
  std::string there = half;
  for (int times = 0; times < 20 && there == half; ++times) {
    co_await doze();
    there = co_await session->get_file(path);
  }
  co_await session->put_file(path, there + data.substr(half.size()));
}

constexpr Fault table[] = {
    {"reap.races_touch", "a touch of what was reaped succeeds", {.touch = late_touch_succeeds}},
    {"reap.races_exec", "an exec in what was reaped succeeds", {.exec = late_exec_succeeds}},
    {"destroy.races_calls",
     "an exec of a destroyed session is exit code 137",
     {.exec = error_is_exit_code<137>}},
    {"persistent.create_races_destroy", "the wish is forgotten", {.destroy = destroy_releases}},
    {"persistent.creates_at_once", "creates at once conflict", {.create = one_create_at_a_time}},
    {"create.cancelled_leaves_nothing",
     "a cancelled create makes its session",
     {.create = cancel_comes_too_late}},
    {"files.puts_at_once", "files are put in halves", {.put_file = put_in_halves}},
    {"files.atomic_under_reader", "files are put in halves", {.put_file = put_in_halves}},
};

}  // namespace

std::span<const Fault> race_faults() { return table; }

}  // namespace caisson::kit::conformance
