// Tests of the loopback interface: what it carries before and after.
#include "os/loopback.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <linux/sched.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "os/capabilities.h"
#include "tests/support/forked.h"

namespace caisson::os {
namespace {

using test::in_child;

// A datagram to 127.0.0.1 and back, or what stands in the way.
std::string round_trip() {
  const Fd socket = Fd::adopt(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (::bind(socket.number(), generic, size) != 0 || ::getsockname(socket.number(), generic, &size) != 0 ||
      ::sendto(socket.number(), "x", 1, 0, generic, size) != 1) {
    return ::strerrorname_np(errno);
  }
  std::array<char, 8> buffer;
  return ::recv(socket.number(), buffer.data(), buffer.size(), 0) == 1 ? "fine" : ::strerrorname_np(errno);
}

std::string brought_up() {
  const auto done = bring_loopback_up();
  return done ? "up" : ::strerrorname_np(done.error().value());
}

class Loopback : public testing::TestWithParam<std::uint64_t> {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root makes network namespaces of every kind";
  }
};

TEST_P(Loopback, CarriesDatagramsOnceItIsUp) {
  const std::string all = in_child(
      [] {
        std::string text = round_trip();
        text += " " + brought_up();
        text += " " + round_trip();
        return text + " " + brought_up();
      },
      GetParam());
  EXPECT_EQ(all, "ENETUNREACH up fine up");
}

TEST_P(Loopback, NeedsThePrivilegeOfItsNamespace) {
  const std::string all = in_child(
      [] {
        if (!limit_capabilities(0)) return std::string("capabilities");
        return brought_up();
      },
      GetParam());
  EXPECT_EQ(all, "EPERM");
}

INSTANTIATE_TEST_SUITE_P(Namespaces, Loopback,
                         testing::Values(std::uint64_t{CLONE_NEWNET},
                                         std::uint64_t{CLONE_NEWNET} | CLONE_NEWUSER));

}  // namespace
}  // namespace caisson::os
