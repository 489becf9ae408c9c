// Tests of memory: secrets are wiped before it is released (S-6), and none is taken for what is only
// announced.
#include <gtest/gtest.h>
#include <malloc.h>
#include <string.h>

#include <algorithm>
#include <cstdlib>
#include <new>

#include "init/channel.h"
#include "init/samples_test.h"
#include "init/wire.h"
#include "os/socket.h"

namespace {

// Longer than what a std::string keeps within itself.
constexpr char secret[] = "TOKEN=a-secret-longer-than-a-short-string";

// The tests of this program that watch are of one thread, and so is what they call.
thread_local bool watching = false;
thread_local int secrets_released = 0;
thread_local std::size_t largest_allocation = 0;

void look_at(const void* block) noexcept {
  if (!watching || block == nullptr) return;
  const std::size_t size = ::malloc_usable_size(const_cast<void*>(block));
  if (::memmem(block, size, secret, sizeof secret - 1) != nullptr) ++secrets_released;
}

void give_back(void* block) noexcept {
  look_at(block);
  std::free(block);
}

}  // namespace

void* operator new(std::size_t size) {
  if (watching) largest_allocation = std::max(largest_allocation, size);
  if (void* block = std::malloc(size == 0 ? 1 : size)) return block;
  throw std::bad_alloc();
}
void operator delete(void* block) noexcept { give_back(block); }
void operator delete(void* block, std::size_t) noexcept { give_back(block); }

namespace caisson::init {
namespace {

class Watch {
 public:
  Watch() noexcept {
    secrets_released = 0;
    largest_allocation = 0;
    watching = true;
  }
  ~Watch() { watching = false; }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
};

StartExec exec_with_secret() {
  StartExec exec = sample_exec();
  exec.env = {secret};
  return exec;
}

TEST(Memory, TheControl_ASecretThatIsNotWipedIsSeen) {
  {
    const Watch watch;
    const std::string bytes(secret);
  }
  EXPECT_EQ(secrets_released, 1);
  EXPECT_GT(largest_allocation, sizeof secret - 1);
}

TEST(Memory, EncodingLeavesNothingBehind_S6) {
  const StartExec exec = exec_with_secret();
  {
    const Watch watch;
    std::string bytes = encode(1, exec).value();
    ASSERT_NE(bytes.find(secret), std::string::npos);
    wipe(bytes);
  }
  EXPECT_EQ(secrets_released, 0);
}

TEST(Memory, DecodingLeavesNothingBehind_S6) {
  StartExec exec = exec_with_secret();
  exec.env.insert(exec.env.end(), 100, "NAME=value");  // So that the body grows after the secret is in it.
  const std::string bytes = encode(1, exec).value();
  int frames = 0;
  {
    const Watch watch;
    FrameDecoder decoder(Peer::host);
    for (std::size_t at = 0; at < bytes.size(); ++at) {
      std::string_view byte = std::string_view(bytes).substr(at, 1);
      auto frame = decoder.next(byte);
      if (!frame) continue;
      ++frames;
      wipe(frame->body);
    }
  }
  EXPECT_EQ(frames, 1);
  EXPECT_EQ(secrets_released, 0);
}

TEST(Memory, AFrameThatIsCutShortLeavesNothingBehind_S6) {
  const std::string bytes = encode(1, exec_with_secret()).value();
  {
    const Watch watch;
    FrameDecoder decoder(Peer::host);
    std::string_view cut = std::string_view(bytes).substr(0, bytes.size() - 1);
    EXPECT_FALSE(decoder.next(cut));
    EXPECT_TRUE(decoder.in_frame());
  }
  EXPECT_EQ(secrets_released, 0);
}

TEST(Memory, AChannelLeavesNothingBehind_S6) {
  StartExec exec = exec_with_secret();
  exec.tty = TtySize{};
  exec.joined = 0;
  auto sockets = os::make_socket_pair();
  std::string whole = encode(1, exec).value();
  std::string cut = whole.substr(0, whole.size() - 1);
  {
    const Watch watch;
    auto host = Channel::over(std::move(sockets->first), Peer::init).value();
    auto init = Channel::over(std::move(sockets->second), Peer::host).value();
    EXPECT_TRUE(host.send(std::move(whole)).value());
    auto incoming = init.receive().value();
    ASSERT_TRUE(incoming);
    EXPECT_NE(incoming->frame.body.find(secret), std::string::npos);
    wipe(incoming->frame.body);
    // One that never gets whole, and one that is never sent.
    EXPECT_TRUE(host.send(std::move(cut)).value());
    EXPECT_FALSE(init.receive().value());
    while (!host.has_output()) {
      EXPECT_TRUE(host.send(encode(1, exec).value()).value());
    }
  }
  EXPECT_EQ(secrets_released, 0);
}

TEST(Memory, AFrameThatIsOnlyAnnouncedTakesNone) {
  const std::string bytes = encode({MessageType::ping, 1, 0, std::string(max_body, 'x')}).value();
  {
    const Watch watch;
    FrameDecoder decoder(Peer::host);
    std::string_view begun = std::string_view(bytes).substr(0, frame_header_size + 1000);
    EXPECT_FALSE(decoder.next(begun));
    EXPECT_TRUE(decoder.in_frame());
  }
  EXPECT_GE(largest_allocation, 1000U);
  EXPECT_LE(largest_allocation, 4096U);
}

TEST(Memory, AListThatIsOnlyAnnouncedTakesNone) {
  std::string body;
  Writer(body).number(std::uint32_t{500'000});
  const Frame frame{MessageType::start_exec, 1, 0, body + std::string(1000, '\0')};
  {
    const Watch watch;
    EXPECT_FALSE(decode_request(frame));
  }
  EXPECT_LE(largest_allocation, 16384U);
}

}  // namespace
}  // namespace caisson::init
