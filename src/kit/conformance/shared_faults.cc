// Hooks that faults of several themes use.
#include "kit/conformance/shared_faults.h"

#include <boost/asio/this_coro.hpp>
#include <csignal>

#include "kit/conformance/shell.h"
#include "kit/conformance/task.h"

namespace caisson::kit::conformance {

Awaitable<SessionPtr> with_hidden_twin(BenchPtr bench, SandboxSessionSpec spec) {
  SandboxSessionSpec twin = spec.clone();
  twin.ttl_seconds = 3600;
  SessionPtr session = co_await bench->sandbox().create_session(std::move(spec));
  SessionPtr hidden = co_await bench->sandbox().create_session(std::move(twin));
  bench->twins[session->id()] = std::move(hidden);
  co_return session;
}

Awaitable<ExecResult> exec_in_twin(BenchPtr bench, SessionPtr session, Argv argv, ExecOptions options) {
  return bench->twins.at(session->id())->exec(std::move(argv), std::move(options));
}

Awaitable<HandlePtr> start_in_twin(BenchPtr bench, SessionPtr session, Argv argv, ExecOptions options) {
  HandlePtr handle = co_await bench->twins.at(session->id())->exec_start(std::move(argv), std::move(options));
  co_return handle;
}

Awaitable<void> destroy_releases(BenchPtr, SessionPtr session) { co_await session->release(); }

Awaitable<void> destroy_ignored(BenchPtr, SessionPtr) { co_return; }

Awaitable<void> destroy_empties(BenchPtr, SessionPtr session) {
  Argv argv{"sh", "-c", "rm -rf ./*"};
  co_await session->exec(std::move(argv), ExecOptions(std::chrono::seconds(10)));
  co_await session->destroy();
}

Awaitable<SessionPtr> never_persistent(BenchPtr bench, SandboxSessionSpec spec) {
  spec.durability = SandboxDurability::ephemeral;
  return bench->sandbox().create_session(std::move(spec));
}

Awaitable<SessionPtr> conflict_is_scratch(BenchPtr bench, SandboxSessionSpec spec) {
  SandboxSessionSpec scratch = spec.clone();
  scratch.durability = SandboxDurability::ephemeral;
  SessionPtr session;
  const std::exception_ptr error =
      co_await failure_of(bench->sandbox().create_session(std::move(spec)), &session);
  if (!error) co_return session;
  if (!is_code(error, ErrorCode::workspace_conflict)) std::rethrow_exception(error);
  co_return co_await bench->sandbox().create_session(std::move(scratch));
}

Awaitable<void> release_ignored(SessionPtr) { co_return; }

Awaitable<void> touch_ignored(SessionPtr) { co_return; }

void deadline_stays(BenchPtr, SandboxSessionInfo& info) {
  info.expires_at = info.created_at + std::chrono::hours(1);
}

Awaitable<std::vector<std::string>> reaps_all(BenchPtr bench) {
  std::vector<std::string> ids;
  const auto sessions = co_await bench->sandbox().list_sessions();
  for (const SandboxSessionInfo& info : sessions) {
    co_await bench->sandbox().destroy_session(info.id);
    ids.push_back(info.id);
  }
  co_return ids;
}

Awaitable<void> kills_leader_only(BenchPtr, HandlePtr handle) { co_await handle->signal(SIGKILL); }

void drop_lets_run(BenchPtr bench, HandlePtr handle) { bench->keep(std::move(handle)); }

Awaitable<ExecResult> raises_and_lets_run(BenchPtr bench, SessionPtr session, Argv argv,
                                          ExecOptions options) {
  HandlePtr handle = co_await session->exec_start(std::move(argv), with_timeout(options, no_deadline));
  bench->keep(handle);
  co_await handle->close_stdin();
  const boost::asio::any_io_executor executor = co_await boost::asio::this_coro::executor;
  Task<ExecResult> running(executor, collect(handle));
  const bool settled = co_await running.settled(options.timeout());
  if (!settled) throw SandboxExecTimeoutError(options.timeout(), 0, 0);
  co_return co_await running.get();
}

Awaitable<HandlePtr> deadline_ignored(BenchPtr, SessionPtr session, Argv argv, ExecOptions options) {
  HandlePtr handle = co_await session->exec_start(std::move(argv), with_timeout(options, no_deadline));
  co_return handle;
}

Awaitable<std::string> any_failure_is_empty(SessionPtr session, std::string path) {
  std::string data;
  co_await failure_of(session->get_file(std::move(path)), &data);
  co_return data;
}

Awaitable<void> put_in_place(SessionPtr session, std::string path, std::string data, FileMode) {
  Argv argv{"sh", "-c", "cat >\"$0\"", path};
  ExecOptions options(std::chrono::seconds(10));
  options.input(std::move(data));
  co_await session->exec(std::move(argv), std::move(options));
}

}  // namespace caisson::kit::conformance
