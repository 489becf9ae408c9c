// Faults of what output is captured, and of how ends are told apart.
#include "caisson/contract/text.h"
#include "kit/conformance/shared_faults.h"

namespace caisson::kit::conformance {
namespace {

void one_pipe_of_stdout(ExecResult& result) {
  result.out.resize(std::min(result.out.size(), std::size_t{65536}));
}

/// Waits for the pipes to close rather than for the leader.
void pipes_awaited(Argv& argv, ExecOptions&) { run_by_shell(argv, "\"$@\" | cat"); }

/// Its leader outlives the command's, whose deadline is then the descendants' too.
void leader_stays(Argv& argv, ExecOptions& options) {
  if (options.timeout() <= std::chrono::seconds(2)) run_by_shell(argv, "\"$@\"; sleep 1000");
}

Awaitable<ExecResult> timeout_is_success(BenchPtr, SessionPtr session, Argv argv, ExecOptions options) {
  ExecResult result;
  const std::exception_ptr error =
      co_await failure_of(session->exec(std::move(argv), std::move(options)), &result);
  if (error && !is_code(error, ErrorCode::timeout)) std::rethrow_exception(error);
  co_return result;
}

void half_the_cap(Argv&, ExecOptions& options) { options.output_cap(options.output_cap() / 2); }

/// Ends the command once it has written too much.
Awaitable<ExecResult> cap_kills(BenchPtr, SessionPtr session, Argv argv, ExecOptions options) {
  HandlePtr handle = co_await session->exec_start(std::move(argv), with_timeout(options, options.timeout()));
  std::uint64_t written = 0;
  while (written <= options.output_cap()) {
    const std::optional<SandboxStreamItem> item = co_await handle->output().next();
    if (!item) co_return ExecResult();
    if (const auto* chunk = std::get_if<SandboxStreamChunk>(&*item)) written += chunk->data.size();
  }
  co_await handle->kill();
  throw SandboxOutputLimitError(options.output_cap(), written, 0);
}

void high_code_is_signal(ExecResult& result) {
  if (result.exit_code > 128) {
    result.ended.how = ExecEnd::signaled;
    result.ended.signal = result.exit_code - 128;
  }
}

void chunks_as_text(SandboxStreamItem& item) {
  if (auto* chunk = std::get_if<SandboxStreamChunk>(&item)) chunk->data = to_text(chunk->data);
}

constexpr Fault table[] = {
    {"exec.output_grace", "what does not fit one pipe is lost", {.result = one_pipe_of_stdout}},
    {"interactive.output_grace", "an exec waits for whoever holds its pipes", {.request = pipes_awaited}},
    {"exec.deadline_ends_with_leader",
     "leftovers are killed at the deadline",
     {.request = leader_stays, .exec = timeout_is_success}},
    {"exec.output_cap_per_stream", "the streams share one cap", {.request = half_the_cap}},
    {"exec.output_cap_lets_go_on", "the cap ends the command", {.exec = cap_kills}},
    {"exec.signals_told_apart", "an exit code over 128 is a signal", {.result = high_code_is_signal}},
    {"interactive.characters_in_halves", "chunks are taken for text", {.item = chunks_as_text}},
};

}  // namespace

std::span<const Fault> capture_faults() { return table; }

}  // namespace caisson::kit::conformance
