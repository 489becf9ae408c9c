// Checks of how sessions end: destroy, release, and what outlives them.
#include "kit/conformance/check.h"
#include "kit/conformance/sessions.h"
#include "kit/conformance/task.h"

namespace caisson::kit::conformance {
namespace {

Awaitable<void> destroy_removes_persistent(Context context) {
  auto session = co_await context.create(context.persistent_spec());
  // What is hard to remove: locked, deep, oddly named, and a way out that must not be followed.
  co_await output_of(context, session,
                     "mkdir -p a/b/c/d \"$(printf 'odd\\377\\nname')\"; echo x >a/b/c/d/file; ln -s '" +
                         context.outside() + "' way-out; chmod 0 a/b");
  co_await session->destroy();
  auto again = co_await context.create(context.persistent_spec());
  const std::string names = co_await output_of(context, again, "ls -A");
  expect_equal("names in the workspace after destroy", names, "");
  // The suite's directory still has its file, whatever the session's symlink said.
  co_await again->release();
  expect_equal("the canary behind a symlink", context.canary_now(), context.canary());
}

Awaitable<void> destroy_again(Context context) {
  auto session = co_await context.session();
  co_await session->destroy();
  co_await session->destroy();
  co_await session->release();
  co_await context.sandbox().destroy_session(session->id());
  co_await context.sandbox().destroy_session(std::string(32, '0'));
  const std::vector<SandboxSessionInfo> listed = co_await context.sandbox().list_sessions();
  expect_equal("sessions listed", listed.size(), std::size_t{0});
}

Awaitable<void> destroy_at_once(Context context) {
  auto session = co_await context.create(context.persistent_spec());
  co_await session->put_file("file", "x");
  Task<void> one(context.executor(), session->destroy());
  Task<void> two(context.executor(), context.sandbox().destroy_session(session->id()));
  Task<void> three(context.executor(), session->destroy());
  co_await one.get();
  co_await two.get();
  co_await three.get();
  auto again = co_await context.create(context.persistent_spec());
  co_await refused("the file after three destroys at once", again->get_file("file"), ErrorCode::file_missing);
}

Awaitable<void> refuses_after(Context context) {
  auto session = co_await context.create(context.persistent_spec());
  Argv argv{"true"};
  co_await session->destroy();
  co_await refuses("info", session->info());
  co_await refuses("touch", session->touch());
  co_await refuses("exec", session->exec(argv, options(context)));
  co_await refuses("exec_start", session->exec_start(argv, options(context)));
  co_await refuses("put_file", session->put_file("file", "x"));
  co_await refuses("get_file", session->get_file("file"));
  co_await refuses("open_writer", session->open_writer("file"));
  co_await refused("get_session of a destroyed id", context.sandbox().get_session(session->id()),
                   ErrorCode::session_not_found);
  auto again = co_await context.create(context.persistent_spec());
  const std::string names = co_await output_of(context, again, "ls -A");
  expect_equal("names that refused calls left", names, "");
}

Awaitable<void> running_exec_ends(Context context) {
  auto session = co_await context.session();
  Task<ExecResult> exec(context.executor(), run_shell(context, session, "echo up >up; sleep 1000"));
  HandlePtr handle = co_await start_shell(context, session, "cat");
  co_await await_file(context, session, "up", "up\n", "expected the command to run");
  co_await session->destroy();
  co_await refused("exec of a session destroyed meanwhile", exec.get(), ErrorCode::session_destroyed);
  co_await refused("output of a session destroyed meanwhile", handle->output().next(),
                   ErrorCode::session_destroyed);
}

Awaitable<void> destroy_kills(Context context) {
  auto watcher = co_await context.create(context.persistent_spec());
  auto session = co_await context.create(context.persistent_spec());
  auto line = co_await Lifeline::lay(context, watcher);
  co_await output_of(context, session, line->hold() + "( sleep 1000 & ) >/dev/null 2>&1 </dev/null");
  co_await line->held();
  co_await session->destroy();
  co_await line->gone("a process of the destroyed session");
}

Awaitable<void> destroy_spares_shared(Context context) {
  auto one = co_await context.create(context.persistent_spec());
  auto two = co_await context.create(context.persistent_spec());
  co_await one->put_file("file", "shared");
  std::string seen = co_await two->get_file("file");
  expect_equal("a shared workspace's file", seen, "shared");
  co_await one->destroy();
  seen = co_await two->get_file("file");
  expect_equal("its file after one session's destroy", seen, "shared");
  co_await refused("create on a workspace that is to be removed", context.create(context.persistent_spec()),
                   ErrorCode::workspace_conflict);
  co_await two->release();
  auto again = co_await context.create(context.persistent_spec());
  co_await refused("its file once the last session has gone", again->get_file("file"),
                   ErrorCode::file_missing);
}

Awaitable<void> release_keeps_persistent(Context context) {
  auto session = co_await context.create(context.persistent_spec());
  co_await session->put_file("file", "kept");
  co_await session->release();
  co_await session->release();
  co_await refused("get_session of a released id", context.sandbox().get_session(session->id()),
                   ErrorCode::session_not_found);
  auto again = co_await context.create(context.persistent_spec());
  const std::string seen = co_await again->get_file("file");
  expect_equal("the persistent workspace's file after release", seen, "kept");
}

Awaitable<void> release_kills(Context context) {
  auto watcher = co_await context.create(context.persistent_spec());
  auto session = co_await context.create(context.persistent_spec());
  auto line = co_await Lifeline::lay(context, watcher);
  HandlePtr handle =
      co_await start_shell_for(no_deadline, session, line->hold() + "( sleep 1000 & ); sleep 1000");
  co_await line->held();
  co_await session->release();
  co_await line->gone("a process of the released session");
}

Awaitable<void> survives_provider(Context context) {
  auto session = co_await context.create(context.persistent_spec());
  co_await session->put_file("file", "kept");
  session.reset();
  co_await context.reopen();
  const std::vector<SandboxSessionInfo> listed = co_await context.sandbox().list_sessions();
  expect_equal("sessions listed by a new provider on the old root", listed.size(), std::size_t{0});
  auto again = co_await context.create(context.persistent_spec());
  const std::string seen = co_await again->get_file("file");
  expect_equal("the persistent workspace's file with the new provider", seen, "kept");
}

Awaitable<void> provider_end_refuses(Context context) {
  auto session = co_await context.session();
  HandlePtr handle = co_await start_shell(context, session, "cat");
  co_await context.reopen();
  Argv argv{"true"};
  co_await refuses("exec after the provider's end", session->exec(argv, options(context)));
  const Caught seen = co_await caught(handle->output().next());
  expect_typed("output after the provider's end", seen);
}

constexpr Check table[] = {
    {"destroy.removes_persistent_workspace", "S-24 S-30", "destroy removes even a persistent workspace",
     destroy_removes_persistent},
    {"destroy.is_idempotent", "S-24", "destroying again, or an unknown id, is a no-op", destroy_again},
    {"destroy.at_once", "S-24", "concurrent destroys are safe", destroy_at_once},
    {"destroy.refuses_calls_after", "S-26", "a destroyed session refuses every call and recreates nothing",
     refuses_after},
    {"destroy.running_exec_ends", "S-26", "running execs end typed, saying that the session was destroyed",
     running_exec_ends},
    {"destroy.kills_processes", "S-26", "destroy ends every process of a session", destroy_kills},
    {"destroy.spares_shared_workspace", "S-25", "a shared workspace goes with its last session",
     destroy_spares_shared},
    {"release.keeps_persistent_workspace", "S-32", "release keeps a persistent workspace",
     release_keeps_persistent},
    {"release.kills_processes", "S-32", "release ends every process of a session", release_kills},
    {"persistent.survives_provider", "S-20 S-29", "a persistent workspace outlives the provider",
     survives_provider},
    {"provider.end_refuses_calls", "S-26", "sessions and handles that outlive their provider refuse typed",
     provider_end_refuses},
};

}  // namespace

std::span<const Check> teardown_checks() { return table; }

}  // namespace caisson::kit::conformance
