// Channel: reads and writes that never wait, and which descriptors belong to which frame.
#include "init/channel.h"

#include <fcntl.h>
#include <string.h>

#include <iterator>
#include <utility>

#include "init/wire.h"
#include "os/socket.h"

namespace caisson::init {
namespace {

using Kind = ChannelFailure::Kind;

constexpr std::size_t read_size = std::size_t{64} << 10U;

ChannelFailure failure_of(const os::Error& error) noexcept {
  return {Kind::system, std::nullopt, error.value()};
}

}  // namespace

os::Result<Channel> Channel::over(os::Fd socket, Peer peer) {
  const int flags = ::fcntl(socket.number(), F_GETFL);
  if (flags < 0 || ::fcntl(socket.number(), F_SETFL, flags | O_NONBLOCK) != 0) return os::last_error();
  return Channel(std::move(socket), peer);
}

Channel::Channel(os::Fd socket, Peer peer)
    : socket_(std::move(socket)), decoder_(std::make_unique<FrameDecoder>(peer)) {
  buffer_.resize(read_size);
}

Channel::~Channel() { wipe_all(); }

Channel& Channel::operator=(Channel&& other) noexcept {
  if (this == &other) return *this;
  wipe_all();
  socket_ = std::move(other.socket_);
  buffer_ = std::move(other.buffer_);
  filled_ = other.filled_;
  taken_ = other.taken_;
  decoder_ = std::move(other.decoder_);
  came_ = std::move(other.came_);
  output_ = std::move(other.output_);
  queued_ = other.queued_;
  return *this;
}

void Channel::wipe_all() noexcept {
  if (!buffer_.empty()) forget_read();
  for (Outgoing& frame : output_) wipe(frame.bytes);
}

void Channel::forget_read() noexcept {
  ::explicit_bzero(buffer_.data(), filled_);
  filled_ = taken_ = 0;
}

ChannelResult<std::optional<Incoming>> Channel::receive() {
  for (;;) {
    std::string_view rest = std::string_view(buffer_).substr(taken_, filled_ - taken_);
    auto frame = decoder_->next(rest);
    if (decoder_->failure()) return ChannelFailure{Kind::frame, decoder_->failure(), 0};
    taken_ = filled_ - rest.size();
    if (rest.empty()) forget_read();
    if (frame) {
      auto whole = with_descriptors(std::move(*frame));
      if (!whole) return whole.error();
      return std::optional<Incoming>(std::move(*whole));
    }
    // Between reads only the frame that has begun may claim what came.
    if (came_.size() > (decoder_->in_frame() ? max_descriptors : 0U)) {
      return ChannelFailure{Kind::descriptors, std::nullopt, 0};
    }
    const auto more = read_more();
    if (!more) return more.error();
    if (!*more) return std::optional<Incoming>();
  }
}

ChannelResult<bool> Channel::read_more() {
  const auto count = os::receive_message(socket_, buffer_, came_);
  filled_ = count ? *count : 0;
  if (!count) {
    if (count.error() == os::error_of(EAGAIN)) return false;
    if (count.error() != os::error_of(ECONNRESET)) return failure_of(count.error());
  }
  if (count && *count > 0) return true;
  return ChannelFailure{decoder_->in_frame() ? Kind::cut : Kind::closed, std::nullopt, 0};
}

ChannelResult<Incoming> Channel::with_descriptors(Frame frame) {
  Incoming incoming{std::move(frame), {}};
  const auto count = static_cast<std::ptrdiff_t>(incoming.frame.descriptors);
  if (came_.size() < incoming.frame.descriptors) {
    wipe(incoming.frame.body);
    return ChannelFailure{Kind::descriptors, std::nullopt, 0};
  }
  incoming.descriptors.assign(std::move_iterator(came_.begin()), std::move_iterator(came_.begin() + count));
  came_.erase(came_.begin(), came_.begin() + count);
  return incoming;
}

ChannelResult<bool> Channel::send(std::string&& bytes, std::vector<os::Fd> descriptors) {
  if (!output_.empty() && queued_ + bytes.size() > most_queued) return false;
  queued_ += bytes.size();
  output_.push_back({std::move(bytes), 0, std::move(descriptors)});
  wipe(bytes);  // A short one was copied, not moved.
  const auto sent = flush();
  if (!sent) return sent.error();
  return true;
}

ChannelResult<void> Channel::flush() {
  while (!output_.empty()) {
    Outgoing& next = output_.front();
    const std::vector<os::FdRef> descriptors(next.descriptors.begin(), next.descriptors.end());
    const auto count = os::send_message(socket_, std::string_view(next.bytes).substr(next.sent), descriptors);
    if (!count) {
      if (count.error() == os::error_of(EAGAIN)) return {};
      if (count.error() == os::error_of(EPIPE) || count.error() == os::error_of(ECONNRESET)) {
        return ChannelFailure{Kind::closed, std::nullopt, 0};
      }
      return failure_of(count.error());
    }
    next.sent += *count;
    next.descriptors.clear();  // They went with the first byte.
    if (next.sent < next.bytes.size()) return {};
    queued_ -= next.bytes.size();
    wipe(next.bytes);
    output_.pop_front();
  }
  return {};
}

}  // namespace caisson::init
