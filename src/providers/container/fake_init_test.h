// An init for tests: the other end of a client's socket, which says what a test tells it to.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "init/messages.h"
#include "os/socket.h"

namespace caisson::container {

/// One request as it came.
struct Asked {
  std::uint64_t number = 0;
  init::Request request;
  std::vector<os::Fd> descriptors;
};

/// Runs a script on a thread of its own, after which the connection ends, as it does with this object.
class FakeInit {
 public:
  using Script = std::function<void(FakeInit&)>;
  explicit FakeInit(Script script) {
    auto pair = os::make_socket_pair();
    if (!pair) throw std::runtime_error("no sockets");
    host_ = std::move(pair->first);
    own_ = std::move(pair->second);
    thread_ = std::thread([this, script = std::move(script)] {
      script(*this);
      hang_up();
    });
  }
  ~FakeInit() {
    hang_up();
    thread_.join();
  }
  FakeInit(const FakeInit&) = delete;
  FakeInit& operator=(const FakeInit&) = delete;

  /// The host's end, once.
  os::Fd take_host_end() { return std::move(host_); }

  // For the script.
  /// The next request; nothing once the client has closed.
  std::optional<Asked> next() {
    for (;;) {
      if (auto frame = decoder_.next(rest_)) {
        auto request = init::decode_request(*frame);
        EXPECT_TRUE(request) << "the client sent what is no request";
        if (!request) return std::nullopt;
        Asked asked{frame->request, std::move(*request), {}};
        for (int i = 0; i < frame->descriptors && !arrived_.empty(); ++i) {
          asked.descriptors.push_back(std::move(arrived_.front()));
          arrived_.pop_front();
        }
        EXPECT_EQ(asked.descriptors.size(), frame->descriptors);
        return asked;
      }
      std::vector<os::Fd> came;
      const auto count = os::receive_message(own_, buffer_, came);
      if (!count || *count == 0) return std::nullopt;
      for (os::Fd& descriptor : came) arrived_.push_back(std::move(descriptor));
      rest_ = {buffer_.data(), *count};
    }
  }
  /// The next request, which is to be of that type.
  template <class Message>
  Asked expect() {
    auto asked = next();
    EXPECT_TRUE(asked && std::holds_alternative<Message>(asked->request));
    return asked ? std::move(*asked) : Asked();
  }
  template <class Message>
  void say(std::uint64_t number, const Message& message, std::vector<os::FdRef> descriptors = {}) {
    const auto bytes = init::encode(number, message);
    ASSERT_TRUE(bytes);
    say_bytes(*bytes, descriptors);
  }
  void say_bytes(std::string_view bytes, std::vector<os::FdRef> descriptors = {}) {
    static_cast<void>(os::send_message(own_, bytes, descriptors));
  }
  /// Takes what still comes until the client closes.
  void drain() {
    while (next()) continue;
  }

 private:
  // The descriptor stays: the other thread may be using it.
  void hang_up() const { ::shutdown(own_.number(), SHUT_RDWR); }

  os::Fd host_;
  os::Fd own_;
  init::FrameDecoder decoder_{init::Peer::host};
  std::vector<char> buffer_ = std::vector<char>(std::size_t{64} << 10U);
  std::string_view rest_;
  std::deque<os::Fd> arrived_;
  std::thread thread_;
};

}  // namespace caisson::container
