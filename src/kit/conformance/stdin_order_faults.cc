// Faults of standard input that queues, and of terminals.
#include <boost/asio/cancellation_state.hpp>
#include <boost/asio/this_coro.hpp>

#include "kit/conformance/shared_faults.h"

namespace caisson::kit::conformance {
namespace {

/// A write that nothing can take back.
Awaitable<void> writes_in_full(BenchPtr, HandlePtr handle, std::string data) {
  co_await boost::asio::this_coro::reset_cancellation_state(boost::asio::disable_cancellation());
  co_await handle->write_stdin(std::move(data));
}

/// Does not wait for the writes before it.
Awaitable<void> close_kills(BenchPtr, HandlePtr handle) { co_await handle->kill(); }

Awaitable<void> write_forgives(BenchPtr, HandlePtr handle, std::string data) {
  try {
    co_await handle->write_stdin(std::move(data));
  } catch (const SandboxError&) {
    co_return;
  }
}

Awaitable<ExecResult> input_must_be_taken(BenchPtr, SessionPtr session, Argv argv, ExecOptions options) {
  HandlePtr handle = co_await session->exec_start(std::move(argv), with_timeout(options, options.timeout()));
  std::string input = options.input().value_or(std::string());
  co_await handle->write_stdin(std::move(input));
  co_await handle->close_stdin();
  co_return co_await collect(handle);
}

Awaitable<void> close_ignored(BenchPtr, HandlePtr) { co_return; }

void keys_are_bytes(Argv& argv, ExecOptions& options) {
  if (options.tty()) run_by_shell(argv, "stty -isig; exec \"$@\"");
}

Awaitable<void> resize_ignored(HandlePtr, TtySize) { co_return; }

constexpr Fault table[] = {
    {"stdin.cancelled_in_queue", "a queued write cannot be cancelled", {.write_stdin = writes_in_full}},
    {"stdin.close_waits_for_writes", "close_stdin does not wait", {.close_stdin = close_kills}},
    {"stdin.pending_at_exit", "a write into nowhere succeeds", {.write_stdin = write_forgives}},
    {"stdin.pending_at_kill", "a write into nowhere succeeds", {.write_stdin = write_forgives}},
    {"exec.input_held_by_leftover", "input must be taken before an exec ends", {.exec = input_must_be_taken}},
    {"interactive.terminal_eof", "close_stdin does nothing", {.close_stdin = close_ignored}},
    {"interactive.terminal_interrupt", "the terminal's keys are bytes", {.request = keys_are_bytes}},
    {"interactive.resize_signals", "resize does nothing", {.resize = resize_ignored}},
};

}  // namespace

std::span<const Fault> stdin_order_faults() { return table; }

}  // namespace caisson::kit::conformance
