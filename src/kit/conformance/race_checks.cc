// Checks of calls that race: each is decided once, and leaves nothing half done.
#include "kit/conformance/check.h"
#include "kit/conformance/sessions.h"
#include "kit/conformance/task.h"

namespace caisson::kit::conformance {
namespace {

using namespace std::chrono_literals;

/// A call that races a reap, and how it ended.
struct Racer {
  SessionPtr session;
  std::unique_ptr<Task<Caught>> call;
};

template <class T>
std::unique_ptr<Task<Caught>> race(const Context& context, Awaitable<T> call) {
  return std::make_unique<Task<Caught>>(context.executor(), caught(std::move(call)));
}

Awaitable<void> touch_session(Context, SessionPtr session) { co_await session->touch(); }

Awaitable<void> exec_in_session(Context context, SessionPtr session) {
  co_await run_shell(context, session, "exit 0");
}

/// Expired sessions, every other one used just before a reap and the rest just after: for each, either the
/// call succeeds and the session lives, or the call is refused and the session is reaped.
Awaitable<void> races_reap(Context context, std::string what, Awaitable<void> (*use)(Context, SessionPtr)) {
  std::vector<Racer> racers;
  for (int count = 0; count < 6; ++count) {
    auto session = co_await context.create(brief(context.spec("key" + std::to_string(count))));
    racers.push_back({session, nullptr});
  }
  co_await context.elapse(past_short_ttl);
  for (std::size_t at = 0; at < racers.size(); at += 2) {
    racers[at].call = race(context, use(context, racers[at].session));
  }
  Task<std::vector<std::string>> reap(context.executor(), context.sandbox().reap());
  for (std::size_t at = 1; at < racers.size(); at += 2) {
    racers[at].call = race(context, use(context, racers[at].session));
  }
  const std::vector<std::string> reaped = co_await reap.get();
  for (Racer& racer : racers) {
    const Caught seen = co_await racer.call->get();
    const Caught found = co_await caught(context.sandbox().get_session(racer.session->id()));
    const bool was_reaped = std::find(reaped.begin(), reaped.end(), racer.session->id()) != reaped.end();
    if (seen.error) {
      const std::vector<ErrorCode> codes{ErrorCode::session_destroyed, ErrorCode::session_not_found};
      expect_code(what + " that lost the race", seen, codes);
      expect(was_reaped, what + " was refused, yet its session is not among those reaped");
    }
    expect(seen.error != nullptr || !was_reaped, what + " succeeded, yet its session was reaped");
    expect(was_reaped == (found.error != nullptr),
           "expected a session to be found if and only if it was not reaped, after " + what);
  }
}

Awaitable<void> touch_races(Context context) { return races_reap(context, "touch", touch_session); }
Awaitable<void> exec_races(Context context) { return races_reap(context, "exec", exec_in_session); }

Awaitable<void> creates_at_once(Context context) {
  std::vector<std::unique_ptr<Task<SessionPtr>>> creates;
  for (int count = 0; count < 4; ++count) {
    creates.push_back(
        std::make_unique<Task<SessionPtr>>(context.executor(), context.create(context.persistent_spec())));
  }
  std::vector<SessionPtr> sessions;
  for (auto& create : creates) {
    SessionPtr session = co_await create->get();
    sessions.push_back(std::move(session));
  }
  co_await sessions.front()->put_file("file", "shared");
  for (const SessionPtr& session : sessions) {
    const std::string seen = co_await session->get_file("file");
    expect_equal("the file of one in a session made beside it", seen, "shared");
  }
}

Awaitable<void> cancelled_create(Context context) {
  // Cancelled at once, and at moments in which a create may be half done.
  for (int moment = 0; moment < 8; ++moment) {
    Task<SessionPtr> create(context.executor(), context.create(context.persistent_spec()));
    co_await create.settled(std::chrono::microseconds(300) * moment);
    create.cancel();
    const Caught seen = co_await caught(create.get());
    expect(!seen.error || was_cancelled(seen),
           "a cancelled create: expected operation_aborted, saw " + describe(seen.error));
    if (!seen.error) {
      // It had been made by then. The task gave it away, so it is found by the list.
      const std::vector<SandboxSessionInfo> listed = co_await context.sandbox().list_sessions();
      expect_equal("sessions listed after a create that was not cancelled any more", listed.size(),
                   std::size_t{1});
      co_await context.sandbox().destroy_session(listed.front().id);
    }
    const std::vector<SandboxSessionInfo> listed = co_await context.sandbox().list_sessions();
    expect_equal("sessions listed after a cancelled create", listed.size(), std::size_t{0});
  }
  auto session = co_await context.create(context.persistent_spec());
  const std::string names = co_await output_of(context, session, "ls -A");
  expect_equal("names in the workspace after cancelled creates", names, "");
}

Awaitable<void> puts_at_once(Context context) {
  auto session = co_await context.session();
  const std::string one(300000, 'a');
  const std::string two(200000, 'b');
  for (int round = 0; round < 5; ++round) {
    const std::string path = "new" + std::to_string(round) + "/deep/file";
    Task<void> first(context.executor(), session->put_file(path, one));
    Task<void> second(context.executor(), session->put_file(path, two));
    co_await first.get();
    co_await second.get();
    const std::string seen = co_await session->get_file(path);
    expect(seen == one || seen == two, "two puts at once: expected one of the two contents whole, saw " +
                                           show(seen.size()) + " bytes: " + show(seen));
  }
}

Awaitable<void> atomic_under_reader(Context context) {
  auto session = co_await context.session();
  // Whole lines of one letter; a mixture of two puts, or a part of one, differs from both in its count.
  const std::string one(150000, 'a');
  const std::string two(250000, 'b');
  co_await session->put_file("file", one);
  HandlePtr handle = co_await start_shell(
      context, session,
      "echo ready; until test -e stop; do cat file >copy || exit 1; a=$(tr -d b <copy | wc -c); "
      "b=$(tr -d a <copy | wc -c); case \"$((a)) $((b))\" in '150000 0'|'0 250000') ;; *) echo \"torn $a "
      "$b\"; exit 2;; esac; done; echo whole");
  co_await read_until(handle, "ready\n");
  for (int round = 0; round < 40; ++round) {
    co_await session->put_file("file", round % 2 == 0 ? two : one);
    co_await pause(context, 2ms);
  }
  co_await session->put_file("stop", "");
  const Drained drained = co_await drain(handle);
  expect_equal("what a command saw that reads a file which is put again and again", drained.out, "whole\n");
}

Awaitable<void> calls_race_destroy(Context context) {
  for (int round = 0; round < 6; ++round) {
    auto session = co_await context.session();
    co_await session->put_file("file", "x");
    Task<Caught> first(context.executor(), caught(run_shell(context, session, "sleep 1000")));
    co_await first.settled(std::chrono::milliseconds(round));
    Task<void> destroy(context.executor(), session->destroy());
    Task<Caught> second(context.executor(), caught(run_shell(context, session, "sleep 1000")));
    Task<Caught> start(context.executor(), caught(start_shell(context, session, "sleep 1000")));
    Task<Caught> put(context.executor(), caught(session->put_file("new", "x")));
    co_await destroy.get();
    const std::vector<ErrorCode> codes{ErrorCode::session_destroyed, ErrorCode::session_not_found};
    Caught seen = co_await first.get();
    expect_code("an exec begun before a destroy", seen, codes);
    seen = co_await second.get();
    expect_code("an exec begun beside a destroy", seen, codes);
    for (Task<Caught>* call : {&start, &put}) {
      seen = co_await call->get();
      if (seen.error) expect_code("exec_start or put_file beside a destroy", seen, codes);
    }
    const std::vector<SandboxSessionInfo> listed = co_await context.sandbox().list_sessions();
    expect_equal("sessions listed after destroy", listed.size(), std::size_t{0});
  }
}

Awaitable<void> create_races_destroy(Context context) {
  for (int round = 0; round < 6; ++round) {
    auto session = co_await context.create(context.persistent_spec());
    co_await session->put_file("file", "x");
    Task<void> destroy(context.executor(), session->destroy());
    co_await destroy.settled(std::chrono::microseconds(300) * round);
    const Caught seen = co_await caught(context.create(context.persistent_spec()));
    if (seen.error) expect_code("create beside a destroy", seen, ErrorCode::workspace_conflict);
    co_await destroy.get();
    // One that came before the destroy had the workspace, and took it along when it went.
    const std::vector<SandboxSessionInfo> listed = co_await context.sandbox().list_sessions();
    for (const SandboxSessionInfo& info : listed) {
      auto other = co_await context.sandbox().get_session(info.id);
      co_await other->release();
    }
    auto again = co_await context.create(context.persistent_spec());
    co_await refused("the file once all sessions have gone", again->get_file("file"),
                     ErrorCode::file_missing);
    co_await again->release();
  }
}

constexpr Check table[] = {
    {"reap.races_touch", "S-23", "a touch that races a reap is decided once", touch_races},
    {"reap.races_exec", "S-23", "an exec that races a reap is decided once", exec_races},
    {"destroy.races_calls", "S-26", "calls that race a destroy are done or refused typed",
     calls_race_destroy},
    {"persistent.create_races_destroy", "S-25", "a create that races a destroy shares, waits or conflicts",
     create_races_destroy},
    {"persistent.creates_at_once", "S-25", "creates on one key at once share the workspace", creates_at_once},
    {"create.cancelled_leaves_nothing", "S-27", "a cancelled create leaves nothing behind", cancelled_create},
    {"files.puts_at_once", "S-71", "of two puts at once one is there, whole, and so are their parents",
     puts_at_once},
    {"files.atomic_under_reader", "S-71", "whoever reads meanwhile sees the old bytes or the new, whole",
     atomic_under_reader},
};

}  // namespace

std::span<const Check> race_checks() { return table; }

}  // namespace caisson::kit::conformance
