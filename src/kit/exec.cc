// The life of an exec: start, deadline, end, leftovers.
#include "kit/exec.h"

#include <ctime>
#include <thread>

#include "os/fault_point.h"
#include "os/self.h"
#include "os/tty.h"

namespace caisson::kit {
namespace {

using std::chrono::milliseconds;
namespace asio = boost::asio;

// S-45: how long output is still awaited after the leader's end when a descendant keeps a pipe open.
constexpr milliseconds grace{50};
// S-46: how long a killed tree is waited for.
constexpr std::chrono::seconds kill_patience{2};
// What a descendant may add to the output after the leader's end; the leader's own part is in the pipe by
// then, and no pipe of an ordinary user holds more than this (pipe(7), pipe-max-size).
constexpr std::uint64_t last_bytes_limit = 1 << 20;

// Back-off of a wait for what the kernel does not announce: 50 us at first, for a killed tree is gone in a
// moment.
std::chrono::microseconds next_pause(std::chrono::microseconds pause) {
  return std::min(pause * 2, std::chrono::microseconds(5000));
}

}  // namespace

Exec::Exec(ExecContext context, ExecRequest request)
    : context_(std::move(context)),
      request_(std::move(request)),
      owner_(os::own_pid()),
      alarm_(context_.clock->alarm(context_.strand)),
      in_(context_.strand),
      out_(SandboxStream::out, context_.strand),
      err_(SandboxStream::err, context_.strand),
      started_event_(context_.strand),
      over_event_(context_.strand),
      output_event_(context_.strand),
      room_event_(context_.strand),
      eof_event_(context_.strand),
      stdin_event_(context_.strand) {}

Exec::~Exec() = default;

void Exec::launch() {
  std::weak_ptr<Exec> weak = weak_from_this();
  alarm_->set(request_.deadline, [weak] {
    if (auto self = weak.lock()) self->on_deadline();
  });
  spawn_task(context_.strand, run(shared_from_this()), context_.log, "running a command");
}

Awaitable<void> Exec::run(std::shared_ptr<Exec> self) {
  std::exception_ptr failure;
  std::optional<StartedExec> started;
  try {
    // A coroutine of its own, so that ending the start (stop_starting) cancels nothing else of the exec.
    started =
        co_await asio::co_spawn(self->context_.strand, start_when_possible(self),
                                asio::bind_cancellation_slot(self->stop_start_.slot(), asio::use_awaitable));
  } catch (...) {
    failure = std::current_exception();
  }
  if (!started) {
    self->starting_ = false;
    self->finish(self->given_up() ? self->end_error(true) : failure);
    co_return;
  }
  self->adopt(std::move(*started));
  const Strand strand = self->context_.strand;
  const Log log = self->context_.log;
  if (self->out_.descriptor.is_open()) spawn_task(strand, drain(self, &self->out_), log, "reading stdout");
  if (self->err_.descriptor.is_open()) spawn_task(strand, drain(self, &self->err_), log, "reading stderr");
  if (self->request_.input) spawn_task(strand, feed(self), log, "writing stdin");
  try {
    co_await watch_leader(self);
  } catch (...) {
    failure = std::current_exception();
  }
  if (failure) {
    self->kill_now();
    self->finish(failure);
  }
}

void Exec::require_own_process() const {
  if (os::own_pid() == owner_) return;
  throw SandboxError(ErrorCode::unavailable,
                     "the command was started before a fork and cannot be reached from the child");
}

bool Exec::given_up() const noexcept { return timed_out_ || killed_ || session_ended_ || abandoned_; }

// Nothing when the exec was given up before the command could be started.
Awaitable<std::optional<StartedExec>> Exec::start_when_possible(std::shared_ptr<Exec> self) {
  DescriptorGate::Ticket ticket;
  if (!self->given_up() && self->context_.gate->contended()) {
    ticket = co_await DescriptorGate::enter(self->context_.gate, self->context_.strand);
  }
  while (!self->given_up()) {
    try {
      StartedExec started = co_await self->context_.box->start(self->request_.plan, self->context_.strand);
      co_return std::move(started);
    } catch (const DescriptorsExhausted& error) {
      self->waits_for_ = error.what();
    }
    if (!ticket) ticket = co_await DescriptorGate::enter(self->context_.gate, self->context_.strand);
    co_await DescriptorGate::wait_for_room(ticket);
  }
  co_return std::nullopt;
}

void Exec::stop_starting() {
  if (starting_) stop_start_.emit(asio::cancellation_type::terminal);
}

void Exec::adopt(StartedExec started) {
  in_ = std::move(started.in);
  out_.descriptor = std::move(started.out);
  err_.descriptor = std::move(started.err);
  for (auto* descriptor : {&in_, &out_.descriptor, &err_.descriptor}) {
    if (descriptor->is_open()) descriptor->native_non_blocking(true);
  }
  {
    const std::lock_guard lock(input_mutex_);
    input_open_ = in_.is_open();
  }
  bool kill;
  {
    std::lock_guard lock(mutex_);
    tree_ = std::move(started.tree);
    starting_ = false;
    kill = abandoned_;
  }
  if (kill || given_up()) tree_->kill();
  started_ = true;
  started_event_.notify();
}

Awaitable<void> Exec::watch_leader(std::shared_ptr<Exec> self) {
  std::optional<ExecEnded> ended;
  do {
    auto [error] = co_await self->tree_->leader().async_wait(asio::posix::stream_descriptor::wait_read,
                                                             asio::as_tuple(asio::use_awaitable));
    if (error) co_await pause_for(milliseconds(1));
    os::kill_point("exec.reap");
    ended = self->tree_->try_reap();
  } while (!ended);
  {
    std::lock_guard lock(self->mutex_);
    self->leader_ended_ = true;
  }
  self->ended_ = std::move(ended);
  self->alarm_->cancel();
  self->close_stdin_now();

  const bool cut_short = self->timed_out_ || self->killed_ || self->session_ended_;
  bool gone = true;
  if (cut_short) gone = co_await wait_gone(self, kill_patience);
  if (!self->over_) co_await finish_output(self);
  if (!self->over_) self->finish(self->timed_out_ || self->session_ended_ ? self->end_error(gone) : nullptr);
  self->settled();
}

// Takes in what the pipes hold; a descendant that keeps one open is waited for no longer than the grace.
Awaitable<void> Exec::finish_output(std::shared_ptr<Exec> self) {
  for (Stream* stream : {&self->out_, &self->err_}) {
    stream->last_bytes = last_bytes_limit;
    if (stream->descriptor.is_open() && !self->take(*stream)) stream->descriptor.close();
  }
  self->room_event_.notify();
  if (!self->out_.descriptor.is_open() && !self->err_.descriptor.is_open()) co_return;
  asio::steady_timer timer(self->context_.strand, grace);
  auto expired = std::make_shared<bool>(false);
  timer.async_wait([self, expired](const boost::system::error_code&) {
    *expired = true;
    self->eof_event_.notify();
  });
  while (!*expired && !self->over_ && (self->out_.descriptor.is_open() || self->err_.descriptor.is_open())) {
    co_await self->eof_event_.wait();
  }
}

void Exec::on_deadline() {
  if (over_ || leader_ended_) return;
  timed_out_ = true;
  if (tree_) tree_->kill();
  stop_starting();
  give_up_in_time();
}

void Exec::give_up_in_time() {
  if (over_) return;
  spawn_task(context_.strand, give_up_later(shared_from_this()), context_.log,
             "waiting for a killed command");
}

// The answer to a caller does not wait for a process that cannot die (or a spawn that does not return).
Awaitable<void> Exec::give_up_later(std::shared_ptr<Exec> self) {
  const auto until = std::chrono::steady_clock::now() + kill_patience;
  while (!self->over_ && std::chrono::steady_clock::now() < until) {
    asio::steady_timer timer(self->context_.strand, until);
    timer.async_wait([self](const boost::system::error_code& error) {
      if (!error) self->over_event_.notify();
    });
    co_await self->over_event_.wait();
  }
  if (!self->over_) self->finish(self->end_error(false));
}

std::exception_ptr Exec::end_error(bool gone) const {
  if (session_ended_) {
    return std::make_exception_ptr(SandboxError(
        ErrorCode::session_destroyed, "the session was destroyed while the command ran; create a new one"));
  }
  if (timed_out_) {
    return std::make_exception_ptr(SandboxExecTimeoutError(request_.timeout, out_.total, err_.total, gone,
                                                           started_ ? std::string() : waits_for_));
  }
  return std::make_exception_ptr(SandboxError(
      ErrorCode::internal, gone ? "the command was killed before it had started"
                                : "the killed command is not gone yet; its session still holds it"));
}

void Exec::finish(std::exception_ptr error) {
  if (over_) return;
  over_ = true;
  error_ = std::move(error);
  alarm_->cancel();
  close_stdin_now();
  started_event_.notify();
  over_event_.notify();
  output_event_.notify();
  room_event_.notify();
  if (context_.on_over) std::exchange(context_.on_over, nullptr)();
  if (!tree_) context_.gate->released();
}

bool Exec::settled() {
  if (!over_ || starting_) return false;
  if (tree_ && !retired_) {
    if (!leader_ended_ || !tree_->empty()) return false;
    {
      std::lock_guard lock(mutex_);
      retired_ = true;
      tree_->retire();
    }
    context_.gate->released();
  }
  return !out_.descriptor.is_open() && !err_.descriptor.is_open();
}

void Exec::end_with_session() {
  session_ended_ = true;
  stop_starting();
  give_up_in_time();
  kill_now();
}

bool Exec::gone() {
  if (!tree_) return !starting_;
  return leader_ended_ && (retired_ || tree_->empty());
}

Awaitable<bool> Exec::wait_gone(std::shared_ptr<Exec> self, std::chrono::steady_clock::duration patience) {
  const auto until = std::chrono::steady_clock::now() + patience;
  for (std::chrono::microseconds pause{50};; pause = next_pause(pause)) {
    if (self->gone()) co_return true;
    if (std::chrono::steady_clock::now() >= until) co_return false;
    co_await pause_for(pause);
  }
}

Awaitable<void> Exec::wait_started(std::shared_ptr<Exec> self) {
  while (!self->started_ && !self->over_) co_await self->started_event_.wait();
  if (!self->started_) self->throw_error();
}

Awaitable<void> Exec::wait_over(std::shared_ptr<Exec> self) {
  while (!self->over_) co_await self->over_event_.wait();
}

void Exec::throw_error() const {
  if (error_) std::rethrow_exception(error_);
}

ExecResult Exec::take_result() {
  throw_error();
  ExecResult result;
  result.ended = *ended_;
  result.exit_code = ended_->exit_code;
  result.stdout_bytes = out_.total;
  result.stderr_bytes = err_.total;
  result.truncated = out_.total > out_.captured.size() || err_.total > err_.captured.size();
  if (result.truncated && !request_.allow_truncation) {
    throw SandboxOutputLimitError(request_.cap, out_.total, err_.total);
  }
  result.out = std::move(out_.captured);
  result.err = std::move(err_.captured);
  return result;
}

Awaitable<void> Exec::kill(std::shared_ptr<Exec> self) {
  if (!self->over_) self->killed_ = true;
  self->close_stdin_now();
  self->kill_now();
  self->stop_starting();
  self->give_up_in_time();
  const bool gone = co_await wait_gone(self, kill_patience);
  if (!gone) std::rethrow_exception(self->end_error(false));
  self->settled();
}

void Exec::signal(int number) {
  if (number < 1 || number > 64) {
    throw SandboxError(ErrorCode::invalid_argument, "a signal's number is 1 to 64 (signal(7))", "signal");
  }
  if (tree_ && !leader_ended_) tree_->signal(number);
}

void Exec::resize(TtySize size) {
  if (!request_.plan->tty) {
    throw SandboxError(ErrorCode::invalid_argument,
                       "this command has no terminal; start it with ExecOptions::tty", "size");
  }
  if (out_.descriptor.is_open()) {
    (void)os::set_tty_size(os::FdRef{out_.descriptor.native_handle()}, size.columns, size.rows);
  }
}

void Exec::abandon() noexcept {
  {
    const std::lock_guard lock(mutex_);
    abandoned_ = true;
    if (tree_ && !leader_ended_) tree_->kill();
  }
  stop_starting_soon();
}

void Exec::stop_starting_soon() noexcept {
  if (!starting_) return;
  asio::post(context_.strand, [self = shared_from_this()] { self->stop_starting(); });
}

void Exec::kill_now() noexcept {
  std::lock_guard lock(mutex_);
  abandoned_ = true;
  if (tree_ && !retired_) tree_->kill();
}

void Exec::end_with_sandbox() noexcept {
  session_ended_ = true;
  kill_now();
  stop_starting_soon();
}

bool Exec::settle_blocking(std::chrono::steady_clock::time_point until) noexcept {
  for (std::chrono::microseconds pause{50};; pause = next_pause(pause)) {
    std::shared_ptr<ExecTree> tree;
    bool starting = false;
    {
      std::lock_guard lock(mutex_);
      tree = tree_;
      starting = starting_;
    }
    try {
      // A start under way may have made its process already.
      if (!starting && (!tree || (tree->try_reap() && tree->empty()))) return true;
    } catch (...) {
      return false;
    }
    if (std::chrono::steady_clock::now() >= until) return false;
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace caisson::kit
