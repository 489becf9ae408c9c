// Checks of standard input: writes that queue, that are given up, whose reader goes away; and terminals.
#include "kit/conformance/check.h"
#include "kit/conformance/shell.h"
#include "kit/conformance/task.h"

namespace caisson::kit::conformance {
namespace {

using namespace std::chrono_literals;

/// More than any pipe holds.
constexpr std::size_t much = std::size_t{4} << 20U;

/// Reads nothing before there is a file `go`.
Awaitable<HandlePtr> start_held_back(Context context, SessionPtr session, std::string then) {
  return start_shell(context, std::move(session),
                     "until test -e go; do sleep 0.02; done; " + std::move(then));
}

Awaitable<void> expect_waits(Task<void>* writing, std::string what) {
  const bool settled = co_await writing->settled(50ms);
  expect(!settled, what + ": expected it to wait for the command, saw it end");
}

Awaitable<void> cancelled_in_queue(Context context) {
  auto session = co_await context.session();
  HandlePtr handle = co_await start_held_back(context, session, "exec cat");
  Task<void> first(context.executor(), handle->write_stdin(std::string(much, 'a')));
  Task<void> second(context.executor(), handle->write_stdin(std::string(1000, 'b')));
  Task<void> third(context.executor(), handle->write_stdin(std::string(1000, 'c')));
  co_await expect_waits(&second, "a write behind one that waits");
  second.cancel();
  const Caught seen = co_await caught(second.get());
  expect(was_cancelled(seen), "a cancelled write: expected operation_aborted, saw " + describe(seen.error));
  try {
    std::rethrow_exception(seen.error);
  } catch (const SandboxWriteCancelled& cancelled) {
    expect_equal("written() of a write that was cancelled in the queue", cancelled.written(), std::size_t{0});
  } catch (...) {
    throw Failure("a cancelled write: expected a SandboxWriteCancelled, saw " + describe(seen.error));
  }
  co_await session->put_file("go", "");
  Task<Drained> reading(context.executor(), drain(handle));
  co_await first.get();
  co_await third.get();
  co_await handle->close_stdin();
  const Drained drained = co_await reading.get();
  expect(drained.out == std::string(much, 'a') + std::string(1000, 'c'),
         "expected the writes before and behind a cancelled one whole and in order, saw " +
             show(drained.out.size()) + " bytes that are not they");
}

Awaitable<void> close_waits(Context context) {
  auto session = co_await context.session();
  HandlePtr handle = co_await start_held_back(context, session, "exec cat");
  Task<void> writing(context.executor(), handle->write_stdin(std::string(much, 'a')));
  co_await expect_waits(&writing, "a write of 4 MiB");
  Task<void> closing(context.executor(), handle->close_stdin());
  co_await pause(context, 1ms);
  co_await session->put_file("go", "");
  const Drained drained = co_await drain(handle);
  co_await writing.get();
  co_await closing.get();
  expect_equal("bytes that arrived before the end-of-file", drained.out.size(), much);
}

Awaitable<void> pending_at_exit(Context context) {
  auto session = co_await context.session();
  HandlePtr handle = co_await start_held_back(context, session, "exit 4");
  Task<void> writing(context.executor(), handle->write_stdin(std::string(much, 'a')));
  co_await expect_waits(&writing, "a write of 4 MiB");
  co_await session->put_file("go", "");
  const bool settled = co_await writing.settled(context.limit());
  expect(settled, "expected a write to end with its command, saw it wait");
  co_await refused("a write whose command exits", writing.get(), ErrorCode::stdin_closed);
  const Drained drained = co_await drain(handle);
  expect_equal("exit_code", drained.exit.exit_code, 4);
}

Awaitable<void> pending_at_kill(Context context) {
  auto session = co_await context.session();
  HandlePtr handle = co_await start_shell(context, session, "echo ready; sleep 1000");
  co_await read_until(handle, "ready\n");
  Task<void> writing(context.executor(), handle->write_stdin(std::string(much, 'a')));
  co_await expect_waits(&writing, "a write of 4 MiB");
  co_await handle->kill();
  const bool settled = co_await writing.settled(context.limit());
  expect(settled, "expected a write to end with the kill, saw it wait");
  co_await refused("a write whose command is killed", writing.get(), ErrorCode::stdin_closed);
}

Awaitable<void> input_with_leftover(Context context) {
  auto session = co_await context.session();
  // The leader goes; what it leaves holds the pipe and never reads.
  Argv argv = shell("sleep 1000 <&0 & exit 6");
  Task<ExecResult> exec(context.executor(),
                        session->exec(argv, options(context).input(std::string(much, 'x'))));
  const bool settled = co_await exec.settled(context.limit() / 2);
  expect(settled, "expected an exec to end with its leader, saw it wait for its input to be read");
  const ExecResult result = co_await exec.get();
  expect_equal("exit_code of a leader whose child holds its stdin", result.exit_code, 6);
}

Awaitable<void> terminal_eof(Context context) {
  auto session = co_await context.session();
  HandlePtr handle =
      co_await start_on_terminal(context, session, "stty -echo; echo ready; cat; echo over", TtySize());
  co_await read_until(handle, "ready\r\n");
  co_await handle->write_stdin("line\n");
  co_await read_until(handle, "line\r\n");
  co_await handle->close_stdin();
  const Drained drained = co_await drain(handle);
  expect_equal("what a command prints after the end-of-file on its terminal", drained.out, "over\r\n");
  expect_equal("exit_code", drained.exit.exit_code, 0);
}

Awaitable<void> terminal_interrupt(Context context) {
  auto session = co_await context.session();
  HandlePtr handle = co_await start_on_terminal(
      context, session,
      "trap 'echo caught; exit 9' INT; stty -echo; echo ready; while :; do sleep 0.02; done", TtySize());
  co_await read_until(handle, "ready\r\n");
  co_await handle->write_stdin("\x03");
  const Drained drained = co_await drain(handle);
  expect_equal("what a command prints that the terminal interrupts", drained.out, "caught\r\n");
  expect_equal("exit_code", drained.exit.exit_code, 9);
}

Awaitable<void> resize_signals(Context context) {
  auto session = co_await context.session();
  HandlePtr handle = co_await start_on_terminal(
      context, session,
      "trap 'stty size; exit 9' WINCH; stty -echo; echo ready; while :; do sleep 0.02; done", TtySize());
  co_await read_until(handle, "ready\r\n");
  TtySize size;
  size.columns = 90;
  size.rows = 33;
  co_await handle->resize(size);
  const Drained drained = co_await drain(handle);
  expect_equal("what a command prints at SIGWINCH", drained.out, "33 90\r\n");
  expect_equal("exit_code", drained.exit.exit_code, 9);
}

constexpr Check table[] = {
    {"stdin.cancelled_in_queue", "S-62", "a write cancelled behind another leaves no byte and no gap",
     cancelled_in_queue},
    {"stdin.close_waits_for_writes", "S-62", "the end-of-file comes after the writes before it", close_waits},
    {"stdin.pending_at_exit", "S-62", "a write under way at the exit ends typed", pending_at_exit},
    {"stdin.pending_at_kill", "S-62 S-63", "a write under way at kill ends typed", pending_at_kill},
    {"exec.input_held_by_leftover", "S-43 S-45", "input that nobody reads does not put off the exec's end",
     input_with_leftover},
    {"interactive.terminal_eof", "S-64", "close_stdin is the terminal's end-of-file", terminal_eof},
    {"interactive.terminal_interrupt", "S-64", "a terminal turns its keys into signals", terminal_interrupt},
    {"interactive.resize_signals", "S-64", "a resize tells the command by SIGWINCH", resize_signals},
};

}  // namespace

std::span<const Check> stdin_order_checks() { return table; }

}  // namespace caisson::kit::conformance
