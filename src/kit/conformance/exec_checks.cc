// Checks of exec: outcomes, output, input, and what runs beside it.
#include "kit/conformance/check.h"
#include "kit/conformance/shell.h"
#include "kit/conformance/task.h"

namespace caisson::kit::conformance {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t mebibyte = std::size_t{1} << 20U;

Awaitable<void> exit_code(Context context) {
  auto session = co_await context.session();
  static constexpr int codes[] = {0, 3, 127, 255};
  for (const int code : codes) {
    const ExecResult result = co_await run_shell(context, session, "exit " + std::to_string(code));
    expect_equal("exit_code", result.exit_code, code);
    expect_equal("ended.how", result.ended.how, ExecEnd::exited);
    expect_equal("ended.exit_code", result.ended.exit_code, code);
    expect(!result.ended.signal, "expected no ended.signal of a command that exited by itself");
  }
}

Awaitable<void> signal_exit(Context context) {
  auto session = co_await context.session();
  const ExecResult result = co_await run_shell(context, session, "kill -TERM $$");
  expect_equal("exit_code", result.exit_code, 143);
  expect_equal("ended.how", result.ended.how, ExecEnd::signaled);
  expect_equal("ended.signal", result.ended.signal.value_or(0), 15);
  expect_equal("ended.exit_code", result.ended.exit_code, 143);
}

Awaitable<void> streams_apart(Context context) {
  auto session = co_await context.session();
  const ExecResult result = co_await run_shell(context, session, "echo one; echo two >&2; echo three");
  expect_equal("stdout", result.out, "one\nthree\n");
  expect_equal("stderr", result.err, "two\n");
}

Awaitable<void> output_is_bytes(Context context) {
  auto session = co_await context.session();
  const ExecResult result = co_await run_shell(context, session, R"(printf 'a\000b\377\303(\r\n')");
  const std::string wanted("a\0b\xff\xc3(\r\n", 8);
  expect_equal("stdout", result.out, wanted);
  expect_equal("stdout_bytes", result.stdout_bytes, std::uint64_t{8});
}

Awaitable<void> drains_both_streams(Context context) {
  auto session = co_await context.session();
  const ExecResult result = co_await run_shell(
      context, session, "head -c 1048576 /dev/zero >&2; head -c 1048576 /dev/zero; echo end >&2; echo end");
  const std::string wanted = std::string(mebibyte, '\0') + "end\n";
  expect_equal("exit_code", result.exit_code, 0);
  expect_equal("stdout", result.out, wanted);
  expect_equal("stderr", result.err, wanted);
}

Awaitable<void> output_limit(Context context) {
  auto session = co_await context.session();
  Argv argv = shell("head -c 300000 /dev/zero; printf 1234 >&2");
  ExecOptions capped = options(context);
  capped.output_cap(100000);
  const Caught seen = co_await caught(session->exec(argv, capped.clone()));
  expect_code("exec of a command that writes more than its cap", seen, ErrorCode::output_limit);
  try {
    std::rethrow_exception(seen.error);
  } catch (const SandboxOutputLimitError& error) {
    expect_equal("limit()", error.limit(), std::uint64_t{100000});
    expect_equal("stdout_bytes()", error.stdout_bytes(), std::uint64_t{300000});
    expect_equal("stderr_bytes()", error.stderr_bytes(), std::uint64_t{4});
  } catch (const SandboxError&) {
    throw Failure("expected a SandboxOutputLimitError, saw another class with that code");
  }
  Argv less = shell("head -c 100000 /dev/zero");
  const ExecResult result = co_await session->exec(less, std::move(capped));
  expect_equal("stdout of a command that writes just its cap", result.out.size(), std::size_t{100000});
}

Awaitable<void> truncation(Context context) {
  auto session = co_await context.session();
  Argv argv = shell("printf start; head -c 300000 /dev/zero; echo end >&2; exit 4");
  ExecOptions capped = options(context);
  capped.output_cap(5).allow_truncation(true);
  const ExecResult result = co_await session->exec(argv, std::move(capped));
  expect_equal("exit_code", result.exit_code, 4);
  expect_equal("stdout", result.out, "start");
  expect_equal("stderr", result.err, "end\n");
  expect_equal("truncated", result.truncated, true);
  expect_equal("stdout_bytes", result.stdout_bytes, std::uint64_t{300005});
}

Awaitable<void> no_stdin_is_eof(Context context) {
  auto session = co_await context.session();
  const std::string out = co_await output_of(context, session, "cat; echo end");
  expect_equal("stdout", out, "end\n");
}

Awaitable<void> stdin_delivered(Context context) {
  auto session = co_await context.session();
  std::string input;
  for (int line = 0; input.size() < mebibyte; ++line) input += std::to_string(line) + "\n";
  Argv argv{"cat"};
  ExecOptions with_input = options(context).input(input);
  const ExecResult result = co_await session->exec(argv, std::move(with_input));
  expect_equal("exit_code", result.exit_code, 0);
  expect_equal("stdout of cat", result.out, input);
}

Awaitable<void> stdin_unread(Context context) {
  auto session = co_await context.session();
  Argv argv = shell("exec <&-; exit 6");
  ExecOptions with_input = options(context).input(std::string(4 * mebibyte, 'x'));
  const ExecResult result = co_await session->exec(argv, std::move(with_input));
  expect_equal("exit_code of a command that leaves its input unread", result.exit_code, 6);
}

Awaitable<void> runs_at_once(Context context) {
  auto session = co_await context.session();
  // Each waits for a file that the other one makes.
  Task<ExecResult> first(
      context.executor(),
      run_shell(context, session, "echo 1 >first; until test -e second; do sleep 0.02; done"));
  Task<ExecResult> second(
      context.executor(),
      run_shell(context, session, "until test -e first; do sleep 0.02; done; echo 2 >second"));
  const ExecResult one = co_await first.get();
  const ExecResult two = co_await second.get();
  expect_equal("exit_code of the first", one.exit_code, 0);
  expect_equal("exit_code of the second", two.exit_code, 0);
}

Awaitable<void> ends_with_leader(Context context) {
  auto session = co_await context.session();
  const ExecResult result = co_await run_shell(context, session, "sleep 1000 & echo started; exit 5");
  expect_equal("exit_code", result.exit_code, 5);
  expect_equal("stdout", result.out, "started\n");
}

Awaitable<void> spares_leftovers(Context context) {
  auto session = co_await context.session();
  // Its pipes stay open behind it, and it goes on writing into them.
  const ExecResult result = co_await run_shell(context, session,
                                               "( until test -e go; do echo waiting; sleep 0.02; done; head "
                                               "-c 300000 /dev/zero; echo alive >answer ) & exit 0");
  expect_equal("exit_code", result.exit_code, 0);
  co_await session->put_file("go", "");
  co_await await_file(context, session, "answer", "alive\n",
                      "expected a descendant to go on after its exec ended");
}

Awaitable<void> cancel_kills_tree(Context context) {
  auto session = co_await context.session();
  auto line = co_await Lifeline::lay(context, session);
  Argv argv = shell(line->hold() + "( sleep 1000 & ); echo grown >grown; sleep 1000");
  Task<ExecResult> exec(context.executor(), session->exec(argv, ExecOptions(no_deadline)));
  co_await line->held();
  co_await await_file(context, session, "grown", "grown\n", "expected the command to run");
  exec.cancel();
  const Caught seen = co_await caught(exec.get());
  expect(was_cancelled(seen), "a cancelled exec: expected operation_aborted, saw " + describe(seen.error));
  co_await line->gone("the tree of a cancelled exec");
}

constexpr Check table[] = {
    {"exec.exit_code", "S-48", "a command's own exit code is its result, never an error", exit_code},
    {"exec.signal_exit", "S-48", "a command that a signal ended says which, as 128+N", signal_exit},
    {"exec.streams_apart", "S-49", "stdout and stderr are captured apart", streams_apart},
    {"exec.output_is_bytes", "S-49", "output is bytes, NUL and invalid UTF-8 too", output_is_bytes},
    {"exec.drains_both_streams", "S-43 S-49", "either stream may be flooded without a deadlock",
     drains_both_streams},
    {"exec.output_limit", "S-50", "past the cap exec raises with both totals", output_limit},
    {"exec.output_truncation", "S-50", "where allowed, past the cap the result says truncated", truncation},
    {"exec.no_stdin_is_eof", "S-43", "without stdin the command sees an end-of-file at once",
     no_stdin_is_eof},
    {"exec.stdin_delivered", "S-43", "stdin is delivered whole while output is drained", stdin_delivered},
    {"exec.stdin_unread", "S-43", "a command that leaves its stdin unread is no error", stdin_unread},
    {"exec.runs_at_once", "S-51", "execs of a session run at the same time", runs_at_once},
    {"exec.ends_with_leader", "S-45", "an exec ends with its leader, whoever keeps its pipes open",
     ends_with_leader},
    {"exec.spares_leftovers", "S-45 S-65", "descendants left behind go on, their output never blocks them",
     spares_leftovers},
    {"exec.cancel_kills_tree", "S-52", "cancelling the caller kills the whole tree", cancel_kills_tree},
};

}  // namespace

std::span<const Check> exec_checks() { return table; }

}  // namespace caisson::kit::conformance
