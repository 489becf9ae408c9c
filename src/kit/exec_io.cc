// The streams of an exec.
#include <climits>

#include "kit/exec.h"
#include "os/fd.h"

namespace caisson::kit {
namespace {

namespace asio = boost::asio;
using asio::posix::stream_descriptor;

constexpr std::size_t chunk_size = 64 * 1024;
// What one stream may take before the others of its event loop have a turn.
constexpr std::size_t turn_limit = 1 << 20;
// Past this a captured stream gets all of its cap as address space at once: growing by doubling would copy,
// and hold up to three times the output. Untouched pages cost nothing.
constexpr std::size_t reserve_threshold = 1 << 20;

void append_captured(std::string& captured, const char* data, std::size_t size, std::uint64_t cap) {
  if (captured.size() + size > reserve_threshold && captured.capacity() < cap) {
    try {
      captured.reserve(std::min<std::uint64_t>(cap, captured.max_size()));
    } catch (const std::bad_alloc&) {  // an address space limit: grow step by step
    } catch (const std::length_error&) {
    }
  }
  captured.append(data, size);
}

}  // namespace

Awaitable<void> Exec::drain(std::shared_ptr<Exec> self, Stream* stream) {
  while (stream->descriptor.is_open()) {
    if (self->read_by_somebody() && self->queue_.hold_up()) {
      co_await self->room_event_.wait();
      continue;
    }
    // Waiting and then reading here, rather than an asynchronous read, keeps every byte on the strand: the
    // leader's end must find nothing under way.
    auto [error] = co_await stream->descriptor.async_wait(stream_descriptor::wait_read,
                                                          asio::as_tuple(asio::use_awaitable));
    if (error || !stream->descriptor.is_open()) break;
    if (!self->take(*stream)) stream->descriptor.close();
  }
  self->eof_event_.notify();
  if (self->over_) self->settled();
}

// Reads what is there, up to a turn's worth. False at the end of the stream.
bool Exec::take(Stream& stream) {
  thread_local char buffer[chunk_size];
  std::size_t turn = 0;
  while (turn < turn_limit && !backpressed()) {
    auto got = os::read_some(os::FdRef{stream.descriptor.native_handle()}, buffer, sizeof buffer);
    if (!got) return got.error() == boost::system::errc::resource_unavailable_try_again;
    if (*got == 0) return false;
    if (*got == sizeof buffer && !std::exchange(stream.widened, true)) {
      // A command that fills its pipe does so again: a wider one has it wait for us less often.
      os::widen_pipe(os::FdRef{stream.descriptor.native_handle()});
    }
    deliver(stream, buffer, *got);
    turn += *got;
    if (*got < sizeof buffer && !leader_ended_) break;  // most likely drained; the next wait tells
  }
  return true;
}

void Exec::deliver(Stream& stream, const char* data, std::size_t size) {
  if (over_) return;
  if (leader_ended_) {
    size = static_cast<std::size_t>(std::min<std::uint64_t>(size, stream.last_bytes));
    stream.last_bytes -= size;
    if (size == 0) return;
  }
  stream.total += size;
  if (request_.capture) {
    const std::uint64_t room = request_.cap - std::min<std::uint64_t>(stream.captured.size(), request_.cap);
    append_captured(stream.captured, data, static_cast<std::size_t>(std::min<std::uint64_t>(size, room)),
                    request_.cap);
    return;
  }
  queue_.push({stream.which, std::string(data, size)});
  output_event_.notify();
}

Awaitable<std::optional<SandboxStreamItem>> Exec::next(std::shared_ptr<Exec> self) {
  if (!self->queue_.begin_reading()) {
    throw SandboxError(ErrorCode::output_busy,
                       "this exec's output is being read already; one reader at a time");
  }
  struct Reading {
    explicit Reading(OutputQueue& of) : queue(of) {}
    ~Reading() { queue.end_reading(); }
    OutputQueue& queue;
  } reading(self->queue_);
  for (;;) {
    const bool over = self->over_;
    OutputQueue::Popped popped = self->queue_.pop();
    if (popped.room) self->room_event_.notify();
    if (popped.chunk) {
      SandboxStreamItem item = std::move(*popped.chunk);
      co_return item;
    }
    if (over) break;
    co_await self->output_event_.wait();
  }
  self->throw_error();
  if (self->exit_given_) co_return std::nullopt;
  self->exit_given_ = true;
  SandboxStreamExit exit{self->ended_->exit_code, *self->ended_};
  SandboxStreamItem item = std::move(exit);
  co_return item;
}

std::optional<SandboxStreamItem> Exec::take_ready() {
  OutputQueue::Popped popped = queue_.pop_unless_read();
  if (popped.room) asio::post(context_.strand, [self = shared_from_this()] { self->room_event_.notify(); });
  if (!popped.chunk) return std::nullopt;
  return std::move(*popped.chunk);
}

bool Exec::write_now(std::string_view data) {
  // Up to PIPE_BUF a write into a pipe is atomic (pipe(7)): it cannot stop halfway.
  if (data.empty() || data.size() > PIPE_BUF || request_.plan->tty) return false;
  const std::lock_guard lock(input_mutex_);
  if (!input_open_ || writing_ > 0) return false;
  return os::write_some(os::FdRef{in_.native_handle()}, data.data(), data.size()).has_value();
}

void Exec::begin_writing() {
  const std::lock_guard lock(input_mutex_);
  ++writing_;
}

void Exec::end_writing() {
  const std::lock_guard lock(input_mutex_);
  --writing_;
}

void Exec::close_input() {
  const std::lock_guard lock(input_mutex_);
  input_open_ = false;
  in_.close();
}

// Calls write in the order in which they came; the one at the head of the queue has the pipe.
Awaitable<std::uint64_t> Exec::enter_stdin(std::shared_ptr<Exec> self) {
  const std::uint64_t ticket = self->next_stdin_ticket_++;
  self->stdin_queue_.push_back(ticket);
  try {
    while (self->stdin_queue_.front() != ticket) co_await self->stdin_event_.wait();
  } catch (...) {
    std::erase(self->stdin_queue_, ticket);
    self->stdin_event_.notify();
    throw;
  }
  co_return ticket;
}

void Exec::leave_stdin() {
  stdin_queue_.pop_front();
  stdin_event_.notify();
}

namespace {

[[noreturn]] void throw_stdin_closed(const char* why) {
  throw SandboxError(ErrorCode::stdin_closed, std::string("the command takes no more standard input: ") +
                                                  why + "; stop writing to it");
}

}  // namespace

// Writes all of `data`, for the one at the head of the queue; `written` tells how much went, whatever
// happens.
Awaitable<void> Exec::send(std::shared_ptr<Exec> self, std::string_view data, std::size_t* written) {
  while (*written < data.size()) {
    if (!self->stdin_open()) throw_stdin_closed("it has ended");
    const auto sent =
        os::write_some(os::FdRef{self->in_.native_handle()}, data.data() + *written, data.size() - *written);
    if (sent) {
      self->stdin_line_open_ = data[*written + *sent - 1] != '\n' && data[*written + *sent - 1] != '\r';
      *written += *sent;
      continue;
    }
    if (sent.error() != boost::system::errc::resource_unavailable_try_again) {
      throw_stdin_closed("it has closed its end");
    }
    co_await self->in_.async_wait(stream_descriptor::wait_write, asio::as_tuple(asio::use_awaitable));
    co_await throw_if_cancelled();
  }
}

Awaitable<void> Exec::write_stdin(std::shared_ptr<Exec> self, std::string data) {
  std::size_t written = 0;
  bool cancelled = false;
  bool entered = false;
  std::exception_ptr failure;
  try {
    co_await enter_stdin(self);
    entered = true;
    if (self->stdin_closed_) throw_stdin_closed("it was closed");
    if (!self->stdin_open()) throw_stdin_closed("it has ended");
    co_await send(self, data, &written);
  } catch (const boost::system::system_error&) {
    cancelled = true;
  } catch (...) {
    failure = std::current_exception();
  }
  if (entered) self->leave_stdin();
  if (cancelled) throw SandboxWriteCancelled(written);
  if (failure) std::rethrow_exception(failure);
}

Awaitable<void> Exec::close_stdin(std::shared_ptr<Exec> self) {
  if (self->stdin_closed_ || !self->stdin_open()) co_return;
  co_await enter_stdin(self);
  std::exception_ptr failure;
  try {
    if (!self->stdin_closed_ && self->stdin_open()) {
      if (self->request_.plan->tty) {
        // A terminal has no end to close; its line discipline turns VEOF into one, at the beginning of a
        // line. In the middle of one the first VEOF hands over what was typed (termios(3)).
        const std::string_view end = self->stdin_line_open_ ? "\4\4" : "\4";
        std::size_t written = 0;
        co_await send(self, end, &written);
      } else {
        self->close_input();
      }
      self->stdin_closed_ = true;
    }
  } catch (const SandboxError&) {  // it has ended meanwhile
  } catch (...) {
    failure = std::current_exception();
  }
  self->leave_stdin();
  if (failure) std::rethrow_exception(failure);
}

void Exec::close_stdin_now() {
  if (in_.is_open()) close_input();
}

Awaitable<void> Exec::feed(std::shared_ptr<Exec> self) {
  try {
    co_await write_stdin(self, std::move(*self->request_.input));
  } catch (const SandboxError&) {  // S-43: a child that exits without reading is no error
  }
  co_await close_stdin(self);
}

}  // namespace caisson::kit
