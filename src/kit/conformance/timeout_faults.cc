// Faults of the deadline that every exec has.
#include <boost/asio/this_coro.hpp>
#include <cmath>

#include "kit/conformance/shared_faults.h"
#include "kit/conformance/shell.h"
#include "kit/conformance/task.h"

namespace caisson::kit::conformance {
namespace {

Awaitable<ExecResult> timeout_is_exit_code(BenchPtr, SessionPtr session, Argv argv, ExecOptions options) {
  ExecResult result;
  const std::exception_ptr error =
      co_await failure_of(session->exec(std::move(argv), std::move(options)), &result);
  if (is_code(error, ErrorCode::timeout)) {
    result.exit_code = result.ended.exit_code = 124;
  } else if (error) {
    std::rethrow_exception(error);
  }
  co_return result;
}

Awaitable<std::optional<SandboxStreamItem>> timeout_is_exit(BenchPtr, HandlePtr handle) {
  std::optional<SandboxStreamItem> item;
  const std::exception_ptr error = co_await failure_of(handle->output().next(), &item);
  if (error) item.emplace(SandboxStreamExit());
  co_return item;
}

void half_the_time(Argv&, ExecOptions& options) {
  if (options.timeout() > std::chrono::seconds(1))
    options = with_timeout(options, std::chrono::milliseconds(500));
}

void bad_timeout_repaired(Argv&, ExecOptions& options) {
  const double seconds = options.timeout().count();
  if (!std::isfinite(seconds) || seconds <= 0) options = with_timeout(options, std::chrono::seconds(1));
}

constexpr Fault table[] = {
    {"timeout.exec_raises", "a timeout is exit code 124", {.exec = timeout_is_exit_code}},
    {"timeout.output_raises", "a timeout is an exit item", {.next = timeout_is_exit}},
    {"timeout.not_early", "the timeout comes early", {.request = half_the_time}},
    {"timeout.kills_grandchild", "nothing is killed at the timeout", {.exec = raises_and_lets_run}},
    {"timeout.kills_flood", "nothing is killed at the timeout", {.exec = raises_and_lets_run}},
    {"timeout.kills_silent", "nothing is killed at the timeout", {.exec = raises_and_lets_run}},
    {"timeout.kills_unread", "an interactive exec has no deadline", {.exec_start = deadline_ignored}},
    {"timeout.bad_value", "a bad timeout is repaired", {.request = bad_timeout_repaired}},
};

}  // namespace

std::span<const Fault> timeout_faults() { return table; }

}  // namespace caisson::kit::conformance
