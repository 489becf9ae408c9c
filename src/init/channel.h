// Channel: frames over a Unix stream socket, with the descriptors that ride along, for either side.
#pragma once

#include <boost/system/system_error.hpp>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "init/frame.h"
#include "os/fd.h"

namespace caisson::init {

/// A frame and what came with it.
struct Incoming {
  Frame frame;
  std::vector<os::Fd> descriptors;  ///< As many as the frame says.
};

/// Why nothing more comes, or goes.
struct ChannelFailure {
  enum class Kind : std::uint8_t {
    closed,       ///< The peer is gone, between two frames.
    cut,          ///< The peer is gone, within a frame.
    frame,        ///< What came is no frame: `frame`.
    descriptors,  ///< Descriptors came that no frame announced, or fewer than announced.
    system,       ///< A call failed: `number`. EMFILE: there was no room for the descriptors that came.
  };
  Kind kind = Kind::closed;
  std::optional<FrameError> frame;
  int number = 0;  ///< errno

  bool operator==(const ChannelFailure&) const = default;
};
template <class T>
using ChannelResult = boost::system::result<T, ChannelFailure>;

[[noreturn]] inline void throw_exception_from_error(const ChannelFailure& failure,
                                                    const boost::source_location&) {
  throw boost::system::system_error(os::error_of(failure.number), "channel");
}

/// One end of a connection. Nothing here ever waits: the owner's event loop says when socket() is readable,
/// and, as long as has_output(), writable. After a failure the channel is of no more use. Bytes are wiped
/// when they have been taken or sent.
class Channel {
 public:
  /// Bytes that wait to be sent at most, beyond the one frame that is under way.
  static constexpr std::size_t most_queued = std::size_t{1} << 20U;

  /// Makes the socket's end non-blocking. `peer`: who is at the other end.
  static os::Result<Channel> over(os::Fd socket, Peer peer);
  Channel(Channel&&) noexcept = default;
  Channel& operator=(Channel&& other) noexcept;
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  ~Channel();

  os::FdRef socket() const noexcept { return socket_; }

  /// The next frame; none: no whole one is there yet. Ask again until there is none, and then when the
  /// socket is readable. One call reads no more than one frame needs, and a little.
  ChannelResult<std::optional<Incoming>> receive();

  /// Queues the bytes of a frame (encode()) with what rides along, and sends what the socket takes. False:
  /// too much waits already, nothing was queued, and the bytes are the caller's to wipe.
  ChannelResult<bool> send(std::string&& bytes, std::vector<os::Fd> descriptors = {});
  /// Sends what the socket takes. A peer that is gone is `closed`.
  ChannelResult<void> flush();
  bool has_output() const noexcept { return !output_.empty(); }

 private:
  struct Outgoing {
    std::string bytes;
    std::size_t sent = 0;
    std::vector<os::Fd> descriptors;
  };

  Channel(os::Fd socket, Peer peer);
  /// Once more bytes are there; false: none for now.
  ChannelResult<bool> read_more();
  ChannelResult<Incoming> with_descriptors(Frame frame);
  void forget_read() noexcept;
  void wipe_all() noexcept;

  os::Fd socket_;
  std::string buffer_;  // Of fixed size: what one read gave, in its first `filled_` bytes.
  std::size_t filled_ = 0;
  std::size_t taken_ = 0;  // Of those.
  std::unique_ptr<FrameDecoder> decoder_;
  std::vector<os::Fd> came_;  // Descriptors that no whole frame has claimed.
  std::deque<Outgoing> output_;
  std::size_t queued_ = 0;
};

}  // namespace caisson::init
