// What the faults are made of.
#include "kit/conformance/fault.h"

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace caisson::kit::conformance {

void run_by_shell(Argv& argv, std::string_view script) {
  std::vector<std::string> words{"sh", "-c", std::string(script), "sh"};
  words.insert(words.end(), argv.words().begin(), argv.words().end());
  argv = Argv(std::move(words));
}

ExecOptions with_timeout(const ExecOptions& options, std::chrono::duration<double> timeout) {
  ExecOptions other(timeout);
  other.cwd(options.cwd()).env(clone(options.env()));
  if (options.tty()) other.tty(*options.tty());
  return other;
}

Awaitable<ExecResult> collect(HandlePtr handle) {
  ExecResult result;
  for (;;) {
    std::optional<SandboxStreamItem> item = co_await handle->output().next();
    if (!item) co_return result;
    if (const auto* exit = std::get_if<SandboxStreamExit>(&*item)) {
      result.exit_code = exit->exit_code;
      result.ended = exit->ended;
      continue;
    }
    const auto& chunk = std::get<SandboxStreamChunk>(*item);
    (chunk.stream == SandboxStream::out ? result.out : result.err) += chunk.data;
  }
}

Awaitable<void> doze() {
  const boost::asio::any_io_executor executor = co_await boost::asio::this_coro::executor;
  boost::asio::steady_timer timer(executor);
  timer.expires_after(std::chrono::milliseconds(5));
  co_await timer.async_wait(boost::asio::use_awaitable);
}

bool is_code(const std::exception_ptr& error, ErrorCode code) {
  if (!error) return false;
  try {
    std::rethrow_exception(error);
  } catch (const SandboxError& typed) {
    return typed.code() == code;
  } catch (...) {
    return false;
  }
}

}  // namespace caisson::kit::conformance
