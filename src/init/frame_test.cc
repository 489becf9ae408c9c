// Tests of frames: any split gives the same ones, and what is none ends it.
#include "init/frame.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace caisson::init {
namespace {

Frame frame_of(std::string body) { return {MessageType::start_exec, 0x1122334455667788, 3, std::move(body)}; }

std::vector<Frame> some_frames() {
  return {frame_of("body"),
          {MessageType::ping, 1, 0, ""},
          frame_of(std::string(5000, 'x')),
          {MessageType::hello, 2, 4, std::string("\0\xff", 2)}};
}

std::string bytes_of(const std::vector<Frame>& frames) {
  std::string bytes;
  for (const Frame& frame : frames) bytes += encode(frame).value();
  return bytes;
}

void feed(FrameDecoder& decoder, std::string_view bytes, std::vector<Frame>& frames) {
  while (auto frame = decoder.next(bytes)) frames.push_back(std::move(*frame));
  if (!decoder.failure()) {
    EXPECT_TRUE(bytes.empty());
  }
}

TEST(Frame, TheHeaderIsAsDocumented) {
  const Frame frame{MessageType::put_opened, 0x0807060504030201, 1, "ab"};
  const std::string bytes = encode(frame).value();
  EXPECT_EQ(bytes, std::string("Cini"
                               "\x01\0"
                               "\x08\x01"
                               "\x01\x02\x03\x04\x05\x06\x07\x08"
                               "\x02\0\0\0"
                               "\x01"
                               "ab",
                               frame_header_size + 2));
}

TEST(Frame, ComesBackFromBytesFedAtOnce) {
  FrameDecoder decoder(Peer::host);
  std::vector<Frame> frames;
  feed(decoder, bytes_of(some_frames()), frames);
  EXPECT_EQ(frames, some_frames());
  EXPECT_FALSE(decoder.failure());
  EXPECT_FALSE(decoder.in_frame());
}

TEST(Frame, ComesBackByteByByte) {
  FrameDecoder decoder(Peer::host);
  std::vector<Frame> frames;
  const std::string bytes = bytes_of(some_frames());
  for (const char byte : bytes) feed(decoder, {&byte, 1}, frames);
  EXPECT_EQ(frames, some_frames());
  EXPECT_FALSE(decoder.in_frame());
}

TEST(Frame, ComesBackFromAnySplit) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const std::string bytes = bytes_of(some_frames());
  for (int round = 0; round < 500; ++round) {
    FrameDecoder decoder(Peer::host);
    std::vector<Frame> frames;
    const std::size_t most = 1 + random() % (round % 2 == 0 ? 30 : 3000);
    for (std::string_view rest = bytes; !rest.empty();) {
      const std::size_t size = std::min<std::size_t>(rest.size(), random() % (most + 1));
      feed(decoder, rest.substr(0, size), frames);
      rest.remove_prefix(size);
    }
    ASSERT_EQ(frames, some_frames()) << round;
  }
}

TEST(Frame, GivesItsFrameAtItsLastByteAndNoSooner) {
  const std::string bytes = encode(frame_of("body")).value();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    FrameDecoder decoder(Peer::host);
    std::string_view fed = std::string_view(bytes).substr(0, size);
    EXPECT_FALSE(decoder.next(fed));
    EXPECT_TRUE(fed.empty());
    EXPECT_FALSE(decoder.failure());
    EXPECT_EQ(decoder.in_frame(), size > 0);
    fed = std::string_view(bytes).substr(size);
    EXPECT_EQ(decoder.next(fed), frame_of("body"));
  }
}

TEST(Frame, LeavesTheBytesAfterIt) {
  const std::string bytes = encode(frame_of("body")).value() + "Ci";
  std::string_view rest = bytes;
  FrameDecoder decoder(Peer::host);
  EXPECT_TRUE(decoder.next(rest));
  EXPECT_EQ(rest, "Ci");
}

struct Bad {
  FrameError error;
  std::size_t at;
  std::string bytes;
};

TEST(Frame, WhatIsNoneFailsForGood) {
  const std::string good = encode(frame_of("body")).value();
  const Bad cases[] = {
      {FrameError::magic, 0, "c"},
      {FrameError::magic, 3, "I"},
      {FrameError::version, 4, std::string("\0\0", 2)},
      {FrameError::version, 4, std::string("\2\0", 2)},
      {FrameError::version, 4, "\1\1"},
      {FrameError::type, 6, std::string("\0\0", 2)},
      {FrameError::type, 6, std::string("\x10\0", 2)},
      {FrameError::type, 6, "\xff\xff"},
      {FrameError::length, 16, std::string("\1\0\0\1", 4)},
      {FrameError::length, 16, "\xff\xff\xff\xff"},
      {FrameError::descriptors, 20, "\11"},
      {FrameError::descriptors, 20, "\xff"},
  };
  for (const Bad& bad : cases) {
    SCOPED_TRACE("at " + std::to_string(bad.at));
    std::string bytes = good;
    bytes.replace(bad.at, bad.bytes.size(), bad.bytes);
    FrameDecoder decoder(Peer::host);
    std::string_view control = good;
    EXPECT_TRUE(decoder.next(control));
    std::string_view rest = bytes;
    EXPECT_FALSE(decoder.next(rest));
    EXPECT_EQ(decoder.failure(), bad.error);
    std::string_view again = good;
    EXPECT_FALSE(decoder.next(again));
    EXPECT_EQ(decoder.failure(), bad.error);
  }
}

TEST(Frame, EachPeerSendsItsOwnTypes) {
  int from_host = 0;
  int from_init = 0;
  for (std::uint32_t number = 0; number <= UINT16_MAX; ++number) {
    const auto type = static_cast<MessageType>(number);
    from_host += is_known(type, Peer::host) ? 1 : 0;
    from_init += is_known(type, Peer::init) ? 1 : 0;
    EXPECT_FALSE(is_known(type, Peer::host) && is_known(type, Peer::init));
  }
  EXPECT_EQ(from_host, 15);
  EXPECT_EQ(from_init, 10);
  const std::string bytes = encode({MessageType::done, 1, 0, ""}).value();
  std::string_view fed = bytes;
  FrameDecoder of_host(Peer::init);
  EXPECT_TRUE(of_host.next(fed));
  fed = bytes;
  FrameDecoder of_init(Peer::host);
  EXPECT_FALSE(of_init.next(fed));
  EXPECT_EQ(of_init.failure(), FrameError::type);
}

TEST(Frame, TheLargestBodyPassesAndNoLarger) {
  Frame frame = frame_of(std::string(max_body, 'x'));
  const std::string bytes = encode(frame).value();
  FrameDecoder decoder(Peer::host);
  std::vector<Frame> frames;
  for (std::string_view rest = bytes; !rest.empty();) {
    const std::string_view part = rest.substr(0, 65536);
    feed(decoder, part, frames);
    rest.remove_prefix(part.size());
  }
  ASSERT_EQ(frames.size(), 1U);
  EXPECT_TRUE(frames[0] == frame);
  frame.body += 'x';
  EXPECT_EQ(encode(frame).error().value(), EMSGSIZE);
}

TEST(Frame, CarriesAtMostEightDescriptors) {
  EXPECT_TRUE(encode({MessageType::ping, 1, 8, ""}));
  EXPECT_EQ(encode({MessageType::ping, 1, 9, ""}).error().value(), EINVAL);
}

TEST(Frame, FlippedBitsNeverDoMoreThanFail) {
  const std::string good = bytes_of(some_frames());
  for (std::size_t bit = 0; bit < 8 * 2 * frame_header_size + 64; ++bit) {
    std::string bytes = good;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    FrameDecoder decoder(Peer::host);
    std::vector<Frame> frames;
    feed(decoder, bytes, frames);
    EXPECT_NE(frames, some_frames());
  }
}

}  // namespace
}  // namespace caisson::init
