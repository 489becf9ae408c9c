// Commands of the checks, and the lifeline that sees processes go.
#include "kit/conformance/shell.h"

#include <utility>

namespace caisson::kit::conformance {

Argv shell(std::string_view script, std::vector<std::string> words) {
  std::vector<std::string> argv{"sh", "-c", std::string(script), "sh"};
  for (std::string& word : words) argv.push_back(std::move(word));
  return Argv(std::move(argv));
}

ExecOptions options(const Context& context) { return ExecOptions(context.limit()); }

Awaitable<ExecResult> run_shell(Context context, SessionPtr session, std::string script) {
  Argv argv = shell(script);
  ExecOptions quick = options(context);
  co_return co_await session->exec(std::move(argv), std::move(quick));
}

Awaitable<std::string> output_of(Context context, SessionPtr session, std::string script) {
  const ExecResult result = co_await run_shell(context, session, script);
  if (result.exit_code != 0 || !result.err.empty()) {
    throw Failure("`" + script + "`: expected exit code 0 and no stderr, saw " + show(result.exit_code) +
                  " and " + show(result.err));
  }
  co_return result.out;
}

Awaitable<HandlePtr> start_shell(Context context, SessionPtr session, std::string script) {
  return start_shell_for(context.limit(), std::move(session), std::move(script));
}

Awaitable<HandlePtr> start_shell_for(std::chrono::duration<double> timeout, SessionPtr session,
                                     std::string script) {
  Argv argv = shell(script);
  ExecOptions bounded(timeout);
  std::unique_ptr<SandboxExecHandle> handle =
      co_await session->exec_start(std::move(argv), std::move(bounded));
  expect(handle != nullptr, "exec_start returned no handle");
  co_return HandlePtr(std::move(handle));
}

Awaitable<HandlePtr> start_on_terminal(Context context, SessionPtr session, std::string script,
                                       TtySize size) {
  Argv argv = shell(script);
  ExecOptions with_tty = options(context);
  with_tty.tty(size);
  std::unique_ptr<SandboxExecHandle> handle = co_await session->exec_start(argv, std::move(with_tty));
  co_return HandlePtr(std::move(handle));
}

Awaitable<Drained> drain(HandlePtr handle) {
  Drained drained;
  for (;;) {
    std::optional<SandboxStreamItem> item = co_await handle->output().next();
    if (!item) throw Failure("output ended without an exit item");
    if (auto* exit = std::get_if<SandboxStreamExit>(&*item)) {
      drained.exit = *exit;
      break;
    }
    auto& chunk = std::get<SandboxStreamChunk>(*item);
    expect(!chunk.data.empty(), "output gave an empty chunk");
    (chunk.stream == SandboxStream::out ? drained.out : drained.err) += chunk.data;
  }
  const std::optional<SandboxStreamItem> after = co_await handle->output().next();
  expect(!after, "output gave another item after the exit item");
  co_return drained;
}

Awaitable<std::string> read_until(HandlePtr handle, std::string text) {
  std::string seen;
  while (seen.find(text) == std::string::npos) {
    std::optional<SandboxStreamItem> item = co_await handle->output().next();
    if (!item || std::holds_alternative<SandboxStreamExit>(*item)) {
      throw Failure("output ended while " + show(text) + " was expected, after " + show(seen));
    }
    const auto& chunk = std::get<SandboxStreamChunk>(*item);
    if (chunk.stream == SandboxStream::out) seen += chunk.data;
  }
  co_return seen;
}

Awaitable<std::shared_ptr<Lifeline>> Lifeline::lay(Context context, SessionPtr watcher) {
  const std::string name = "lifeline";
  co_await output_of(context, watcher, "mkfifo " + name);
  // The watcher may wait as long as the check; gone() has its own limit.
  HandlePtr handle =
      co_await start_shell_for(context.patience(), watcher, "exec <" + name + "; echo held; cat; echo gone");
  co_return std::shared_ptr<Lifeline>(new Lifeline(context, name, std::move(handle)));
}

Awaitable<void> Lifeline::see_held(HandlePtr handle) { co_await read_until(std::move(handle), "held\n"); }

Awaitable<void> Lifeline::see_gone(Context context, HandlePtr handle, std::string who) {
  Task<std::string> gone(context.executor(), read_until(std::move(handle), "gone\n"));
  const bool settled = co_await gone.settled(context.limit());
  if (!settled) {
    throw Failure("expected " + who + " to be gone, saw it alive " + std::to_string(context.limit().count()) +
                  " s later");
  }
  co_await gone.get();
}

Awaitable<void> await_file(Context context, SessionPtr session, std::string path, std::string wanted,
                           std::string what) {
  const auto deadline = std::chrono::steady_clock::now() + context.limit();
  std::string last = "nothing";
  for (;;) {
    try {
      const std::string seen = co_await session->get_file(path);
      last = show(seen);
    } catch (const SandboxError& error) {
      if (error.code() != ErrorCode::file_missing) throw;
    }
    if (last == show(wanted)) co_return;
    if (std::chrono::steady_clock::now() >= deadline) throw Failure(what + ", saw " + last + " in " + path);
    co_await pause(context, std::chrono::milliseconds(20));
  }
}

Awaitable<void> pause(Context context, std::chrono::milliseconds time) {
  boost::asio::steady_timer timer(context.executor());
  timer.expires_after(time);
  co_await timer.async_wait(boost::asio::use_awaitable);
}

}  // namespace caisson::kit::conformance
