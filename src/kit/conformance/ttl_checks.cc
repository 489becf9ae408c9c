// Checks of deadlines and of reap.
#include <algorithm>

#include "kit/conformance/check.h"
#include "kit/conformance/sessions.h"

namespace caisson::kit::conformance {
namespace {

using namespace std::chrono_literals;

/// Expects `after` to lie later than `before` by about the time that passed between them.
void expect_extended(std::string_view by, UtcTime before, UtcTime after) {
  const std::chrono::duration<double> moved = after - before;
  expect(moved >= 900ms, std::string(by) + ": expected expires_at to move on by 1 s, saw " +
                             std::to_string(moved.count()) + " s");
}

Awaitable<void> touch_extends(Context context) {
  auto session = co_await context.session();
  const UtcTime before = co_await deadline_of(session);
  co_await context.elapse(1s);
  const UtcTime untouched = co_await deadline_of(session);
  expect(untouched == before, "expected expires_at to stay while nothing happens");
  co_await session->touch();
  const UtcTime after = co_await deadline_of(session);
  expect_extended("touch", before, after);
}

Awaitable<void> exec_extends(Context context) {
  auto session = co_await context.session();
  const UtcTime before = co_await deadline_of(session);
  co_await context.elapse(1s);
  co_await output_of(context, session, "true");
  const UtcTime after = co_await deadline_of(session);
  expect_extended("an exec", before, after);
}

Awaitable<void> transfer_extends(Context context) {
  auto session = co_await context.session();
  UtcTime before = co_await deadline_of(session);
  co_await context.elapse(1s);
  co_await session->put_file("file", "x");
  UtcTime after = co_await deadline_of(session);
  expect_extended("put_file", before, after);
  before = after;
  co_await context.elapse(1s);
  co_await session->get_file("file");
  after = co_await deadline_of(session);
  expect_extended("get_file", before, after);
}

Awaitable<void> live_exec_holds(Context context) {
  auto session = co_await context.create(brief(context.spec()));
  HandlePtr handle = co_await start_shell_for(1h, session, "cat");
  co_await context.elapse(past_short_ttl);
  const std::vector<std::string> none = co_await context.sandbox().reap();
  expect_equal("reaped while an exec is live", none, std::vector<std::string>());
  co_await handle->write_stdin("alive\n");
  co_await handle->close_stdin();
  const Drained drained = co_await drain(handle);
  expect_equal("stdout of the live exec", drained.out, "alive\n");
  co_await context.elapse(past_short_ttl);
  const std::vector<std::string> reaped = co_await context.sandbox().reap();
  expect_equal("reaped a ttl after its end", reaped, std::vector<std::string>(1, session->id()));
}

Awaitable<void> reaps_expired_only(Context context) {
  auto expired = co_await context.create(brief(context.spec("expired")));
  auto alive = co_await context.create(context.spec("alive"));
  std::vector<std::string> reaped = co_await context.sandbox().reap();
  expect_equal("reaped before any ttl has passed", reaped, std::vector<std::string>());
  co_await context.elapse(past_short_ttl);
  reaped = co_await context.sandbox().reap();
  expect_equal("reaped", reaped, std::vector<std::string>(1, expired->id()));
  const std::string out = co_await output_of(context, alive, "echo alive");
  expect_equal("stdout in the session that was not due", out, "alive\n");
  co_await refused("get_session of the reaped one", context.sandbox().get_session(expired->id()),
                   ErrorCode::session_not_found);
  reaped = co_await context.sandbox().reap();
  expect_equal("reaped again", reaped, std::vector<std::string>());
}

Awaitable<void> touch_spares(Context context) {
  SandboxSessionSpec spec = context.spec();
  // Long beside the waits, so that a busy machine does not let it expire before the touch.
  spec.ttl_seconds = 4;
  auto session = co_await context.create(std::move(spec));
  co_await context.elapse(2s);
  co_await session->touch();
  co_await context.elapse(2500ms);
  std::vector<std::string> reaped = co_await context.sandbox().reap();
  expect_equal("reaped after the first deadline of a touched session", reaped, std::vector<std::string>());
  co_await context.elapse(2s);
  reaped = co_await context.sandbox().reap();
  expect_equal("reaped after its new one", reaped, std::vector<std::string>(1, session->id()));
}

Awaitable<void> reaps_in_order(Context context) {
  std::vector<SandboxSessionInfo> infos;
  for (int count = 0; count < 4; ++count) {
    auto session = co_await context.create(brief(context.spec("key" + std::to_string(count))));
    SandboxSessionInfo info = co_await session->info();
    infos.push_back(std::move(info));
    co_await context.elapse(2ms);
  }
  std::sort(infos.begin(), infos.end(), [](const SandboxSessionInfo& left, const SandboxSessionInfo& right) {
    return std::tie(left.created_at, left.id) < std::tie(right.created_at, right.id);
  });
  std::vector<std::string> wanted;
  for (const SandboxSessionInfo& info : infos) wanted.push_back(info.id);
  co_await context.elapse(past_short_ttl);
  const std::vector<std::string> reaped = co_await context.sandbox().reap();
  expect_equal("ids reaped", reaped, wanted);
}

Awaitable<void> reap_keeps_persistent(Context context) {
  auto session = co_await context.create(brief(context.persistent_spec()));
  co_await session->put_file("file", "kept");
  co_await context.elapse(past_short_ttl);
  const std::vector<std::string> reaped = co_await context.sandbox().reap();
  expect_equal("reaped", reaped, std::vector<std::string>(1, session->id()));
  auto again = co_await context.create(context.persistent_spec());
  const std::string seen = co_await again->get_file("file");
  expect_equal("the persistent workspace's file after the reap", seen, "kept");
}

Awaitable<void> reap_kills(Context context) {
  // One workspace, two sessions: who watches must outlive the other.
  auto watcher = co_await context.create(context.persistent_spec());
  auto session = co_await context.create(brief(context.persistent_spec()));
  auto line = co_await Lifeline::lay(context, watcher);
  // A leftover of an ended exec: a live exec would hold the session.
  co_await output_of(context, session, line->hold() + "( sleep 1000 & ) >/dev/null 2>&1 </dev/null");
  co_await line->held();
  co_await context.elapse(past_short_ttl);
  const std::vector<std::string> reaped = co_await context.sandbox().reap();
  expect_equal("reaped", reaped, std::vector<std::string>(1, session->id()));
  co_await line->gone("a process of the reaped session");
}

constexpr Check table[] = {
    {"ttl.touch_extends", "S-20", "touch moves expires_at on, and time alone does not", touch_extends},
    {"ttl.exec_extends", "S-20", "an exec moves expires_at on", exec_extends},
    {"ttl.transfer_extends", "S-20", "a file transfer moves expires_at on", transfer_extends},
    {"ttl.live_exec_holds", "S-20 S-22", "a session with a live exec is never past its deadline",
     live_exec_holds},
    {"reap.expired_only", "S-21", "reap ends what has expired, and nothing else", reaps_expired_only},
    {"reap.touch_spares", "S-20 S-21", "a touched session lives until its new deadline", touch_spares},
    {"reap.ledger_order", "S-21", "reap gives the ids oldest first", reaps_in_order},
    {"reap.keeps_persistent_workspace", "S-21", "reap keeps a persistent workspace", reap_keeps_persistent},
    {"reap.kills_processes", "S-26", "reap ends every process of a session", reap_kills},
};

}  // namespace

std::span<const Check> ttl_checks() { return table; }

}  // namespace caisson::kit::conformance
