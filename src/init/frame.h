// Frames: how messages follow one another between a host process and caisson-init, over any transport.
//
// A frame is a header of 21 bytes (magic u32, protocol version u16, type u16, request u64, body's length u32,
// descriptors u8; little-endian) and a body. Over a Unix socket the descriptors come as SCM_RIGHTS with the
// frame's first byte (unix(7)); the bytes know of nothing but their number, so that the same frames serve
// where none can pass.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "os/result.h"

namespace caisson::init {

/// Of the header and of Hello and its reply (messages.h): a peer of another one is not understood at all.
inline constexpr std::uint16_t protocol_version = 1;
inline constexpr std::size_t frame_header_size = 21;
inline constexpr std::size_t max_body = std::size_t{16} << 20U;
inline constexpr std::uint8_t max_descriptors = 8;

/// Who sends it: requests come from the host, replies from init.
enum class Peer : std::uint8_t { host, init };

/// What a body is; messages.h has a struct for each. A number once used means the same for ever.
enum class MessageType : std::uint16_t {
  // From the host.
  hello = 1,
  build_box,
  start_exec,
  signal_exec,
  kill_exec,
  ack_exit,
  resize_tty,
  open_file,
  begin_put,
  commit_put,
  abort_put,
  ping,
  list_execs,
  take_streams,
  close_input,
  // From init.
  hello_reply = 257,
  done,
  failed,
  started,
  exited,
  tree_empty,
  opened,
  put_opened,
  exec_list,
  streams,
};

/// Whether `type` is one that `sender` may send.
bool is_known(MessageType type, Peer sender) noexcept;

struct Frame {
  MessageType type = MessageType::ping;
  std::uint64_t request = 0;     ///< A reply has its request's; 0 is what init says unasked.
  std::uint8_t descriptors = 0;  ///< How many ride along, at most max_descriptors.
  std::string body;              ///< May hold secrets: wipe() it (wire.h) once it is read.

  bool operator==(const Frame&) const = default;
};

/// The frame's bytes, to be wiped by the caller as its body. EMSGSIZE: the body is longer than max_body;
/// EINVAL: more than max_descriptors.
os::Result<std::string> encode(const Frame& frame);

/// Why bytes are no frames.
enum class FrameError : std::uint8_t { magic, version, type, length, descriptors };

/// Takes a stream of bytes, cut anywhere, apart into frames. It holds no more than one frame, in memory that
/// grows as bytes come, and wipes it.
class FrameDecoder {
 public:
  /// For the bytes that `sender` sends.
  explicit FrameDecoder(Peer sender) noexcept : sender_(sender) {}
  ~FrameDecoder();
  FrameDecoder(const FrameDecoder&) = delete;
  FrameDecoder& operator=(const FrameDecoder&) = delete;

  /// Takes bytes off the front of `bytes` up to the end of a frame, and gives that frame. None: all bytes are
  /// taken and the frame is not whole yet, or the decoder has failed. A header is judged when its last byte
  /// is there. Descriptors that came with any byte of the frame have come by then: the transport keeps them
  /// in order, and each frame owns its `descriptors` next ones.
  std::optional<Frame> next(std::string_view& bytes);

  /// Set once something was no frame, and then for good: where the next one would begin cannot be known.
  std::optional<FrameError> failure() const noexcept { return failure_; }
  /// Whether a frame has begun and is not whole; at the end of the stream, that it was cut short.
  bool in_frame() const noexcept { return header_bytes_ > 0; }

 private:
  std::optional<FrameError> read_header() noexcept;
  void append(std::string_view bytes);

  Peer sender_;
  std::array<char, frame_header_size> header_{};
  std::size_t header_bytes_ = 0;  // Of the frame that has begun.
  std::size_t length_ = 0;        // Its body's, once the header is there.
  Frame frame_;
  std::optional<FrameError> failure_;
};

}  // namespace caisson::init
