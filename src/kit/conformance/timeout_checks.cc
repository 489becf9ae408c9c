// Checks of the deadline that every exec has.
#include <limits>

#include "kit/conformance/check.h"
#include "kit/conformance/shell.h"
#include "kit/conformance/task.h"

namespace caisson::kit::conformance {
namespace {

using namespace std::chrono_literals;

/// Long enough for a busy machine to start a shell in.
constexpr auto deadline = std::chrono::duration<double>(1.5);

/// Runs `script` to its deadline and expects the error to come then.
Awaitable<Caught> outlast(Context context, SessionPtr session, std::string script) {
  Argv argv = shell(script);
  Task<ExecResult> exec(context.executor(), session->exec(argv, ExecOptions(deadline)));
  const bool settled = co_await exec.settled(deadline + context.limit());
  if (!settled) {
    throw Failure("expected the exec to end at its timeout, saw it run on for the limit of the suite");
  }
  const Caught seen = co_await caught(exec.get());
  expect_code("exec past its timeout", seen, ErrorCode::timeout);
  co_return seen;
}

/// Expects a SandboxExecTimeoutError with these.
void expect_timeout(const Caught& seen, double timeout, std::uint64_t out, std::uint64_t err) {
  try {
    std::rethrow_exception(seen.error);
  } catch (const SandboxExecTimeoutError& error) {
    expect(error.timeout_seconds() == timeout, "timeout_seconds(): expected " + std::to_string(timeout) +
                                                   ", saw " + std::to_string(error.timeout_seconds()));
    expect_equal("stdout_len()", error.stdout_len(), out);
    expect_equal("stderr_len()", error.stderr_len(), err);
  } catch (...) {
    throw Failure("expected a SandboxExecTimeoutError, saw " + describe(seen.error));
  }
}

Awaitable<void> raises(Context context) {
  auto session = co_await context.session();
  const Caught seen = co_await outlast(context, session, "printf sw0rdfish; printf 12 >&2; sleep 1000");
  expect_timeout(seen, deadline.count(), 9, 2);
  expect_lacks("its message", seen.what, "sw0rdfish");
  const std::string out = co_await output_of(context, session, "echo next");
  expect_equal("stdout of the next exec", out, "next\n");
}

Awaitable<void> raises_interactive(Context context) {
  auto session = co_await context.session();
  HandlePtr handle = co_await start_shell_for(deadline, session, "echo early; sleep 1000");
  co_await read_until(handle, "early\n");
  Caught seen = co_await caught(handle->output().next());
  expect_code("output past the timeout", seen, ErrorCode::timeout);
  expect_timeout(seen, deadline.count(), 6, 0);
  seen = co_await caught(handle->output().next());
  expect_code("output asked for again", seen, ErrorCode::timeout);
}

Awaitable<void> not_early(Context context) {
  auto session = co_await context.session();
  Argv argv = shell("sleep 1; exit 4");
  const ExecResult result = co_await session->exec(argv, options(context));
  expect_equal("exit_code of a command that ends before its timeout", result.exit_code, 4);
}

Awaitable<void> kills_tree(Context context) {
  auto session = co_await context.session();
  auto line = co_await Lifeline::lay(context, session);
  co_await outlast(
      context, session,
      line->hold() + "trap '' TERM HUP INT; ( sleep 1000 & ); ( ( sleep 1000 & ) & ); sleep 1000");
  co_await line->held();
  co_await line->gone("the tree of an exec past its timeout");
}

Awaitable<void> kills_flood(Context context) {
  auto session = co_await context.session();
  auto line = co_await Lifeline::lay(context, session);
  co_await outlast(context, session, line->hold() + "while :; do head -c 65536 /dev/zero; sleep 0.01; done");
  co_await line->gone("a command that floods its output");
}

Awaitable<void> kills_silent(Context context) {
  auto session = co_await context.session();
  auto line = co_await Lifeline::lay(context, session);
  // Its pipes closed, it stops itself; nothing comes from it any more.
  co_await outlast(context, session, line->hold() + "exec >&- 2>&- <&-; kill -STOP $$; sleep 1000");
  co_await line->gone("a command that closed its pipes and stopped");
}

Awaitable<void> kills_unread(Context context) {
  auto session = co_await context.session();
  auto line = co_await Lifeline::lay(context, session);
  HandlePtr handle =
      co_await start_shell_for(deadline, session, line->hold() + "head -c 100000000 /dev/zero");
  co_await line->held();
  // Nobody reads: the command sits in its write.
  co_await line->gone("a command whose output nobody reads");
  const Caught seen = co_await caught(drain(handle));
  expect_code("output read after the timeout", seen, ErrorCode::timeout);
}

Awaitable<void> bad_value(Context context) {
  auto session = co_await context.session();
  Argv argv = shell("echo ran >ran");
  static constexpr double values[] = {0, -1, std::numeric_limits<double>::infinity(),
                                      std::numeric_limits<double>::quiet_NaN()};
  for (const double value : values) {
    const std::string call = "with timeout " + std::to_string(value);
    const ExecOptions with(std::chrono::duration<double>{value});
    co_await refused("exec " + call, session->exec(argv, with.clone()), ErrorCode::invalid_argument);
    co_await refused("exec_start " + call, session->exec_start(argv, with.clone()),
                     ErrorCode::invalid_argument);
  }
  co_await refused("the file that the command would have made", session->get_file("ran"),
                   ErrorCode::file_missing);
}

constexpr Check table[] = {
    {"timeout.exec_raises", "S-46", "exec raises with the timeout and both lengths, never the output",
     raises},
    {"timeout.output_raises", "S-46", "output raises at the timeout, and again when asked again",
     raises_interactive},
    {"timeout.not_early", "S-46", "a command that ends before its timeout is a result", not_early},
    {"timeout.kills_grandchild", "S-46",
     "the whole tree is killed, double forks and ignored signals included", kills_tree},
    {"timeout.kills_flood", "S-46", "a flood does not put off the deadline", kills_flood},
    {"timeout.kills_silent", "S-46", "closed pipes and a stopped command do not put off the deadline",
     kills_silent},
    {"timeout.kills_unread", "S-46", "the deadline holds whether or not anyone reads", kills_unread},
    {"timeout.bad_value", "S-46", "a timeout that is not finite and above 0 is refused before any start",
     bad_value},
};

}  // namespace

std::span<const Check> timeout_checks() { return table; }

}  // namespace caisson::kit::conformance
