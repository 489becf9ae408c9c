// Faults of interactive execs: output, terminals, standard input.
#include <boost/asio/error.hpp>
#include <boost/system/system_error.hpp>

#include "kit/conformance/fault.h"

namespace caisson::kit::conformance {
namespace {

using Item = std::optional<SandboxStreamItem>;

Awaitable<Item> exit_repeated(BenchPtr, HandlePtr handle) {
  Item item = co_await handle->output().next();
  if (!item) item.emplace(SandboxStreamExit());
  co_return item;
}

void exit_says_nothing(SandboxStreamItem& item) {
  if (std::holds_alternative<SandboxStreamExit>(item)) item = SandboxStreamExit();
}

void all_is_stdout(SandboxStreamItem& item) {
  if (auto* chunk = std::get_if<SandboxStreamChunk>(&item)) chunk->stream = SandboxStream::out;
}

Awaitable<Item> all_at_the_end(BenchPtr bench, HandlePtr handle) {
  if (bench->count++ == 0) {
    for (;;) {
      Item item = co_await handle->output().next();
      if (!item) break;
      bench->items.push_back(std::move(*item));
    }
  }
  if (bench->items.empty()) co_return std::nullopt;
  Item item(std::move(bench->items.front()));
  bench->items.pop_front();
  co_return item;
}

Awaitable<Item> only_first_chunk(BenchPtr bench, HandlePtr handle) {
  Item item = co_await handle->output().next();
  if (bench->count++ == 0) co_return item;
  while (item && std::holds_alternative<SandboxStreamChunk>(*item)) item = co_await handle->output().next();
  co_return item;
}

/// Holds the bench's one place for as long as it lives.
class Place {
 public:
  explicit Place(BenchPtr bench) : bench_(std::move(bench)) { bench_->count = 1; }
  ~Place() { bench_->count = 0; }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

 private:
  BenchPtr bench_;
};

Awaitable<Item> reads_in_turn(BenchPtr bench, HandlePtr handle) {
  while (bench->count != 0) co_await doze();
  const Place place(bench);
  co_return co_await handle->output().next();
}

Awaitable<void> writes_in_turn(BenchPtr bench, HandlePtr handle, std::string data) {
  while (bench->count != 0) co_await doze();
  const Place place(bench);
  co_await handle->write_stdin(std::move(data));
}

Awaitable<Item> cancel_loses_chunk(BenchPtr bench, HandlePtr handle) {
  if (bench->count == 1) {
    bench->count = 0;
    co_await handle->output().next();
  }
  try {
    co_return co_await handle->output().next();
  } catch (const boost::system::system_error&) {
    bench->count = 1;
    throw;
  }
}

void long_chunks_cut(SandboxStreamItem& item) {
  auto* chunk = std::get_if<SandboxStreamChunk>(&item);
  if (chunk != nullptr) chunk->data.resize(std::min(chunk->data.size(), std::size_t{1000}));
}

Awaitable<Item> late_is_timeout(BenchPtr, HandlePtr) {
  throw SandboxExecTimeoutError(std::chrono::seconds(1), 0, 0);
  co_return std::nullopt;
}

void usual_size(Argv&, ExecOptions& options) {
  if (options.tty()) options.tty(TtySize());
}

Awaitable<void> resize_ignored(HandlePtr, TtySize) { co_return; }

Awaitable<void> write_lost(BenchPtr, HandlePtr, std::string) { co_return; }

Awaitable<void> close_ignored(BenchPtr, HandlePtr) { co_return; }

Awaitable<void> close_once(BenchPtr bench, HandlePtr handle) {
  if (bench->count++ > 0) throw SandboxError(ErrorCode::stdin_closed, "stdin is closed already");
  co_await handle->close_stdin();
}

Awaitable<void> write_in_pieces(BenchPtr, HandlePtr handle, std::string data) {
  constexpr std::size_t piece = 65536;
  for (std::size_t begin = 0; begin < data.size(); begin += piece) {
    co_await handle->write_stdin(data.substr(begin, piece));
  }
}

Awaitable<void> cancel_tells_nothing(BenchPtr, HandlePtr handle, std::string data) {
  try {
    co_await handle->write_stdin(std::move(data));
  } catch (const SandboxWriteCancelled&) {
    throw boost::system::system_error(boost::asio::error::operation_aborted);
  }
}

Awaitable<void> write_never_fails(BenchPtr, HandlePtr handle, std::string data) {
  try {
    co_await handle->write_stdin(std::move(data));
  } catch (const SandboxError&) {
    co_return;
  }
}

constexpr Fault table[] = {
    {"interactive.one_exit_item_last", "the exit item comes again", {.next = exit_repeated}},
    {"interactive.exit_item", "the exit item is always 0", {.item = exit_says_nothing}},
    {"interactive.streams_tagged", "all output is stdout", {.item = all_is_stdout}},
    {"interactive.live_output", "output comes when the command has ended", {.next = all_at_the_end}},
    {"interactive.output_taken_again", "output ends with its first chunk", {.next = only_first_chunk}},
    {"interactive.output_busy", "a second reader waits", {.next = reads_in_turn}},
    {"interactive.cancelled_next", "a cancelled next() loses a chunk", {.next = cancel_loses_chunk}},
    {"interactive.slow_reader", "output is dropped when there is much of it", {.item = long_chunks_cut}},
    {"interactive.late_reader", "reading late is a timeout", {.next = late_is_timeout}},
    {"interactive.terminal_size", "the terminal's size is always 80 by 24", {.request = usual_size}},
    {"interactive.terminal_resize", "resize does nothing", {.resize = resize_ignored}},
    {"interactive.resize_without_terminal", "resize succeeds without a terminal", {.resize = resize_ignored}},
    {"stdin.echo", "input is lost", {.write_stdin = write_lost}},
    {"stdin.close_is_eof", "close_stdin does nothing", {.close_stdin = close_ignored}},
    {"stdin.close_again", "close_stdin may be called once", {.close_stdin = close_once}},
    {"stdin.reads_while_writing",
     "reading and writing wait for each other",
     {.write_stdin = writes_in_turn, .next = reads_in_turn}},
    {"stdin.writes_whole", "writes are split", {.write_stdin = write_in_pieces}},
    {"stdin.cancelled_write", "a cancelled write tells nothing", {.write_stdin = cancel_tells_nothing}},
    {"stdin.write_after_close",
     "input after close_stdin is dropped in silence",
     {.write_stdin = write_never_fails}},
    {"stdin.write_after_exit",
     "input after the exit is dropped in silence",
     {.write_stdin = write_never_fails}},
    {"stdin.write_after_kill", "input after kill is dropped in silence", {.write_stdin = write_never_fails}},
};

}  // namespace

std::span<const Fault> interactive_faults() { return table; }

}  // namespace caisson::kit::conformance
