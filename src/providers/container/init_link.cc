// Frames to an init and from it, and what they mean to who waits.
#include "providers/container/init_link.h"

#include <boost/system/system_error.hpp>
#include <utility>

#include "init/wire.h"
#include "os/socket.h"

namespace caisson::container {
namespace {

constexpr std::size_t buffer_size = std::size_t{64} << 10U;
// Reads at one go: a box that floods its connection shares the strand's thread with others.
constexpr int most_reads = 16;
// Requests that nobody waits for any more and that init owes an answer: one that owes more is no use.
constexpr std::size_t most_unwanted = 1024;
constexpr char unannounced[] = "descriptors came that it did not announce";

InitFailure lost(const std::string& why) { return {InitFault::lost, init::Step::protocol, 0, why}; }

// Whether a reply may answer a request of that type.
bool answers(const init::Reply& reply, const InitCall& call) {
  if (std::holds_alternative<init::Failed>(reply)) return true;
  switch (call.type) {
    case init::MessageType::hello:
      return std::holds_alternative<init::HelloReply>(reply);
    case init::MessageType::start_exec: {
      const auto* const started = std::get_if<init::Started>(&reply);
      return started != nullptr && started->tty == call.tty;
    }
    case init::MessageType::open_file:
      return std::holds_alternative<init::Opened>(reply);
    case init::MessageType::begin_put:
      return std::holds_alternative<init::PutOpened>(reply);
    default:
      return std::holds_alternative<init::Done>(reply);
  }
}

}  // namespace

InitFrame::~InitFrame() { init::wipe(bytes); }

InitLink::InitLink(const boost::asio::any_io_executor& executor, os::Fd socket, InitClientOptions options)
    : strand_(boost::asio::make_strand(executor)),
      options_(std::move(options)),
      socket_(strand_, std::move(socket).release()),
      buffer_(buffer_size) {}

InitLink::~InitLink() = default;

std::shared_ptr<InitExec> InitLink::new_exec(os::Pipe pipe) {
  return std::shared_ptr<InitExec>(new InitExec(std::move(pipe)));
}

void InitLink::open() {
  boost::system::error_code error;
  socket_.native_non_blocking(true, error);
  if (error) return end(error.message(), false);
  await_readable();
}

void InitLink::end(const std::string& why, bool by_owner) {
  if (ended_) return;
  ended_ = why;
  boost::system::error_code ignored;
  socket_.close(ignored);
  outgoing_.clear();
  arrived_.clear();
  for (const auto& [number, call] : std::exchange(calls_, {})) finish(*call, lost(why));
  for (const auto& [id, exec] : std::exchange(execs_, {})) exec->lose(why);
  if (!by_owner && options_.on_end) options_.on_end(why);
}

Awaitable<InitResult<InitAnswer>> InitLink::converse(std::shared_ptr<InitLink> self,
                                                     std::shared_ptr<InitCall> call,
                                                     std::shared_ptr<InitFrame> frame) {
  co_await kit::throw_if_cancelled();
  self->begin(call, std::move(frame));
  try {
    while (!call->outcome) co_await call->answered.wait();
  } catch (const boost::system::system_error&) {
    // It may have been answered in the meantime, and nobody takes that.
    if (call->outcome && call->outcome->has_value()) self->tidy_up_after((*call->outcome)->reply);
    self->abandon(call);
    throw;
  }
  co_return std::move(*call->outcome);
}

void InitLink::begin(const std::shared_ptr<InitCall>& call, std::shared_ptr<InitFrame> frame) {
  if (ended_) return finish(*call, lost(*ended_));
  calls_[call->number] = call;
  if (call->wanted) {
    call->alarm = options_.clock->alarm(strand_);
    // The alarm is the call's own, and goes with it.
    call->alarm->set(options_.clock->now() + call->patience,
                     [weak = weak_from_this(), waiting = std::weak_ptr(call)] {
                       const auto self = weak.lock();
                       const auto late = waiting.lock();
                       if (self && late) self->on_deadline(late);
                     });
  }
  outgoing_.push_back(std::move(frame));
  if (!awaiting_writable_) send();
}

void InitLink::finish(InitCall& call, InitResult<InitAnswer> outcome) {
  if (call.alarm) call.alarm->cancel();
  if (call.outcome || !call.wanted) return;
  call.outcome = std::move(outcome);
  call.answered.notify();
}

void InitLink::on_deadline(const std::shared_ptr<InitCall>& call) {
  if (call->outcome) return;
  finish(*call, InitFailure{InitFault::silent, init::Step::protocol, 0, {}});
  abandon(call);
}

void InitLink::abandon(const std::shared_ptr<InitCall>& call) {
  if (call->alarm) call->alarm->cancel();
  if (!call->wanted || !calls_.contains(call->number)) return;
  call->wanted = false;
  const auto waiting = std::find_if(outgoing_.begin(), outgoing_.end(),
                                    [&](const auto& frame) { return frame->number == call->number; });
  if (waiting != outgoing_.end() && (*waiting)->sent == 0) {
    outgoing_.erase(waiting);
    calls_.erase(call->number);
    return;
  }
  if (++unwanted_ > most_unwanted) end("it leaves requests unanswered", false);
}

void InitLink::tell(const init::Request& request) {
  auto call = std::make_shared<InitCall>(strand_);
  call->number = next_number();
  call->type = type_of(request);
  call->wanted = false;
  auto bytes = encode(call->number, request);
  if (!bytes || ended_) return;
  begin(call, std::make_shared<InitFrame>(std::move(*bytes), std::vector<os::Fd>(), call->number));
  if (++unwanted_ > most_unwanted) end("it leaves requests unanswered", false);
}

void InitLink::send() {
  awaiting_writable_ = false;
  while (!ended_ && !outgoing_.empty()) {
    InitFrame& frame = *outgoing_.front();
    std::vector<os::FdRef> riding(frame.descriptors.begin(), frame.descriptors.end());
    const auto sent = os::send_message(os::FdRef{socket_.native_handle()},
                                       std::string_view(frame.bytes).substr(frame.sent), riding);
    if (!sent && sent.error() == os::error_of(EAGAIN)) break;
    if (!sent) return end("it takes no requests: " + sent.error().message(), false);
    frame.sent += *sent;
    frame.descriptors.clear();
    if (frame.sent < frame.bytes.size()) break;
    outgoing_.pop_front();
  }
  if (ended_ || outgoing_.empty()) return;
  awaiting_writable_ = true;
  socket_.async_wait(boost::asio::posix::stream_descriptor::wait_write,
                     [self = shared_from_this()](const boost::system::error_code& error) {
                       if (!error) self->send();
                     });
}

void InitLink::await_readable() {
  if (ended_) return;
  socket_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                     [self = shared_from_this()](const boost::system::error_code& error) {
                       if (!error) self->receive();
                     });
}

void InitLink::receive() {
  for (int reads = 0; reads < most_reads && !ended_; ++reads) {
    std::vector<os::Fd> came;
    const auto count = os::receive_message(os::FdRef{socket_.native_handle()}, buffer_, came);
    if (!count && count.error() == os::error_of(EAGAIN)) break;
    if (!count) return end("reading from it: " + count.error().message(), false);
    if (*count == 0) return end("it has closed its end", false);
    for (os::Fd& descriptor : came) arrived_.push_back(std::move(descriptor));
    if (!take({buffer_.data(), *count})) return;
  }
  await_readable();
}

bool InitLink::take(std::string_view bytes) {
  while (auto frame = decoder_.next(bytes)) {
    if (frame->descriptors > arrived_.size()) return violate("descriptors that it announced did not come");
    std::vector<os::Fd> descriptors;
    for (int i = 0; i < frame->descriptors; ++i) {
      descriptors.push_back(std::move(arrived_.front()));
      arrived_.pop_front();
    }
    if (bytes.empty() && !arrived_.empty()) return violate(unannounced);
    if (!dispatch(*frame, std::move(descriptors))) return false;
  }
  if (decoder_.failure()) return violate("what it says is no frame");
  if (arrived_.size() > (decoder_.in_frame() ? init::max_descriptors : 0U)) return violate(unannounced);
  return true;
}

bool InitLink::dispatch(const init::Frame& frame, std::vector<os::Fd> descriptors) {
  auto reply = init::decode_reply(frame);
  if (!reply) return violate("a message breaks the rules of its type");
  const bool event =
      std::holds_alternative<init::Exited>(*reply) || std::holds_alternative<init::TreeEmpty>(*reply);
  if (event != (frame.request == 0)) return violate("a message is neither an answer nor an event");
  return event ? hear(*reply) : answer(frame.request, std::move(*reply), std::move(descriptors));
}

bool InitLink::hear(const init::Reply& event) {
  const auto* const exited = std::get_if<init::Exited>(&event);
  const auto at = execs_.find(exited != nullptr ? exited->exec : std::get<init::TreeEmpty>(event).exec);
  if (at == execs_.end()) return true;
  const std::shared_ptr<InitExec> exec = at->second;
  const bool is_news = exited != nullptr && !exec->state().exited;
  if (exited != nullptr) {
    exec->exit(*exited);
  } else {
    exec->set_empty();
  }
  const InitExec::State state = exec->state();
  if (state.exited && state.empty) execs_.erase(at);
  if (is_news) tell(init::AckExit{exec->id()});
  return !ended_;
}

bool InitLink::answer(std::uint64_t number, init::Reply reply, std::vector<os::Fd> descriptors) {
  const auto at = calls_.find(number);
  if (at == calls_.end()) return violate("an answer to what nobody asked");
  const std::shared_ptr<InitCall> call = at->second;
  if (!answers(reply, *call)) return violate("an answer of another type than was asked for");
  const auto* const started = std::get_if<init::Started>(&reply);
  if (started != nullptr && execs_.contains(started->exec)) return violate("an exec was started twice");
  calls_.erase(at);
  if (started != nullptr) {
    call->exec->id_ = started->exec;
    call->exec->pid_ = started->pid;
    execs_[started->exec] = call->exec;
  }
  if (!call->wanted) {
    --unwanted_;
    tidy_up_after(reply);
    return !ended_;
  }
  if (const auto* const failed = std::get_if<init::Failed>(&reply)) {
    finish(*call, InitFailure{InitFault::refused, failed->step,
                              static_cast<int>(failed->number & 0x7fffffffU), failed->detail});
    return true;
  }
  InitAnswer answer;
  answer.reply = std::move(reply);
  answer.descriptors = std::move(descriptors);
  answer.exec = std::move(call->exec);
  finish(*call, std::move(answer));
  return true;
}

// Nobody takes what an unwanted request has made.
void InitLink::tidy_up_after(const init::Reply& reply) {
  if (const auto* const started = std::get_if<init::Started>(&reply)) tell(init::KillExec{started->exec});
  if (const auto* const put = std::get_if<init::PutOpened>(&reply)) tell(init::AbortPut{put->put});
}

bool InitLink::violate(const std::string& what) {
  end("it breaks the protocol: " + what, false);
  return false;
}

}  // namespace caisson::container
