// Checks of killing trees that make it hard, and of what a handle leaves.
#include <csignal>
#include <filesystem>

#include "kit/conformance/check.h"
#include "kit/conformance/shell.h"
#include "kit/conformance/task.h"

namespace caisson::kit::conformance {
namespace {

using namespace std::chrono_literals;

/// Each process makes its successor and ends: no process of it is ever found twice.
constexpr std::string_view fork_chain =
    "chain() { sleep 0.01; chain & }; chain >/dev/null 2>&1 </dev/null & echo grown; sleep 1000";

Awaitable<void> kills_fork_chain(Context context) {
  auto session = co_await context.session();
  auto line = co_await Lifeline::lay(context, session);
  HandlePtr handle = co_await start_shell_for(no_deadline, session, line->hold() + std::string(fork_chain));
  co_await line->held();
  co_await read_until(handle, "grown\n");
  co_await handle->kill();
  co_await line->gone("a chain of forks that was killed");
}

Awaitable<void> kills_new_session(Context context) {
  auto session = co_await context.session();
  const ExecResult has = co_await run_shell(context, session, "setsid true");
  if (has.exit_code != 0) throw NotRun("sessions have no setsid(1)");
  auto line = co_await Lifeline::lay(context, session);
  HandlePtr handle = co_await start_shell_for(
      no_deadline, session,
      line->hold() +
          "setsid sh -c 'trap \"\" HUP TERM INT; ( sleep 1000 & ); echo grown; sleep 1000' & wait");
  co_await line->held();
  co_await read_until(handle, "grown\n");
  co_await handle->kill();
  co_await line->gone("a process session of its own in a killed exec's tree");
}

Awaitable<void> kills_stopped(Context context) {
  auto session = co_await context.session();
  auto line = co_await Lifeline::lay(context, session);
  HandlePtr handle = co_await start_shell_for(
      no_deadline, session,
      line->hold() + "sh -c 'echo grown; kill -STOP $$; sleep 1000' & sleep 0.05; kill -STOP $$; sleep 1000");
  co_await line->held();
  co_await read_until(handle, "grown\n");
  co_await handle->kill();
  co_await line->gone("a killed tree of stopped processes");
  const Drained drained = co_await drain(handle);
  expect_equal("exit_code of a killed command", drained.exit.exit_code, 137);
}

Awaitable<void> wakes_reader(Context context) {
  auto session = co_await context.session();
  HandlePtr handle = co_await start_shell(context, session, "echo ready; sleep 1000");
  co_await read_until(handle, "ready\n");
  Task<Drained> reading(context.executor(), drain(handle));
  co_await pause(context, 1ms);
  Task<void> one(context.executor(), handle->kill());
  Task<void> two(context.executor(), handle->kill());
  co_await one.get();
  co_await two.get();
  const bool settled = co_await reading.settled(context.limit());
  expect(settled, "expected a reader to see the exit of a killed exec, saw it wait");
  const Drained drained = co_await reading.get();
  expect_equal("exit_code of an exec that was killed twice at once", drained.exit.exit_code, 137);
}

Awaitable<void> signal_spares(Context context) {
  auto session = co_await context.session();
  HandlePtr handle = co_await start_shell(context, session,
                                          "( until test -e go; do sleep 0.02; done; echo alive >answer ) "
                                          ">/dev/null 2>&1 </dev/null & echo ready; "
                                          "while :; do sleep 0.02; done");
  co_await read_until(handle, "ready\n");
  co_await handle->signal(SIGTERM);
  const Drained drained = co_await drain(handle);
  expect_equal("exit_code after SIGTERM", drained.exit.exit_code, 143);
  co_await session->put_file("go", "");
  co_await await_file(context, session, "answer", "alive\n",
                      "expected a signal to reach the leader alone, its child to go on");
}

Awaitable<void> timeout_kills_chain(Context context) {
  auto session = co_await context.session();
  auto line = co_await Lifeline::lay(context, session);
  Argv argv = shell(line->hold() + std::string(fork_chain));
  // Long enough for a busy machine to grow the chain in.
  Task<ExecResult> exec(context.executor(), session->exec(argv, ExecOptions(2s)));
  co_await line->held();
  const Caught seen = co_await caught(exec.get());
  expect_code("exec of a chain of forks past its timeout", seen, ErrorCode::timeout);
  co_await line->gone("a chain of forks past its timeout");
}

Awaitable<void> timeout_kills_interactive(Context context) {
  auto session = co_await context.session();
  auto line = co_await Lifeline::lay(context, session);
  HandlePtr handle = co_await start_shell_for(
      2s, session,
      line->hold() + "trap '' HUP TERM INT; ( ( sleep 1000 & ) & ); exec >/dev/null 2>&1; sleep 1000");
  co_await line->held();
  co_await line->gone("the tree of an interactive exec past its timeout");
  const Caught seen = co_await caught(drain(handle));
  expect_code("output of an exec past its timeout", seen, ErrorCode::timeout);
}

std::size_t own_descriptors() {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    static_cast<void>(entry);
    ++count;
  }
  return count;
}

Awaitable<void> start_and_drop(Context context, SessionPtr session, int times) {
  for (int count = 0; count < times; ++count) {
    HandlePtr handle = co_await start_shell(context, session, "cat");
    handle.reset();
  }
}

Awaitable<void> drop_leaks_nothing(Context context) {
  auto session = co_await context.session();
  // What a provider opens once, it has opened then.
  co_await start_and_drop(context, session, 3);
  const std::size_t before = own_descriptors();
  co_await start_and_drop(context, session, 60);
  const auto until = std::chrono::steady_clock::now() + context.limit();
  // Let go of a moment later; a few are a process's own come and go.
  while (own_descriptors() > before + 20 && std::chrono::steady_clock::now() < until) {
    co_await pause(context, 10ms);
  }
  const std::size_t after = own_descriptors();
  expect(after <= before + 20, "expected 60 dropped execs to leave no descriptor, saw " + show(after) +
                                   " where there were " + show(before));
}

constexpr Check table[] = {
    {"kill.ends_fork_chain", "S-63", "kill ends processes that fork on and on", kills_fork_chain},
    {"kill.reaches_new_session", "S-63 S-94", "kill reaches what has called setsid", kills_new_session},
    {"kill.ends_stopped", "S-63", "kill ends stopped processes", kills_stopped},
    {"kill.wakes_reader", "S-60 S-63", "kill, twice at once, ends the output that somebody waits for",
     wakes_reader},
    {"kill.signal_spares_descendants", "S-64", "signal reaches the leader alone", signal_spares},
    {"timeout.kills_fork_chain", "S-46", "the deadline ends processes that fork on and on",
     timeout_kills_chain},
    {"timeout.kills_interactive_tree", "S-46", "the deadline ends the whole tree of an interactive exec",
     timeout_kills_interactive},
    {"kill.drop_leaks_nothing", "S-65", "dropped handles leave no descriptor", drop_leaks_nothing},
};

}  // namespace

std::span<const Check> tree_checks() { return table; }

}  // namespace caisson::kit::conformance
