// Checks of what output is captured, up to when and how much, and of how ends are told apart.
#include <csignal>

#include "kit/conformance/check.h"
#include "kit/conformance/shell.h"
#include "kit/conformance/task.h"

namespace caisson::kit::conformance {
namespace {

using namespace std::chrono_literals;

/// Writes all that a pipe holds and more at once, and leaves a descendant that keeps the pipes open.
constexpr std::string_view last_words =
    "sleep 1000 & head -c 200000 /dev/zero; head -c 30000 /dev/zero >&2; printf last; printf words >&2; exit "
    "7";

Awaitable<void> grace(Context context) {
  auto session = co_await context.session();
  const ExecResult result = co_await run_shell(context, session, std::string(last_words));
  expect_equal("exit_code", result.exit_code, 7);
  expect_equal("stdout bytes of a leader that left its pipes open", result.out.size(), std::size_t{200004});
  expect_equal("the end of stdout", result.out.substr(200000), "last");
  expect_equal("stderr bytes", result.err.size(), std::size_t{30005});
  expect_equal("the end of stderr", result.err.substr(30000), "words");
}

Awaitable<void> grace_interactive(Context context) {
  auto session = co_await context.session();
  HandlePtr handle = co_await start_shell(context, session, std::string(last_words));
  Task<Drained> reading(context.executor(), drain(handle));
  const bool settled = co_await reading.settled(context.limit());
  expect(settled, "expected the exit item soon after the leader's end, saw the output wait");
  const Drained drained = co_await reading.get();
  expect_equal("exit_code", drained.exit.exit_code, 7);
  expect_equal("stdout bytes of a leader that left its pipes open", drained.out.size(), std::size_t{200004});
  expect_equal("stderr bytes", drained.err.size(), std::size_t{30005});
}

Awaitable<void> deadline_ends(Context context) {
  auto session = co_await context.session();
  // Long enough for a busy machine to start a shell in.
  Argv argv = shell(
      "( until test -e go; do sleep 0.02; done; echo alive >answer ) >/dev/null 2>&1 </dev/null & exit 0");
  const ExecResult result = co_await session->exec(argv, ExecOptions(2s));
  expect_equal("exit_code", result.exit_code, 0);
  co_await context.elapse(2500ms);
  co_await session->put_file("go", "");
  co_await await_file(context, session, "answer", "alive\n",
                      "expected a descendant to outlive the deadline of an exec that ended before it");
}

Awaitable<void> cap_per_stream(Context context) {
  auto session = co_await context.session();
  Argv both = shell("head -c 100 /dev/zero; head -c 100 /dev/zero >&2");
  ExecOptions capped = options(context);
  capped.output_cap(100);
  const ExecResult result = co_await session->exec(both, capped.clone());
  expect_equal("stdout at its cap", result.out.size(), std::size_t{100});
  expect_equal("stderr at its cap", result.err.size(), std::size_t{100});
  Argv over = shell("printf 12; head -c 101 /dev/zero >&2");
  const Caught seen = co_await caught(session->exec(over, capped.clone()));
  expect_code("exec of a command whose stderr is over the cap", seen, ErrorCode::output_limit);
  capped.allow_truncation(true);
  const ExecResult cut = co_await session->exec(over, std::move(capped));
  expect_equal("truncated", cut.truncated, true);
  expect_equal("stdout beside a stderr over its cap", cut.out, "12");
  expect_equal("stderr cut at its cap", cut.err.size(), std::size_t{100});
  expect_equal("stderr_bytes", cut.stderr_bytes, std::uint64_t{101});
}

Awaitable<void> cap_lets_go_on(Context context) {
  auto session = co_await context.session();
  Argv argv = shell("head -c 3000000 /dev/zero; echo done >done; exit 3");
  ExecOptions capped = options(context);
  capped.output_cap(10);
  const Caught seen = co_await caught(session->exec(argv, std::move(capped)));
  expect_code("exec of a command that writes more than its cap", seen, ErrorCode::output_limit);
  const std::string done = co_await session->get_file("done");
  expect_equal("the file made after the output past the cap", done, "done\n");
}

Awaitable<void> signals_apart(Context context) {
  auto session = co_await context.session();
  static constexpr int numbers[] = {SIGHUP, SIGINT, SIGQUIT, SIGABRT, SIGKILL, SIGSEGV, SIGPIPE, SIGALRM};
  for (const int number : numbers) {
    const std::string name = std::to_string(number);
    const ExecResult result =
        co_await run_shell(context, session, "ulimit -c 0; kill -" + name + " $$; sleep 1000");
    expect_equal("exit_code after signal " + name, result.exit_code, 128 + number);
    expect_equal("ended.how after signal " + name, result.ended.how, ExecEnd::signaled);
    expect_equal("ended.signal after signal " + name, result.ended.signal.value_or(0), number);
  }
  const ExecResult said = co_await run_shell(context, session, "exit 137");
  expect_equal("ended.how of a command that exits with 137", said.ended.how, ExecEnd::exited);
  expect(!said.ended.signal, "expected no ended.signal of a command that exits with 137");
}

Awaitable<void> characters_whole(Context context) {
  auto session = co_await context.session();
  // A character in two writes, and bytes that are none at the border.
  HandlePtr handle = co_await start_shell(
      context, session, R"(stty -echo 2>/dev/null; printf 'a\342\202'; read -r go; printf '\254b\377')");
  std::string seen = co_await read_until(handle, "a\xe2\x82");
  co_await handle->write_stdin("go\n");
  const Drained drained = co_await drain(handle);
  seen += drained.out;
  expect_equal("stdout of a command that writes a character in halves", seen,
               "a\xe2\x82\xac"
               "b\xff");
}

constexpr Check table[] = {
    {"exec.output_grace", "S-45", "what a leader wrote is delivered, whoever keeps its pipes open", grace},
    {"interactive.output_grace", "S-45 S-60", "so it is by exec_start, and the exit item comes soon after",
     grace_interactive},
    {"exec.deadline_ends_with_leader", "S-45", "an exec's deadline ends with its leader", deadline_ends},
    {"exec.output_cap_per_stream", "S-50", "each stream has the cap for itself", cap_per_stream},
    {"exec.output_cap_lets_go_on", "S-50", "past the cap the command goes on to its end", cap_lets_go_on},
    {"exec.signals_told_apart", "S-48", "which signal ended a command is told, and never made up",
     signals_apart},
    {"interactive.characters_in_halves", "S-49", "output is bytes, characters in two chunks too",
     characters_whole},
};

}  // namespace

std::span<const Check> capture_checks() { return table; }

}  // namespace caisson::kit::conformance
