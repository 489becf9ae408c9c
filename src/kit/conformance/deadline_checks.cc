// Checks of when deadlines move, and of the operator's limits on them.
#include "kit/conformance/check.h"
#include "kit/conformance/sessions.h"

namespace caisson::kit::conformance {
namespace {

using namespace std::chrono_literals;
using Seconds = std::chrono::duration<double>;

/// Expects the session's deadline to have moved by `by` since `before`, and by as much more as the check
/// took.
Awaitable<void> expect_moved(Context context, SessionPtr session, UtcTime before, Seconds by,
                             std::string what) {
  const UtcTime after = co_await deadline_of(session);
  const Seconds moved = after - before;
  expect(moved >= by - 100ms && moved <= by + context.patience(),
         what + ": expected expires_at to have moved by " + std::to_string(by.count()) + " s, saw " +
             std::to_string(moved.count()) + " s");
}

/// As above, once the provider has taken note of an exec's end, which may come a moment after its exit item.
Awaitable<void> await_moved(Context context, SessionPtr session, UtcTime before, Seconds by,
                            std::string what) {
  const auto until = std::chrono::steady_clock::now() + context.limit();
  while (std::chrono::steady_clock::now() < until) {
    const UtcTime now = co_await deadline_of(session);
    if (now - before <= by + context.patience()) break;
    co_await pause(context, 5ms);
  }
  co_await expect_moved(context, session, before, by, std::move(what));
}

Awaitable<void> end_cat(HandlePtr handle) {
  co_await handle->close_stdin();
  co_await drain(handle);
}

Awaitable<void> exec_start_moves(Context context) {
  auto session = co_await context.session();
  const UtcTime before = co_await deadline_of(session);
  HandlePtr handle = co_await start_shell_for(500s, session, "cat");
  co_await expect_moved(context, session, before, 500s, "the start of an exec with a timeout of 500 s");
}

Awaitable<void> exec_end_moves(Context context) {
  auto session = co_await context.session();
  const UtcTime before = co_await deadline_of(session);
  HandlePtr handle = co_await start_shell_for(500s, session, "cat");
  co_await expect_moved(context, session, before, 500s, "the start of an exec with a timeout of 500 s");
  co_await end_cat(handle);
  co_await await_moved(context, session, before, 0s, "the end of that exec");
}

Awaitable<void> latest_live_counts(Context context) {
  auto session = co_await context.session();
  const UtcTime before = co_await deadline_of(session);
  HandlePtr longer = co_await start_shell_for(900s, session, "cat");
  HandlePtr shorter = co_await start_shell_for(200s, session, "cat");
  co_await expect_moved(context, session, before, 900s, "two live execs, of 900 s and of 200 s");
  co_await session->touch();
  co_await expect_moved(context, session, before, 900s, "a touch meanwhile");
  co_await end_cat(longer);
  co_await await_moved(context, session, before, 200s, "the end of the longer one");
  co_await end_cat(shorter);
  co_await await_moved(context, session, before, 0s, "the end of both");
}

void expect_later(std::string_view by, UtcTime before, UtcTime after) {
  expect(after - before >= 900ms, std::string(by) + ": expected expires_at to move on by 1 s, saw " +
                                      std::to_string(Seconds(after - before).count()) + " s");
}

Awaitable<void> streams_extend(Context context) {
  auto session = co_await context.session();
  auto writer = co_await session->open_writer("file");
  co_await writer->write("x");
  UtcTime before = co_await deadline_of(session);
  co_await context.elapse(1s);
  co_await writer->commit();
  UtcTime after = co_await deadline_of(session);
  expect_later("the commit of a writer", before, after);
  auto reader = co_await session->open_reader("file");
  before = co_await deadline_of(session);
  co_await context.elapse(1s);
  co_await reader->read(100);
  after = co_await deadline_of(session);
  expect_later("a read", before, after);
}

Awaitable<void> wall_clock_step(Context context) {
  const auto step = context.profile().step_wall_clock;
  if (!step || !context.profile().advance)
    throw NotRun("the profile cannot step the provider's wall clock and move its time");
  SandboxSessionSpec spec = context.spec();
  spec.ttl_seconds = 100;
  auto session = co_await context.create(std::move(spec));
  step(1h);
  std::vector<std::string> reaped = co_await context.sandbox().reap();
  expect_equal("reaped after the wall clock stepped on by 1 h", reaped, std::vector<std::string>());
  const std::string out = co_await output_of(context, session, "echo alive");
  expect_equal("stdout in the session", out, "alive\n");
  step(-3h);
  co_await context.elapse(200s);
  reaped = co_await context.sandbox().reap();
  expect_equal("reaped past the ttl, the wall clock stepped back by 3 h", reaped,
               std::vector<std::string>(1, session->id()));
}

std::chrono::seconds max_lifetime(const Context& context) {
  if (!context.profile().max_lifetime)
    throw NotRun("the profile names no longest life of the provider's sessions");
  return *context.profile().max_lifetime;
}

std::chrono::seconds max_timeout(const Context& context) {
  if (!context.profile().max_timeout)
    throw NotRun("the profile names no longest timeout of the provider's execs");
  return *context.profile().max_timeout;
}

Awaitable<void> lifetime_caps(Context context) {
  const std::chrono::seconds lifetime = max_lifetime(context);
  SandboxSessionSpec spec = context.spec();
  spec.ttl_seconds = lifetime.count();
  auto session = co_await context.create(std::move(spec));
  const SandboxSessionInfo before = co_await session->info();
  // Moved by a full ttl without the cap, while the tick of the clock between two readings stays.
  co_await context.elapse(1s);
  co_await session->touch();
  HandlePtr handle = co_await start_shell_for(lifetime / 2, session, "cat");
  const UtcTime after = co_await deadline_of(session);
  const Seconds whole = after - before.created_at;
  expect(whole >= Seconds(lifetime) - 500ms && whole <= Seconds(lifetime) + 500ms,
         "expected expires_at to be created_at + " + std::to_string(lifetime.count()) + " s, saw " +
             std::to_string(whole.count()) + " s");
}

Awaitable<void> lifetime_refuses_ttl(Context context) {
  const std::chrono::seconds lifetime = max_lifetime(context);
  SandboxSessionSpec spec = context.spec();
  spec.ttl_seconds = lifetime.count() + 1;
  const Refusal refusal = co_await refused("create with a ttl over the longest life",
                                           context.create(std::move(spec)), ErrorCode::invalid_argument);
  expect(refusal.spec_rejected, "expected a SandboxSpecRejectedError, saw another SandboxError");
  expect_equal("the field named", refusal.field, "ttl_seconds");
  const std::vector<SandboxSessionInfo> listed = co_await context.sandbox().list_sessions();
  expect_equal("sessions listed", listed.size(), std::size_t{0});
}

/// Expects exec and exec_start to refuse that timeout before anything starts.
Awaitable<void> timeout_refused(Context context, Seconds timeout) {
  auto session = co_await context.session();
  Argv argv = shell("echo ran >ran");
  const ExecOptions with(timeout);
  const std::string call = "with a timeout of " + std::to_string(timeout.count()) + " s";
  const Refusal refusal =
      co_await refused("exec " + call, session->exec(argv, with.clone()), ErrorCode::invalid_argument);
  expect_contains("the field named", refusal.field, "timeout");
  co_await refused("exec_start " + call, session->exec_start(argv, with.clone()),
                   ErrorCode::invalid_argument);
  co_await refused("the file that the command would have made", session->get_file("ran"),
                   ErrorCode::file_missing);
}

Awaitable<void> lifetime_refuses_exec(Context context) {
  const std::chrono::seconds lifetime = max_lifetime(context);
  const std::chrono::seconds longest = max_timeout(context);
  if (longest <= lifetime) throw NotRun("the profile's longest timeout is not over its longest life");
  co_await timeout_refused(context, lifetime + (longest - lifetime) / 2);
}

Awaitable<void> timeout_over_maximum(Context context) {
  const std::chrono::seconds longest = max_timeout(context);
  co_await timeout_refused(context, longest + 1s);
}

constexpr Check table[] = {
    {"ttl.exec_start_moves", "S-20 S-22", "at an exec's start the deadline is the exec's own and the ttl",
     exec_start_moves},
    {"ttl.exec_end_moves", "S-20 S-45", "at its end the deadline is the ttl from then on", exec_end_moves},
    {"ttl.latest_live_exec_counts", "S-20", "of several live execs the latest deadline counts",
     latest_live_counts},
    {"ttl.streams_extend", "S-20", "the ends of streamed transfers move expires_at on", streams_extend},
    {"ttl.wall_clock_step", "S-20", "a step of the wall clock neither expires nor extends", wall_clock_step},
    {"lifetime.caps_deadline", "S-20", "no deadline is past the longest life", lifetime_caps},
    {"lifetime.refuses_long_ttl", "S-22", "a ttl over the longest life is rejected, never clamped",
     lifetime_refuses_ttl},
    {"lifetime.refuses_long_exec", "S-22", "an exec that would outlive the longest life is refused",
     lifetime_refuses_exec},
    {"timeout.over_maximum", "S-22", "a timeout over the longest is refused, never clamped",
     timeout_over_maximum},
};

}  // namespace

std::span<const Check> deadline_checks() { return table; }

}  // namespace caisson::kit::conformance
