// RunCommand: one `caisson run`.
#include "cli/run_command.h"

#include <signal.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_state.hpp>
#include <boost/asio/co_spawn.hpp>
#include <utility>

#include "cli/input_reader.h"
#include "cli/report.h"
#include "facade/host_transfer.h"
#include "os/self.h"

namespace caisson::cli {
namespace {

using namespace std::chrono_literals;

/// How long an orderly end may take after a signal before the forced one.
constexpr auto patience_after_signal = 5s;
/// How long what the command had written may take to go out after its end by force.
constexpr auto last_output_time = 1s;
/// Past the exec's own deadline, by when its output is all there or it was killed.
constexpr auto past_deadline = 200ms;

void add_unless_ignored(boost::asio::signal_set& set, int number) {
  if (!os::signal_is_ignored(number)) set.add(number);
}

// The blocking steps of a transfer, as calls for a worker.
struct OpenSource {
  std::unique_ptr<facade::HostSource> operator()() const {
    return std::make_unique<facade::HostSource>(path);
  }
  std::string path;
};
struct ReadPiece {
  std::string operator()() const { return source->read(); }
  facade::HostSource* source;
};
struct OpenTarget {
  std::unique_ptr<facade::HostTarget> operator()() const {
    return std::make_unique<facade::HostTarget>(path);
  }
  std::string path;
};
struct WritePiece {
  void operator()() const { target->write(piece); }
  facade::HostTarget* target;
  std::string piece;
};
struct Commit {
  void operator()() const { target->commit(); }
  facade::HostTarget* target;
};

bool is_cancellation(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const boost::system::system_error& error) {
    return error.code() == boost::asio::error::operation_aborted;
  } catch (...) {
    return false;
  }
}

// Its record on disk is called by the session's id.
SandboxError left_behind(const std::string& session, const std::exception& error) {
  const auto* const typed = dynamic_cast<const SandboxError*>(&error);
  return {typed != nullptr ? typed->code() : ErrorCode::internal,
          "session " + session +
              " could not be released, caisson reap removes what is left of it: " + error.what()};
}

}  // namespace

TtySize caller_tty_size() noexcept {
  for (const os::FdRef stream : {os::standard_input, os::standard_output, os::standard_error}) {
    const auto size = os::terminal_size(stream);
    if (size && size->columns > 0 && size->rows > 0) return {size->columns, size->rows};
  }
  return {};
}

// Standard input on its way to the command.
struct RunCommand::Feed {
  explicit Feed(boost::asio::any_io_executor executor)
      : reader(std::make_unique<InputReader>(executor, os::standard_input)), ended(executor) {}
  std::unique_ptr<InputReader> reader;
  std::exception_ptr failure;
  boost::asio::cancellation_signal cancel;
  bool done = false;
  kit::Event ended;
};

RunCommand::RunCommand(boost::asio::io_context& context)
    : context_(context),
      signals_(context),
      terminal_signals_(context),
      patience_(context),
      deadline_(context) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) add_unless_ignored(signals_, number);
}

RunCommand::~RunCommand() = default;

RunOutcome RunCommand::run(std::shared_ptr<Sandbox> sandbox, RunRequest request) {
  sandbox_ = std::move(sandbox);
  request_.emplace(std::move(request));
  const boost::asio::any_io_executor executor = context_.get_executor();
  if (!request_->put.empty() || !request_->get.empty()) host_files_.emplace(1);
  if (!request_->capture) {
    const OutputWriter::Targets targets{os::standard_output, os::standard_error};
    writer_.emplace(executor, targets, [this](os::Error error) { on_output_failure(error); });
  }
  if (request_->tty) {
    terminal_signals_.add(SIGWINCH);
    terminal_signals_.add(SIGCONT);
    wait_for_terminal_signal();
  }
  wait_for_signal();
  boost::asio::co_spawn(
      executor, session_task(),
      boost::asio::bind_cancellation_slot(
          cancel_.slot(), [this](std::exception_ptr failure) { end_of_session_task(failure); }));
  context_.run();
  raw_.reset();
  RunOutcome result = outcome();
  session_.reset();
  sandbox_.reset();
  signals_.clear();
  terminal_signals_.clear();
  return result;
}

Awaitable<void> RunCommand::session_task() {
  try {
    co_await cancellable_part();
  } catch (...) {
    failure_ = std::current_exception();
  }
  const boost::asio::disable_cancellation no_cancellation;
  co_await boost::asio::this_coro::reset_cancellation_state(no_cancellation);
  co_await clean_up();
}

// However the task ended, the loop must not go on without it.
void RunCommand::end_of_session_task(std::exception_ptr failure) {
  if (failure) {
    if (exit_ || failure_) {
      later_failures_.push_back(failure);
    } else {
      failure_ = failure;
    }
  }
  done_ = true;
  context_.stop();
}

Awaitable<void> RunCommand::cancellable_part() {
  SandboxSessionSpec spec = std::move(request_->spec);
  session_ = co_await sandbox_->create_session(std::move(spec));
  for (const Transfer& transfer : request_->put) co_await put(transfer);
  co_await exec();
  for (const Transfer& transfer : request_->get) {
    try {
      co_await get(transfer);
    } catch (const SandboxError&) {
      later_failures_.push_back(std::current_exception());
    }
  }
}

Awaitable<void> RunCommand::exec() {
  ExecOptions options = std::move(request_->exec);
  if (request_->tty) {
    options.tty(caller_tty_size());
    if (request_->input) {
      if (auto raw = os::RawTerminal::enter(os::standard_input)) raw_.emplace(std::move(*raw));
    }
  }
  const auto timeout = options.timeout();
  Argv argv = request_->argv;
  handle_ = co_await session_->exec_start(std::move(argv), std::move(options));
  lift_limit_after(timeout);
  if (request_->input) {
    begin_feeding();
  } else {
    try {
      co_await handle_->close_stdin();
    } catch (const SandboxError&) {
      // It has ended already.
    }
  }
  co_await pump(handle_);
  raw_.reset();
  if (writer_) co_await writer_->drain();
}

Awaitable<void> RunCommand::pump(std::shared_ptr<SandboxExecHandle> handle) {
  SandboxOutput& output = handle->output();
  for (;;) {
    std::optional<SandboxStreamItem> item = co_await output.next();
    if (!item) throw SandboxError(ErrorCode::internal, "the command's output ended without its exit");
    if (auto* const exit = std::get_if<SandboxStreamExit>(&*item)) {
      exit_ = std::move(*exit);
      co_return;
    }
    auto& chunk = std::get<SandboxStreamChunk>(*item);
    if (writer_) {
      co_await writer_->write(chunk.stream, std::move(chunk.data));
    } else {
      capture_.take(chunk.stream, chunk.data);
    }
  }
}

void RunCommand::begin_feeding() {
  feed_ = std::make_shared<Feed>(context_.get_executor());
  // Cancelled before it began, it ends so too.
  boost::asio::co_spawn(
      context_, feed(feed_, handle_),
      boost::asio::bind_cancellation_slot(feed_->cancel.slot(), [feed = feed_](std::exception_ptr failure) {
        if (failure && !is_cancellation(failure)) feed->failure = failure;
        feed->done = true;
        feed->ended.notify();
      }));
}

Awaitable<void> RunCommand::feed(std::shared_ptr<Feed> feed, std::shared_ptr<SandboxExecHandle> handle) {
  try {
    for (;;) {
      std::string data = co_await feed->reader->read();
      if (data.empty()) break;
      co_await handle->write_stdin(std::move(data));
    }
    co_await handle->close_stdin();
  } catch (const SandboxError& error) {
    // A command that takes no more input is no error (S-43).
    if (error.code() != ErrorCode::stdin_closed) feed->failure = std::current_exception();
  } catch (const boost::system::system_error&) {
    // Cancelled: the exec is over.
  }
  handle.reset();
  feed->reader.reset();
}

Awaitable<void> RunCommand::put(Transfer transfer) {
  OpenSource open{transfer.local};
  const auto source = co_await host_files_->run(std::move(open));
  auto writer = co_await session_->open_writer(transfer.path, source->mode());
  for (;;) {
    ReadPiece read{source.get()};
    std::string piece = co_await host_files_->run(read);
    if (piece.empty()) break;
    co_await writer->write(std::move(piece));
  }
  co_await writer->commit();
}

Awaitable<void> RunCommand::get(Transfer transfer) {
  auto reader = co_await session_->open_reader(transfer.path);
  OpenTarget open{transfer.local};
  const auto target = co_await host_files_->run(std::move(open));
  for (;;) {
    std::string piece = co_await reader->read(facade::transfer_piece);
    if (piece.empty()) break;
    WritePiece write{target.get(), std::move(piece)};
    co_await host_files_->run(std::move(write));
  }
  Commit commit{target.get()};
  co_await host_files_->run(commit);
}

Awaitable<void> RunCommand::clean_up() {
  raw_.reset();
  if (feed_) {
    feed_->cancel.emit(boost::asio::cancellation_type::terminal);
    while (!feed_->done) co_await feed_->ended.wait();
    if (feed_->failure) later_failures_.push_back(feed_->failure);
  }
  handle_.reset();
  co_await release();
  if (writer_ && failure_ && !ended_by_) {
    // After a timeout the command's last output gets a moment, but a reader that does not read holds nobody
    // up.
    const auto give_up = std::chrono::steady_clock::now() + last_output_time;
    while (!writer_->drained() && std::chrono::steady_clock::now() < give_up) co_await kit::pause_for(5ms);
  }
}

Awaitable<void> RunCommand::release() {
  if (!session_) co_return;
  try {
    co_await session_->release();
  } catch (const std::exception& error) {
    later_failures_.push_back(std::make_exception_ptr(left_behind(session_->id(), error)));
  }
}

void RunCommand::end_by(int exit_code) {
  if (ended_by_) return;
  ended_by_ = exit_code;
  cancel_.emit(boost::asio::cancellation_type::terminal);
  patience_.expires_after(patience_after_signal);
  patience_.async_wait([this](boost::system::error_code error) {
    if (error || done_) return;
    // Some step holds on to a file of the host that nobody serves: a FIFO, a dead network file system.
    boost::asio::co_spawn(context_, release(), [this](std::exception_ptr failure) {
      if (failure) later_failures_.push_back(failure);
      context_.stop();
    });
  });
}

void RunCommand::wait_for_signal() {
  signals_.async_wait([this](boost::system::error_code error, int number) {
    if (error) return;
    if (!ended_by_) signal_ = number;
    end_by(exit_signal_base + number);
    wait_for_signal();
  });
}

void RunCommand::wait_for_terminal_signal() {
  terminal_signals_.async_wait([this](boost::system::error_code error, int number) {
    if (error) return;
    on_terminal_signal(number);
    wait_for_terminal_signal();
  });
}

void RunCommand::on_terminal_signal(int number) {
  if (number == SIGCONT && raw_) raw_->reapply();
  if (!handle_) return;
  boost::asio::co_spawn(context_, handle_->resize(caller_tty_size()), [](std::exception_ptr) {
    // A command that has ended meanwhile has no terminal to resize.
  });
}

void RunCommand::on_output_failure(os::Error error) {
  if (error == os::error_of(EPIPE)) return end_by(exit_output_closed);
  output_failure_ = std::make_exception_ptr(
      SandboxError(ErrorCode::internal, "cannot write the command's output: " + error.message()));
  end_by(exit_failure);
}

void RunCommand::lift_limit_after(std::chrono::duration<double> timeout) {
  if (!writer_) return;
  deadline_.expires_after(std::chrono::duration_cast<std::chrono::steady_clock::duration>(timeout) +
                          past_deadline);
  deadline_.async_wait([this](boost::system::error_code error) {
    // A reader that is held up must not hide that the command was killed at its timeout.
    if (!error) writer_->lift_limit();
  });
}

RunOutcome RunCommand::outcome() {
  RunOutcome result;
  result.held_up = !done_;
  if (writer_ && !writer_->stop()) result.held_up = true;
  result.later_failures = later_failures_;
  if (ended_by_) {
    result.exit_code = *ended_by_;
    result.failure = output_failure_;
    result.signal = signal_;
    return result;
  }
  if (failure_) {
    result.failure = failure_;
    return result;
  }
  result.ended = exit_->ended;
  result.exit_code = exit_->exit_code;
  if (request_->capture) result.result = capture_.finish(*exit_);
  return result;
}

}  // namespace caisson::cli
