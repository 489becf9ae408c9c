// Checks of exec_start: output, and terminals.
#include <csignal>

#include "kit/conformance/check.h"
#include "kit/conformance/shell.h"
#include "kit/conformance/task.h"

namespace caisson::kit::conformance {
namespace {

using namespace std::chrono_literals;
using Item = std::optional<SandboxStreamItem>;

Awaitable<void> one_exit_item_last(Context context) {
  auto session = co_await context.session();
  HandlePtr handle = co_await start_shell(context, session, "echo out; echo err >&2; exit 0");
  // Expects the end behind the exit item.
  const Drained drained = co_await drain(handle);
  expect_equal("stdout", drained.out, "out\n");
  const Item again = co_await handle->output().next();
  expect(!again, "expected nothing after the exit item, however often it is asked for");
}

Awaitable<void> exit_item(Context context) {
  auto session = co_await context.session();
  HandlePtr handle = co_await start_shell(context, session, "exit 7");
  Drained drained = co_await drain(handle);
  expect_equal("exit_code", drained.exit.exit_code, 7);
  expect_equal("ended.how", drained.exit.ended.how, ExecEnd::exited);
  handle = co_await start_shell(context, session, "kill -KILL $$");
  drained = co_await drain(handle);
  expect_equal("exit_code of a killed command", drained.exit.exit_code, 137);
  expect_equal("ended.signal of a killed command", drained.exit.ended.signal.value_or(0), SIGKILL);
}

Awaitable<void> streams_tagged(Context context) {
  auto session = co_await context.session();
  HandlePtr handle = co_await start_shell(context, session, "printf 'a\\000\\377'; printf b >&2; printf c");
  const Drained drained = co_await drain(handle);
  expect_equal("stdout", drained.out, std::string("a\0\xff", 3) + "c");
  expect_equal("stderr", drained.err, "b");
}

Awaitable<void> live_output(Context context) {
  auto session = co_await context.session();
  HandlePtr handle = co_await start_shell(context, session, "echo early; read -r line; echo late $line");
  co_await read_until(handle, "early\n");
  co_await handle->write_stdin("word\n");
  const Drained drained = co_await drain(handle);
  expect_equal("stdout after the input", drained.out, "late word\n");
}

Awaitable<void> output_taken_again(Context context) {
  auto session = co_await context.session();
  HandlePtr handle = co_await start_shell(context, session, "echo one; read -r line; echo two");
  SandboxOutput& first = handle->output();
  const Item item = co_await first.next();
  expect(item && std::holds_alternative<SandboxStreamChunk>(*item), "expected a first chunk");
  co_await handle->write_stdin("go\n");
  // Takes the output anew at each item.
  const Drained drained = co_await drain(handle);
  expect_equal("both parts of stdout", std::get<SandboxStreamChunk>(*item).data + drained.out, "one\ntwo\n");
}

Awaitable<void> output_busy(Context context) {
  auto session = co_await context.session();
  HandlePtr handle = co_await start_shell(context, session, "read -r line; echo $line");
  Task<Item> first(context.executor(), handle->output().next());
  co_await pause(context, 1ms);
  Task<Item> second(context.executor(), handle->output().next());
  const bool settled = co_await second.settled(context.limit());
  expect(settled, "a second reader: expected output_busy at once, saw it wait");
  co_await refused("a second reader while one waits", second.get(), ErrorCode::output_busy);
  co_await handle->write_stdin("still here\n");
  const Item item = co_await first.get();
  expect(item && std::holds_alternative<SandboxStreamChunk>(*item), "the first reader: expected a chunk");
  expect_equal("the first reader's chunk", std::get<SandboxStreamChunk>(*item).data, "still here\n");
}

Awaitable<void> cancelled_next(Context context) {
  auto session = co_await context.session();
  HandlePtr handle = co_await start_shell(context, session, "read -r line; echo $line");
  {
    Task<Item> waiting(context.executor(), handle->output().next());
    co_await pause(context, 1ms);
    waiting.cancel();
    const Caught seen = co_await caught(waiting.get());
    expect(was_cancelled(seen),
           "a cancelled next(): expected operation_aborted, saw " + describe(seen.error));
  }
  co_await handle->write_stdin("kept\n");
  const Drained drained = co_await drain(handle);
  expect_equal("stdout after a cancelled next()", drained.out, "kept\n");
  expect_equal("exit_code", drained.exit.exit_code, 0);
}

Awaitable<void> slow_reader(Context context) {
  auto session = co_await context.session();
  // Far more than any buffer holds: the command waits for its reader.
  HandlePtr handle =
      co_await start_shell(context, session, "head -c 8388608 /dev/zero; echo end; echo done >wrote");
  co_await pause(context, 200ms);
  co_await refused("the file that the command makes once all is written", session->get_file("wrote"),
                   ErrorCode::file_missing);
  const Drained drained = co_await drain(handle);
  expect_equal("stdout bytes", drained.out.size(), std::size_t{8388608 + 4});
  expect_equal("the end of stdout", drained.out.substr(8388608), "end\n");
  const std::string wrote = co_await session->get_file("wrote");
  expect_equal("the file made after the output", wrote, "done\n");
}

Awaitable<void> late_reader(Context context) {
  auto session = co_await context.session();
  HandlePtr handle = co_await start_shell_for(1500ms, session, "echo short; echo $$ >leader");
  // Until it was reaped: a file alone would say no more than that it is about to end.
  co_await output_of(context, session,
                     "until test -s leader; do sleep 0.01; done\n"
                     "while kill -0 \"$(cat leader)\" 2>/dev/null; do sleep 0.01; done");
  co_await context.elapse(2s);
  const Drained drained = co_await drain(handle);
  expect_equal("stdout read after the timeout of a finished exec", drained.out, "short\n");
  expect_equal("exit_code", drained.exit.exit_code, 0);
}

Awaitable<void> terminal(Context context) {
  auto session = co_await context.session();
  TtySize size;
  size.columns = 132;
  size.rows = 43;
  HandlePtr handle = co_await start_on_terminal(
      context, session, "test -t 0 && test -t 1 && test -t 2 && (: </dev/tty) && stty size && exit 5", size);
  const Drained drained = co_await drain(handle);
  expect_equal("rows and columns", drained.out, "43 132\r\n");
  expect_equal("exit_code", drained.exit.exit_code, 5);
}

Awaitable<void> terminal_resize(Context context) {
  auto session = co_await context.session();
  HandlePtr handle = co_await start_on_terminal(context, session,
                                                "stty -echo; echo ready; read -r line; stty size", TtySize());
  co_await read_until(handle, "ready\r\n");
  TtySize size;
  size.columns = 100;
  size.rows = 50;
  co_await handle->resize(size);
  co_await handle->write_stdin("go\n");
  const Drained drained = co_await drain(handle);
  expect_contains("rows and columns after resize", drained.out, "50 100");
}

Awaitable<void> resize_without_terminal(Context context) {
  auto session = co_await context.session();
  HandlePtr handle = co_await start_shell(context, session, "cat");
  co_await refused("resize of an exec without a terminal", handle->resize(TtySize()),
                   ErrorCode::invalid_argument);
}

constexpr Check table[] = {
    {"interactive.one_exit_item_last", "S-60", "chunks, then exactly one exit item, then nothing",
     one_exit_item_last},
    {"interactive.exit_item", "S-48 S-60", "the exit item says how the command ended", exit_item},
    {"interactive.streams_tagged", "S-60", "chunks carry their stream, bytes as they are", streams_tagged},
    {"interactive.live_output", "S-60", "output arrives while the command runs", live_output},
    {"interactive.output_taken_again", "S-60", "output is one cursor, and taking it again continues",
     output_taken_again},
    {"interactive.output_busy", "S-60", "two readers at once is typed, and the first goes on", output_busy},
    {"interactive.cancelled_next", "S-60", "a cancelled next() loses nothing", cancelled_next},
    {"interactive.slow_reader", "S-61", "a slow reader holds the command back and loses nothing",
     slow_reader},
    {"interactive.late_reader", "S-47", "a slow reader never turns a finished exec into a timeout",
     late_reader},
    {"interactive.terminal_size", "S-64", "a terminal of the size asked for", terminal},
    {"interactive.terminal_resize", "S-64", "resize sets the terminal's size", terminal_resize},
    {"interactive.resize_without_terminal", "S-64", "without a terminal resize is refused",
     resize_without_terminal},
};

}  // namespace

std::span<const Check> interactive_checks() { return table; }

}  // namespace caisson::kit::conformance
