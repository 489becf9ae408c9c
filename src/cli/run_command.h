// RunCommand: one `caisson run`, from the session's creation to its release.
#pragma once

#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "caisson/contract/sandbox.h"
#include "caisson/kit/workers.h"
#include "cli/capture.h"
#include "cli/output_writer.h"
#include "cli/run_request.h"
#include "os/console.h"

namespace caisson::cli {

struct RunRequest {
  SandboxSessionSpec spec;
  Argv argv;
  ExecOptions exec;
  std::vector<Transfer> put;
  std::vector<Transfer> get;
  bool input;    ///< Pass our standard input on.
  bool tty;      ///< Give the command a terminal of our terminal's size.
  bool capture;  ///< Keep the output instead of passing it on.
};

/// What came of it.
struct RunOutcome {
  int exit_code = 0;
  std::optional<ExecEnded> ended;    ///< How the command ended, when it ran to its end.
  std::optional<ExecResult> result;  ///< The same with its output, when it was captured.
  std::optional<int> signal;         ///< What ended caisson itself.
  std::exception_ptr failure;        ///< Why Caisson could not run it, or cut it short.
  /// What went wrong besides: a --get, the release.
  std::vector<std::exception_ptr> later_failures;
  bool held_up = false;  ///< A thread is held up in a write or read that nobody can end: leave by std::_Exit.
};

class RunCommand {
 public:
  /// Takes SIGINT, SIGTERM, SIGHUP and SIGQUIT from here on, each unless it is ignored: a caller's nohup(1)
  /// holds.
  explicit RunCommand(boost::asio::io_context& context);
  ~RunCommand();
  RunCommand(const RunCommand&) = delete;
  RunCommand& operator=(const RunCommand&) = delete;

  /// Runs the loop until the session is released, then ends `sandbox`.
  RunOutcome run(std::shared_ptr<Sandbox> sandbox, RunRequest request);

 private:
  struct Feed;

  Awaitable<void> session_task();
  Awaitable<void> cancellable_part();
  Awaitable<void> exec();
  Awaitable<void> pump(std::shared_ptr<SandboxExecHandle> handle);
  Awaitable<void> put(Transfer transfer);
  Awaitable<void> get(Transfer transfer);
  Awaitable<void> clean_up();
  Awaitable<void> release();
  static Awaitable<void> feed(std::shared_ptr<Feed> feed, std::shared_ptr<SandboxExecHandle> handle);

  void begin_feeding();
  void end_of_session_task(std::exception_ptr failure);
  void end_by(int exit_code);
  void wait_for_signal();
  void wait_for_terminal_signal();
  void on_terminal_signal(int number);
  void on_output_failure(os::Error error);
  void lift_limit_after(std::chrono::duration<double> timeout);
  RunOutcome outcome();

  boost::asio::io_context& context_;
  boost::asio::signal_set signals_;
  boost::asio::signal_set terminal_signals_;
  boost::asio::steady_timer patience_;
  boost::asio::steady_timer deadline_;
  boost::asio::cancellation_signal cancel_;
  std::optional<kit::Workers> host_files_;
  std::optional<OutputWriter> writer_;
  std::optional<os::RawTerminal> raw_;
  std::shared_ptr<Feed> feed_;

  std::optional<RunRequest> request_;
  std::shared_ptr<Sandbox> sandbox_;
  std::shared_ptr<SandboxSession> session_;
  std::shared_ptr<SandboxExecHandle> handle_;
  Capture capture_;

  std::optional<int> ended_by_;  ///< The exit code that a signal or a failed output asked for.
  std::optional<int> signal_;
  std::optional<SandboxStreamExit> exit_;
  std::exception_ptr failure_;
  std::exception_ptr output_failure_;
  std::vector<std::exception_ptr> later_failures_;
  bool done_ = false;
};

/// The size of the terminal that is one of our standard streams; 80 by 24 where there is none, or it does not
/// know.
TtySize caller_tty_size() noexcept;

}  // namespace caisson::cli
