// Commands of the checks: plain sh, and what they print.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kit/conformance/context.h"
#include "kit/conformance/task.h"

namespace caisson::kit::conformance {

/// sh -c `script`, $1 and on being `words`.
Argv shell(std::string_view script, std::vector<std::string> words = {});
ExecOptions options(const Context& context);
/// For commands that something else than their timeout must end: one that came to its help would hide a
/// fault.
inline constexpr std::chrono::duration<double> no_deadline = std::chrono::hours(1);

Awaitable<ExecResult> run_shell(Context context, SessionPtr session, std::string script);
/// The same, which must exit with 0 and print nothing on stderr; its stdout.
Awaitable<std::string> output_of(Context context, SessionPtr session, std::string script);
Awaitable<HandlePtr> start_shell(Context context, SessionPtr session, std::string script);
/// As above, with another timeout.
Awaitable<HandlePtr> start_shell_for(std::chrono::duration<double> timeout, SessionPtr session,
                                     std::string script);

/// With a terminal of that size.
Awaitable<HandlePtr> start_on_terminal(Context context, SessionPtr session, std::string script, TtySize size);

/// All that an interactive exec gives from here on.
struct Drained {
  std::string out;
  std::string err;
  SandboxStreamExit exit;
};
/// Reads up to the exit item and expects the end behind it.
Awaitable<Drained> drain(HandlePtr handle);
/// Reads until stdout has had `text` since this call; what it had.
Awaitable<std::string> read_until(HandlePtr handle, std::string text);

/// Knows exactly when the last process that holds it is gone: the write end of a FIFO in a workspace, which a
/// watching exec reads. Processes inherit it, so it tells of descendants that no pid leads to.
class Lifeline {
 public:
  /// `watcher` shares the workspace with the processes that will hold the line, and outlives them.
  static Awaitable<std::shared_ptr<Lifeline>> lay(Context context, SessionPtr watcher);
  /// Words for the front of a script: the shell and whatever it starts then hold the line. The shell goes on
  /// once the watcher reads.
  std::string hold() const { return "exec 9>" + name_ + " || exit 99\n"; }
  /// Returns when somebody holds it.
  Awaitable<void> held() { return see_held(handle_); }
  /// Returns when nobody does any more; Failure, naming `who` should have gone, when that takes over the
  /// limit.
  Awaitable<void> gone(std::string who) { return see_gone(context_, handle_, std::move(who)); }

 private:
  Lifeline(Context context, std::string name, HandlePtr handle)
      : context_(std::move(context)), name_(std::move(name)), handle_(std::move(handle)) {}
  static Awaitable<void> see_held(HandlePtr handle);
  static Awaitable<void> see_gone(Context context, HandlePtr handle, std::string who);
  Context context_;
  std::string name_;
  HandlePtr handle_;
};

/// Reads `path` until it is there and holds `wanted`; Failure, saying `what`, when that takes over the limit.
Awaitable<void> await_file(Context context, SessionPtr session, std::string path, std::string wanted,
                           std::string what);

Awaitable<void> pause(Context context, std::chrono::milliseconds time);

}  // namespace caisson::kit::conformance
