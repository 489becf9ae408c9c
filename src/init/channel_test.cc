// Tests of channels: frames and their descriptors over a real socket, in pieces, too many, and cut short.
#include "init/channel.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "init/messages.h"
#include "init/samples_test.h"
#include "os/socket.h"

namespace caisson::init {
namespace {

using Kind = ChannelFailure::Kind;

struct Ends {
  Channel host;
  Channel init;
};

Ends connected() {
  auto pair = os::make_socket_pair();
  return {Channel::over(std::move(pair->first), Peer::init).value(),
          Channel::over(std::move(pair->second), Peer::host).value()};
}

/// A channel of init's, and the bare socket at its other end.
struct Bare {
  os::Fd socket;
  Channel init;
};
Bare with_bare_peer() {
  auto pair = os::make_socket_pair();
  return {std::move(pair->first), Channel::over(std::move(pair->second), Peer::host).value()};
}

std::vector<os::Fd> pipe_ends() {
  auto pipe = os::make_pipe();
  std::vector<os::Fd> ends;
  ends.push_back(std::move(pipe->read));
  ends.push_back(std::move(pipe->write));
  return ends;
}

std::string ping(std::uint64_t request = 1) { return encode(request, Ping{}).value(); }

TEST(Channel, FramesArriveInOrderAndBothWays) {
  Ends ends = connected();
  EXPECT_FALSE(ends.init.receive().value());
  EXPECT_TRUE(ends.host.send(ping(1)).value());
  EXPECT_TRUE(ends.host.send(encode(2, KillExec{5}).value()).value());
  EXPECT_TRUE(ends.init.send(encode(1, Done{}).value()).value());
  const auto first = ends.init.receive().value();
  const auto second = ends.init.receive().value();
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->frame.request, 1U);
  EXPECT_TRUE(decode_request(second->frame).value() == Request(KillExec{5}));
  EXPECT_FALSE(ends.init.receive().value());
  const auto answer = ends.host.receive().value();
  ASSERT_TRUE(answer);
  EXPECT_TRUE(decode_reply(answer->frame).value() == Reply(Done{}));
}

TEST(Channel, DescriptorsComeWithTheirOwnFrames) {
  Ends ends = connected();
  StartExec exec = sample_exec();
  exec.input = false;
  exec.joined = 0;
  ASSERT_TRUE(ends.host.send(ping()).value());
  ASSERT_TRUE(ends.host.send(encode(2, exec).value(), pipe_ends()).value());
  ASSERT_TRUE(ends.host.send(encode(3, exec).value(), pipe_ends()).value());
  EXPECT_TRUE(ends.init.receive().value()->descriptors.empty());
  for (const std::uint64_t request : {2U, 3U}) {
    auto incoming = ends.init.receive().value();
    ASSERT_TRUE(incoming);
    EXPECT_EQ(incoming->frame.request, request);
    ASSERT_EQ(incoming->descriptors.size(), 2U);
    ASSERT_TRUE(os::write_all(incoming->descriptors[1], "x"));
    char byte = 0;
    EXPECT_EQ(os::read_some(incoming->descriptors[0], &byte, 1).value(), 1U);
    EXPECT_EQ(::fcntl(incoming->descriptors[0].number(), F_GETFD), FD_CLOEXEC);
  }
}

TEST(Channel, AFrameInPiecesIsWholeAtItsLastByte) {
  Bare ends = with_bare_peer();
  StartExec exec = sample_exec();
  exec.input = false;
  exec.joined = 0;
  const std::string bytes = encode(7, exec).value();
  const auto descriptors = pipe_ends();
  const os::FdRef both[] = {descriptors[0], descriptors[1]};
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto sent = i == 0 ? os::send_message(ends.socket, bytes.substr(0, 1), both)
                             : os::send_message(ends.socket, bytes.substr(i, 1));
    ASSERT_TRUE(sent);
    const auto incoming = ends.init.receive().value();
    ASSERT_EQ(incoming.has_value(), i + 1 == bytes.size()) << i;
    if (incoming) {
      EXPECT_EQ(incoming->descriptors.size(), 2U);
    }
  }
}

TEST(Channel, ALongFrameGoesAsTheSocketTakesIt) {
  Ends ends = connected();
  BuildBox box{sample_plan()};
  box.plan.cgroup = false;
  box.plan.joined = 0;
  box.plan.files[0].contents.assign(8 << 20, 'x');
  std::vector<os::Fd> mounts = pipe_ends();
  ASSERT_TRUE(ends.host.send(encode(1, box).value(), std::move(mounts)).value());
  EXPECT_TRUE(ends.host.has_output());
  std::optional<Incoming> incoming;
  while (!incoming) {
    incoming = ends.init.receive().value();
    ASSERT_TRUE(ends.host.flush());
  }
  EXPECT_FALSE(ends.host.has_output());
  EXPECT_EQ(incoming->descriptors.size(), 2U);
  EXPECT_TRUE(decode_request(incoming->frame).value() == Request(box));
}

TEST(Channel, WhatWaitsIsBounded) {
  Ends ends = connected();
  std::size_t queued = 0;
  while (ends.host.send(encode(1, OpenFile{std::string(4000, 'p'), ""}).value()).value()) ++queued;
  EXPECT_GT(queued, Channel::most_queued / 5000);
  EXPECT_LT(queued, 2 * Channel::most_queued / 4000);
  // And goes on when the peer reads again.
  std::size_t came = 0;
  while (came < queued) {
    if (ends.init.receive().value()) ++came;
    ASSERT_TRUE(ends.host.flush());
  }
  EXPECT_FALSE(ends.host.has_output());
  EXPECT_TRUE(ends.host.send(ping()).value());
}

TEST(Channel, TheEndIsToldApartFromACut) {
  Bare between = with_bare_peer();
  ASSERT_TRUE(os::send_message(between.socket, ping()));
  between.socket.reset();
  EXPECT_TRUE(between.init.receive().value());
  EXPECT_EQ(between.init.receive().error().kind, Kind::closed);
  EXPECT_EQ(between.init.send(encode(1, Done{}).value()).error().kind, Kind::closed);

  Bare within = with_bare_peer();
  ASSERT_TRUE(os::send_message(within.socket, ping().substr(0, 20)));
  within.socket.reset();
  EXPECT_EQ(within.init.receive().error().kind, Kind::cut);
}

TEST(Channel, WhatIsNoFrameIsAFailure) {
  Bare ends = with_bare_peer();
  ASSERT_TRUE(os::send_message(ends.socket, std::string(frame_header_size, 'x')));
  EXPECT_EQ(ends.init.receive().error(), (ChannelFailure{Kind::frame, FrameError::magic, 0}));
  EXPECT_EQ(ends.init.receive().error().kind, Kind::frame);
}

TEST(Channel, DescriptorsThatNoFrameAnnouncesAreAFailure_S102) {
  const auto descriptors = pipe_ends();
  const os::FdRef two[] = {descriptors[0], descriptors[1]};
  {
    Bare ends = with_bare_peer();
    ASSERT_TRUE(os::send_message(ends.socket, ping(), two));
    EXPECT_TRUE(ends.init.receive().value());
    EXPECT_EQ(ends.init.receive().error().kind, Kind::descriptors);
  }
  {  // A frame that never becomes whole holds no more than it may have.
    Bare ends = with_bare_peer();
    const std::string bytes = ping();
    bool failed = false;
    for (std::size_t i = 0; i + 1 < bytes.size() && !failed; ++i) {
      ASSERT_TRUE(os::send_message(ends.socket, bytes.substr(i, 1), two));
      const auto received = ends.init.receive();
      failed = !received;
      EXPECT_EQ(failed, 2 * (i + 1) > max_descriptors);
    }
    EXPECT_TRUE(failed);
  }
  {  // Fewer than announced.
    Bare ends = with_bare_peer();
    StartExec exec = sample_exec();
    ASSERT_TRUE(os::send_message(ends.socket, encode(1, exec).value(), two));
    EXPECT_EQ(ends.init.receive().error().kind, Kind::descriptors);
  }
}

}  // namespace
}  // namespace caisson::init
