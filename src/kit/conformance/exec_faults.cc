// Faults of exec: outcomes, output, input, and the process that a command finds itself to be.
#include <boost/asio/cancellation_state.hpp>
#include <boost/asio/this_coro.hpp>
#include <cstdlib>

#include "caisson/contract/text.h"
#include "kit/conformance/fault.h"

namespace caisson::kit::conformance {
namespace {

void any_failure_is_1(ExecResult& result) {
  result.exit_code = result.ended.exit_code = result.exit_code == 0 ? 0 : 1;
}

void signal_without_trace(ExecResult& result) {
  result.ended.how = ExecEnd::exited;
  result.ended.signal.reset();
}

void one_stream(ExecResult& result) {
  result.out += result.err;
  result.err.clear();
}

void text_output(ExecResult& result) { result.out = to_text(result.out); }

void one_pipe_of_output(ExecResult& result) {
  result.err.resize(std::min(result.err.size(), std::size_t{65536}));
}

void always_truncating(Argv&, ExecOptions& options) { options.allow_truncation(true); }

void silently_truncated(ExecResult& result) { result.truncated = false; }

/// exec made of exec_start, which knows no input and closes nothing.
Awaitable<ExecResult> stdin_left_open(BenchPtr, SessionPtr session, Argv argv, ExecOptions options) {
  HandlePtr handle = co_await session->exec_start(std::move(argv), with_timeout(options, options.timeout()));
  co_return co_await collect(handle);
}

void one_pipe_of_input(Argv&, ExecOptions& options) {
  if (options.input()) options.input(options.input()->substr(0, 65536));
}

Awaitable<ExecResult> input_must_be_read(BenchPtr, SessionPtr session, Argv argv, ExecOptions options) {
  HandlePtr handle = co_await session->exec_start(std::move(argv), with_timeout(options, options.timeout()));
  co_await handle->write_stdin(options.input().value_or(std::string()));
  co_await handle->close_stdin();
  co_return co_await collect(handle);
}

Awaitable<ExecResult> one_at_a_time(BenchPtr bench, SessionPtr session, Argv argv, ExecOptions options) {
  while (bench->count != 0) co_await doze();
  bench->count = 1;
  ExecResult result;
  const std::exception_ptr error =
      co_await failure_of(session->exec(std::move(argv), std::move(options)), &result);
  bench->count = 0;
  if (error) std::rethrow_exception(error);
  co_return result;
}

void waits_for_pipes(Argv& argv, ExecOptions&) { run_by_shell(argv, "\"$@\" | cat"); }

Awaitable<ExecResult> kills_leftovers(BenchPtr, SessionPtr session, Argv argv, ExecOptions options) {
  HandlePtr handle = co_await session->exec_start(std::move(argv), with_timeout(options, options.timeout()));
  co_await handle->close_stdin();
  ExecResult result = co_await collect(handle);
  co_await handle->kill();
  co_return result;
}

Awaitable<ExecResult> cancelled_runs_on(BenchPtr bench, SessionPtr session, Argv argv, ExecOptions options) {
  // A cancellation that came before the handle was kept would end the command after all.
  co_await boost::asio::this_coro::reset_cancellation_state(boost::asio::disable_cancellation());
  HandlePtr handle = co_await session->exec_start(std::move(argv), with_timeout(options, options.timeout()));
  bench->keep(handle);
  co_await boost::asio::this_coro::reset_cancellation_state(boost::asio::enable_total_cancellation());
  co_return co_await collect(handle);
}

void below_a_shell(Argv& argv, ExecOptions&) { run_by_shell(argv, "\"$@\"; exit $?"); }
void signal_ignored(Argv& argv, ExecOptions&) { run_by_shell(argv, "trap '' PIPE; exec \"$@\""); }
void descriptor_leaked(Argv& argv, ExecOptions&) { run_by_shell(argv, "exec 9</dev/null; exec \"$@\""); }
void other_umask(Argv& argv, ExecOptions&) { run_by_shell(argv, "umask 077; exec \"$@\""); }

Awaitable<ExecResult> always_a_terminal(BenchPtr, SessionPtr session, Argv argv, ExecOptions options) {
  ExecOptions with_tty = with_timeout(options, options.timeout());
  with_tty.tty(TtySize());
  HandlePtr handle = co_await session->exec_start(std::move(argv), std::move(with_tty));
  co_return co_await collect(handle);
}

constexpr Fault table[] = {
    {"exec.exit_code", "any failure is exit code 1", {.result = any_failure_is_1}},
    {"exec.signal_exit", "a signal leaves no trace but 128+N", {.result = signal_without_trace}},
    {"exec.streams_apart", "stderr goes into stdout", {.result = one_stream}},
    {"exec.output_is_bytes", "output is taken for text", {.result = text_output}},
    {"exec.drains_both_streams", "what does not fit one pipe is lost", {.result = one_pipe_of_output}},
    {"exec.output_limit", "output past the cap is cut in silence", {.request = always_truncating}},
    {"exec.output_truncation", "a cut result does not say so", {.result = silently_truncated}},
    {"exec.no_stdin_is_eof", "stdin stays open", {.exec = stdin_left_open}},
    {"exec.stdin_delivered", "what does not fit one pipe is not delivered", {.request = one_pipe_of_input}},
    {"exec.stdin_unread", "unread stdin is an error", {.exec = input_must_be_read}},
    {"exec.runs_at_once", "execs wait for each other", {.exec = one_at_a_time}},
    {"exec.ends_with_leader", "an exec waits for whoever holds its pipes", {.request = waits_for_pipes}},
    {"exec.spares_leftovers", "an exec's end kills its descendants", {.exec = kills_leftovers}},
    {"exec.cancel_kills_tree", "a cancelled exec runs on", {.exec = cancelled_runs_on}},
    {"exec.own_session", "a command runs below another process", {.request = below_a_shell}},
    {"exec.default_signals", "SIGPIPE is ignored", {.request = signal_ignored}},
    {"exec.descriptors", "a descriptor leaks", {.request = descriptor_leaked}},
    {"exec.umask", "the umask is 077", {.request = other_umask}},
    {"exec.no_terminal", "every command gets a terminal", {.exec = always_a_terminal}},
};

}  // namespace

std::span<const Fault> exec_faults() { return table; }

}  // namespace caisson::kit::conformance
