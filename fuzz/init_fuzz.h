// What both fuzz targets of init's protocol do: whatever the bytes, decoding ends, and what decodes encodes
// to the very bytes it came from.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "init/messages.h"

namespace init_fuzz {

namespace init = caisson::init;

[[noreturn]] inline void fail(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

template <class Message>
void check_message(const init::Frame& frame, const caisson::os::Result<Message>& message) {
  if (!message) return;
  const auto again =
      std::visit([&](const auto& each) { return init::encode(frame.request, each); }, *message);
  if (!again) fail("what was decoded cannot be encoded");
  if (*again != init::encode(frame).value()) fail("a message with two forms");
}

template <class Decode>
std::vector<init::Frame> check_stream(std::string_view bytes, std::size_t step, init::Peer sender,
                                      Decode decode) {
  init::FrameDecoder decoder(sender);
  std::vector<init::Frame> frames;
  while (!bytes.empty() && !decoder.failure()) {
    std::string_view part = bytes.substr(0, step);
    bytes.remove_prefix(part.size());
    while (auto frame = decoder.next(part)) {
      check_message(*frame, decode(*frame));
      frames.push_back(std::move(*frame));
    }
    if (!part.empty() && !decoder.failure()) fail("bytes that were not taken");
  }
  return frames;
}

// The bytes are taken as a stream of frames, and as one body after a byte each for its type and its number of
// descriptors, so that a mutation need not keep a header's length right.
template <class Decode>
void check(std::string_view bytes, init::Peer sender, init::MessageType first, Decode decode) {
  const auto frames = check_stream(bytes, std::string_view::npos, sender, decode);
  if (frames != check_stream(bytes, 1, sender, decode)) fail("another split, other frames");
  if (bytes.size() < 2) return;
  const auto type =
      static_cast<std::uint16_t>(static_cast<std::uint16_t>(first) + static_cast<std::uint8_t>(bytes[0]));
  const auto descriptors =
      static_cast<std::uint8_t>(static_cast<std::uint8_t>(bytes[1]) % (init::max_descriptors + 1));
  const init::Frame frame{static_cast<init::MessageType>(type), 1, descriptors, std::string(bytes.substr(2))};
  check_message(frame, decode(frame));
}

}  // namespace init_fuzz
