// Exec: the pump of one running command: its streams, its deadline, its end, its tree.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "caisson/kit/clock.h"
#include "caisson/kit/provider.h"
#include "kit/descriptor_gate.h"
#include "kit/event.h"
#include "kit/output_queue.h"
#include "kit/strand.h"

namespace caisson::kit {

/// What an exec needs of its session.
struct ExecContext {
  Strand strand;
  std::shared_ptr<SessionBox> box;
  std::shared_ptr<Clock> clock;
  std::shared_ptr<DescriptorGate> gate;
  Log log;
  /// Called once on the strand, when the exec is over for its caller: the leader has ended or was given up.
  std::function<void()> on_over;
};

struct ExecRequest {
  std::shared_ptr<const ExecPlan> plan;
  std::optional<std::string> input;  ///< Fed to stdin, which is then closed.
  std::chrono::duration<double> timeout;
  BootTime deadline;
  bool capture = true;    ///< Keep the output for a result, else queue it for a reader.
  std::uint64_t cap = 0;  ///< Of a captured stream, in bytes.
  bool allow_truncation = false;
};

/// One exec, from the call to the end of its last process. Lives on its session's strand; what may be called
/// from elsewhere says so. It keeps itself alive while any of its tasks run.
///
/// Phases: starting, running, and over: the leader has ended and its output is in, or it was given up. Over
/// is when the caller gets its answer. Descendants may then go on; what they write is drained and dropped,
/// until the session ends or the exec is killed.
class Exec : public std::enable_shared_from_this<Exec> {
 public:
  Exec(ExecContext context, ExecRequest request);
  ~Exec();

  /// Starts the work; nothing is awaited.
  void launch();

  /// Until the command runs or is over.
  static Awaitable<void> wait_started(std::shared_ptr<Exec> self);
  static Awaitable<void> wait_over(std::shared_ptr<Exec> self);
  bool over() const noexcept { return over_; }
  /// The captured result; throws what the exec ended with. Once, when over.
  ExecResult take_result();
  /// Throws the error that the exec ended with, if it did.
  void throw_error() const;

  // What a handle can do without entering the strand. Any thread.
  /// A chunk that is there already, if nobody else reads.
  std::optional<SandboxStreamItem> take_ready();
  /// Writes `data` at once, the whole of it or nothing; false when it must be written by write_stdin().
  bool write_now(std::string_view data);
  /// From its begin to its end a call that enters the strand to write or to close keeps write_now() from
  /// overtaking it.
  void begin_writing();
  void end_writing();

  /// The interactive face, see SandboxExecHandle and SandboxOutput.
  static Awaitable<std::optional<SandboxStreamItem>> next(std::shared_ptr<Exec> self);
  static Awaitable<void> write_stdin(std::shared_ptr<Exec> self, std::string data);
  static Awaitable<void> close_stdin(std::shared_ptr<Exec> self);
  static Awaitable<void> kill(std::shared_ptr<Exec> self);
  void signal(int number);
  void resize(TtySize size);

  /// The session ends: kills everything, and what waits ends with session_destroyed.
  void end_with_session();
  /// Whoever waits for what was killed gets an answer, within two seconds.
  void give_up_in_time();
  /// Whether processes or open pipes are left; retires what is not needed any more.
  bool settled();
  /// Until no process of the tree is left, at most `patience`; whether that was seen.
  static Awaitable<bool> wait_gone(std::shared_ptr<Exec> self, std::chrono::steady_clock::duration patience);

  /// Nobody waits for it any more: kills the tree if the leader has not ended. Any thread.
  void abandon() noexcept;
  /// The sandbox closes: what runs ends as with end_with_session(). Any thread.
  void end_with_sandbox() noexcept;
  /// For a sandbox that closes: waits, without an event loop of its own, until the tree is gone; whether it
  /// is. A start under way ends on the exec's loop, if that still runs. Any thread.
  bool settle_blocking(std::chrono::steady_clock::time_point until) noexcept;

  /// Throws SandboxError (unavailable) in a fork of the process that started it.
  void require_own_process() const;
  const Strand& strand() const noexcept { return context_.strand; }

 private:
  struct Stream {
    Stream(SandboxStream stream, const Strand& strand) : which(stream), descriptor(strand) {}
    SandboxStream which;
    boost::asio::posix::stream_descriptor descriptor;
    std::uint64_t total = 0;
    std::string captured;
    bool widened = false;          // its pipe holds as much as it may
    std::uint64_t last_bytes = 0;  // what may still be taken once the leader has ended
  };

  static Awaitable<void> run(std::shared_ptr<Exec> self);
  static Awaitable<std::optional<StartedExec>> start_when_possible(std::shared_ptr<Exec> self);
  static Awaitable<void> watch_leader(std::shared_ptr<Exec> self);
  static Awaitable<void> finish_output(std::shared_ptr<Exec> self);
  static Awaitable<void> drain(std::shared_ptr<Exec> self, Stream* stream);
  static Awaitable<void> feed(std::shared_ptr<Exec> self);
  static Awaitable<void> give_up_later(std::shared_ptr<Exec> self);
  static Awaitable<std::uint64_t> enter_stdin(std::shared_ptr<Exec> self);
  void leave_stdin();
  static Awaitable<void> send(std::shared_ptr<Exec> self, std::string_view data, std::size_t* written);

  /// Kills the tree, whatever its phase. Any thread.
  void kill_now() noexcept;
  /// Ends a start that is under way or waits for its turn.
  void stop_starting();
  void stop_starting_soon() noexcept;
  bool given_up() const noexcept;
  /// Whether no process of it is left.
  bool gone();
  void adopt(StartedExec started);
  void on_deadline();
  bool take(Stream& stream);
  void deliver(Stream& stream, const char* data, std::size_t size);
  void finish(std::exception_ptr error);
  void close_stdin_now();
  void close_input();
  bool stdin_open() const noexcept { return in_.is_open() && !over_ && !leader_ended_; }
  std::exception_ptr end_error(bool gone) const;
  bool read_by_somebody() const noexcept { return !request_.capture && !over_ && !leader_ended_; }
  bool backpressed() const { return read_by_somebody() && queue_.full(); }

  ExecContext context_;
  ExecRequest request_;
  const pid_t owner_;
  std::unique_ptr<Alarm> alarm_;
  boost::asio::posix::stream_descriptor in_;
  Stream out_;
  Stream err_;

  Event started_event_;
  Event over_event_;
  Event output_event_;  // the queue has grown, or the exec is over
  Event room_event_;    // the queue has shrunk
  Event eof_event_;     // a stream has ended
  Event stdin_event_;   // the head of the stdin queue has changed

  boost::asio::cancellation_signal stop_start_;
  std::string waits_for_;  // what keeps the command from starting, if something does
  bool started_ = false;
  bool over_ = false;
  bool timed_out_ = false;
  bool killed_ = false;
  bool exit_given_ = false;
  bool stdin_closed_ = false;
  bool stdin_line_open_ = false;  // of a terminal: what was written last has no newline yet
  std::optional<ExecEnded> ended_;
  std::exception_ptr error_;

  std::deque<std::uint64_t> stdin_queue_;
  std::uint64_t next_stdin_ticket_ = 0;

  // What other threads touch.
  OutputQueue queue_;
  std::mutex input_mutex_;  // held while `in_` is written by write_now(), and while it is opened or closed
  int writing_ = 0;
  bool input_open_ = false;  // `in_` may be written
  mutable std::mutex mutex_;
  std::shared_ptr<ExecTree> tree_;
  bool leader_ended_ = false;  // written under the mutex, on the strand
  bool retired_ = false;       // likewise
  std::atomic<bool> abandoned_ = false;
  std::atomic<bool> session_ended_ = false;
  std::atomic<bool> starting_ = true;  // written on the strand
};

}  // namespace caisson::kit
