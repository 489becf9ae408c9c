// Checks of an interactive exec's standard input.
#include "kit/conformance/check.h"
#include "kit/conformance/shell.h"
#include "kit/conformance/task.h"

namespace caisson::kit::conformance {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t mebibyte = std::size_t{1} << 20U;

Awaitable<HandlePtr> start_cat(Context context, SessionPtr session) {
  return start_shell(std::move(context), std::move(session), "exec cat");
}

Awaitable<void> echo(Context context) {
  auto session = co_await context.session();
  HandlePtr handle = co_await start_cat(context, session);
  static constexpr std::string_view lines[] = {"one\n", "two\n", "three\n"};
  for (const std::string_view line : lines) {
    co_await handle->write_stdin(std::string(line));
    const std::string seen = co_await read_until(handle, "\n");
    expect_equal("what cat gave back", seen, line);
  }
}

Awaitable<void> close_is_eof(Context context) {
  auto session = co_await context.session();
  HandlePtr handle = co_await start_cat(context, session);
  co_await handle->write_stdin("last");
  co_await handle->close_stdin();
  const Drained drained = co_await drain(handle);
  expect_equal("stdout of cat", drained.out, "last");
  expect_equal("exit_code", drained.exit.exit_code, 0);
}

Awaitable<void> close_again(Context context) {
  auto session = co_await context.session();
  HandlePtr handle = co_await start_cat(context, session);
  co_await handle->close_stdin();
  co_await handle->close_stdin();
  const Drained drained = co_await drain(handle);
  expect_equal("exit_code", drained.exit.exit_code, 0);
  co_await handle->close_stdin();
}

Awaitable<void> reads_while_writing(Context context) {
  auto session = co_await context.session();
  HandlePtr handle = co_await start_cat(context, session);
  std::string sent;
  for (int line = 0; sent.size() < 4 * mebibyte; ++line) sent += std::to_string(line) + "\n";
  Task<Drained> reading(context.executor(), drain(handle));
  co_await handle->write_stdin(sent);
  co_await handle->close_stdin();
  const Drained drained = co_await reading.get();
  expect_equal("what cat gave back of 4 MiB", drained.out, sent);
}

Awaitable<void> writes_whole(Context context) {
  auto session = co_await context.session();
  HandlePtr handle = co_await start_cat(context, session);
  Task<Drained> reading(context.executor(), drain(handle));
  Task<void> first(context.executor(), handle->write_stdin(std::string(mebibyte, 'a')));
  Task<void> second(context.executor(), handle->write_stdin(std::string(mebibyte, 'b')));
  Task<void> third(context.executor(), handle->write_stdin(std::string(mebibyte, 'c')));
  co_await first.get();
  co_await second.get();
  co_await third.get();
  co_await handle->close_stdin();
  const Drained drained = co_await reading.get();
  const std::string wanted =
      std::string(mebibyte, 'a') + std::string(mebibyte, 'b') + std::string(mebibyte, 'c');
  expect_equal("bytes of three writes at once", drained.out.size(), wanted.size());
  expect(drained.out == wanted, "expected three writes at once whole and in order, saw them mixed");
}

Awaitable<void> cancelled_write(Context context) {
  auto session = co_await context.session();
  HandlePtr handle =
      co_await start_shell(context, session, "until test -e go; do sleep 0.02; done; exec cat");
  Task<void> writing(context.executor(), handle->write_stdin(std::string(4 * mebibyte, 'x')));
  const bool settled = co_await writing.settled(100ms);
  expect(!settled, "expected a write of 4 MiB to wait for the command, saw it end");
  writing.cancel();
  const Caught seen = co_await caught(writing.get());
  expect(was_cancelled(seen), "a cancelled write: expected operation_aborted, saw " + describe(seen.error));
  std::size_t written = 0;
  try {
    std::rethrow_exception(seen.error);
  } catch (const SandboxWriteCancelled& error) {
    written = error.written();
  } catch (...) {
    throw Failure("a cancelled write: expected a SandboxWriteCancelled, saw " + describe(seen.error));
  }
  co_await session->put_file("go", "");
  co_await handle->close_stdin();
  const Drained drained = co_await drain(handle);
  expect_equal("bytes that arrived of a cancelled write", drained.out.size(), written);
}

Awaitable<void> write_after_close(Context context) {
  auto session = co_await context.session();
  HandlePtr handle =
      co_await start_shell(context, session, "cat; read -r never; until test -e go; do sleep 0.02; done");
  co_await handle->write_stdin("before\n");
  co_await handle->close_stdin();
  co_await refused("write_stdin after close_stdin", handle->write_stdin("after\n"), ErrorCode::stdin_closed);
  co_await session->put_file("go", "");
  const Drained drained = co_await drain(handle);
  expect_equal("stdout", drained.out, "before\n");
}

Awaitable<void> write_after_exit(Context context) {
  auto session = co_await context.session();
  HandlePtr handle = co_await start_shell(context, session, "exit 0");
  co_await drain(handle);
  co_await refused("write_stdin after the exit", handle->write_stdin("late\n"), ErrorCode::stdin_closed);
}

Awaitable<void> write_after_kill(Context context) {
  auto session = co_await context.session();
  HandlePtr handle = co_await start_cat(context, session);
  co_await handle->write_stdin("before\n");
  co_await handle->kill();
  co_await refused("write_stdin after kill", handle->write_stdin("late\n"), ErrorCode::stdin_closed);
}

constexpr Check table[] = {
    {"stdin.echo", "S-62", "what is written arrives at once", echo},
    {"stdin.close_is_eof", "S-62", "close_stdin is an end-of-file after what was written", close_is_eof},
    {"stdin.close_again", "S-62", "close_stdin is idempotent, after the exit too", close_again},
    {"stdin.reads_while_writing", "S-62", "writing is concurrent with output", reads_while_writing},
    {"stdin.writes_whole", "S-62", "each write is whole and in order against the others", writes_whole},
    {"stdin.cancelled_write", "S-62", "a cancelled write tells how much went", cancelled_write},
    {"stdin.write_after_close", "S-62", "write_stdin after close_stdin is typed", write_after_close},
    {"stdin.write_after_exit", "S-62", "write_stdin after the exit is typed", write_after_exit},
    {"stdin.write_after_kill", "S-62", "write_stdin after kill is typed", write_after_kill},
};

}  // namespace

std::span<const Check> stdin_checks() { return table; }

}  // namespace caisson::kit::conformance
