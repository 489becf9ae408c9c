// Checks of how an interactive exec is ended: kill, signal, and dropping its handle.
#include <csignal>

#include "kit/conformance/check.h"
#include "kit/conformance/shell.h"

namespace caisson::kit::conformance {
namespace {

Awaitable<void> ends_command(Context context) {
  auto session = co_await context.session();
  HandlePtr handle =
      co_await start_shell(context, session, "trap '' TERM; echo ready; while :; do sleep 1000; done");
  co_await read_until(handle, "ready\n");
  co_await handle->kill();
  const Drained drained = co_await drain(handle);
  expect_equal("exit_code of a killed exec", drained.exit.exit_code, 137);
  expect_equal("ended.how of a killed exec", drained.exit.ended.how, ExecEnd::signaled);
  expect_equal("ended.signal of a killed exec", drained.exit.ended.signal.value_or(0), SIGKILL);
}

Awaitable<void> is_idempotent(Context context) {
  auto session = co_await context.session();
  HandlePtr handle = co_await start_shell(context, session, "sleep 1000");
  co_await handle->kill();
  co_await handle->kill();
  co_await drain(handle);
  co_await handle->kill();
  handle = co_await start_shell(context, session, "exit 3");
  const Drained drained = co_await drain(handle);
  co_await handle->kill();
  expect_equal("exit_code of a command that exited by itself", drained.exit.exit_code, 3);
}

Awaitable<void> reaches_tree(Context context) {
  auto session = co_await context.session();
  auto line = co_await Lifeline::lay(context, session);
  HandlePtr handle = co_await start_shell_for(
      no_deadline, session,
      line->hold() + "trap '' HUP TERM; ( sleep 1000 & ); ( ( sleep 1000 & ) & ); echo ready; sleep 1000");
  co_await line->held();
  // A tree that is killed before it has grown proves nothing.
  co_await read_until(handle, "ready\n");
  co_await handle->kill();
  co_await line->gone("a killed exec's tree");
}

Awaitable<void> reaches_leftovers(Context context) {
  auto session = co_await context.session();
  auto line = co_await Lifeline::lay(context, session);
  HandlePtr handle = co_await start_shell(
      context, session, line->hold() + "( sleep 1000 & ) >/dev/null 2>&1 </dev/null; exit 0");
  co_await line->held();
  co_await drain(handle);
  co_await handle->kill();
  co_await line->gone("what a killed exec's leader had left behind");
}

Awaitable<void> signals_leader(Context context) {
  auto session = co_await context.session();
  HandlePtr handle = co_await start_shell(
      context, session, "trap 'echo caught; exit 9' USR1; echo ready; while :; do sleep 0.02; done");
  co_await read_until(handle, "ready\n");
  co_await handle->signal(SIGUSR1);
  const Drained drained = co_await drain(handle);
  expect_equal("stdout after the signal", drained.out, "caught\n");
  expect_equal("exit_code", drained.exit.exit_code, 9);
  co_await handle->signal(SIGUSR1);
}

Awaitable<void> bad_signal(Context context) {
  auto session = co_await context.session();
  HandlePtr handle = co_await start_shell(context, session, "cat");
  static constexpr int numbers[] = {-1, 0, 1000};
  for (const int number : numbers) {
    const std::string call = "signal(" + std::to_string(number) + ")";
    co_await refused(call, handle->signal(number), ErrorCode::invalid_argument);
  }
  co_await handle->close_stdin();
  const Drained drained = co_await drain(handle);
  expect_equal("exit_code", drained.exit.exit_code, 0);
}

Awaitable<void> drop_kills(Context context) {
  auto session = co_await context.session();
  auto line = co_await Lifeline::lay(context, session);
  HandlePtr handle = co_await start_shell_for(no_deadline, session,
                                              line->hold() + "( sleep 1000 & ); echo ready; sleep 1000");
  co_await line->held();
  co_await read_until(handle, "ready\n");
  handle.reset();
  co_await line->gone("the tree of an exec whose handle was dropped");
}

Awaitable<void> drop_spares_leftovers(Context context) {
  auto session = co_await context.session();
  HandlePtr handle = co_await start_shell(
      context, session,
      "( until test -e go; do sleep 0.02; done; echo alive >answer ) >/dev/null 2>&1 </dev/null & exit 0");
  co_await drain(handle);
  handle.reset();
  co_await session->put_file("go", "");
  co_await await_file(context, session, "answer", "alive\n",
                      "expected a descendant to go on after the handle of its ended exec was dropped");
}

constexpr Check table[] = {
    {"kill.ends_command", "S-48 S-63", "kill ends a command whatever it ignores", ends_command},
    {"kill.is_idempotent", "S-63", "kill after the end does nothing, successfully", is_idempotent},
    {"kill.reaches_tree", "S-63", "kill empties the exec's tree, double forks included", reaches_tree},
    {"kill.reaches_leftovers", "S-63", "kill ends descendants when only they are left", reaches_leftovers},
    {"kill.signals_leader", "S-64", "signal reaches the leader, and does nothing after its end",
     signals_leader},
    {"kill.bad_signal", "S-64", "a number that is no signal is refused", bad_signal},
    {"kill.drop_kills", "S-65", "dropping a handle ends its exec", drop_kills},
    {"kill.drop_spares_leftovers", "S-65", "once the leader has exited dropping touches nothing",
     drop_spares_leftovers},
};

}  // namespace

std::span<const Check> kill_checks() { return table; }

}  // namespace caisson::kit::conformance
