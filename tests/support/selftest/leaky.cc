// A test program whose tests leave things behind, each another kind, for leak_check_test.cc to see them fail.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "tests/support/leak_check.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/traces.h"

namespace caisson::test {
namespace {

// Its write end closes when this program ends, and with it ends whatever it left running.
struct Lifeline {
  Lifeline() { opened = ::pipe2(ends.data(), O_CLOEXEC) == 0; }
  void wait_in_child() const {
    ::close(ends[1]);
    char byte = 0;
    [[maybe_unused]] const ssize_t got = ::read(ends[0], &byte, 1);
    ::_exit(0);
  }
  std::array<int, 2> ends{};
  bool opened = false;
};
const Lifeline lifeline;

TEST(Leaky, Nothing) {
  const TemporaryDirectory directory;
  std::ofstream(directory / "file") << "x";
  std::thread([] {}).join();
  if (const pid_t child = ::fork(); child == 0) {
    ::_exit(0);
  } else {
    ::waitpid(child, nullptr, 0);
  }
  ::close(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

TEST(Leaky, Descriptor) { EXPECT_GE(::open("/dev/null", O_RDONLY | O_CLOEXEC), 0); }

TEST(Leaky, DescriptorOpenedForGood) { EXPECT_GE(::open("/dev/urandom", O_RDONLY | O_CLOEXEC), 0); }

TEST(Leaky, DescriptorOpenedForGoodTwice) {
  EXPECT_GE(::open("/dev/urandom", O_RDONLY | O_CLOEXEC), 0);
  EXPECT_GE(::open("/dev/urandom", O_RDONLY | O_CLOEXEC), 0);
}

TEST(Leaky, Thread) {
  std::thread([] {
    char byte = 0;
    [[maybe_unused]] const ssize_t got = ::read(lifeline.ends[0], &byte, 1);
  }).detach();
}

TEST(Leaky, Child) {
  if (::fork() == 0) {
    lifeline.wait_in_child();
  }
}

TEST(Leaky, Zombie) {
  if (::fork() == 0) {
    ::_exit(0);
  }
}

// Not our child: whoever adopts orphans has it.
TEST(Leaky, StrayProcess) {
  const TemporaryDirectory directory;
  if (const pid_t child = ::fork(); child == 0) {
    if (::chdir(directory.path().c_str()) == 0 && ::fork() == 0) {
      lifeline.wait_in_child();
    }
    ::_exit(0);
  } else {
    ::waitpid(child, nullptr, 0);
  }
}

TEST(Leaky, TemporaryFile) {
  std::filesystem::create_directory(temporary_base());
  std::ofstream(temporary_base() + "/left") << "x";
}

// The directory comes in LEAKY_CGROUP.
TEST(Leaky, Cgroup) {
  const std::string name = std::string(::getenv("LEAKY_CGROUP")) + "/" + std::to_string(::getpid()) + "-left";
  EXPECT_EQ(::mkdir(name.c_str(), 0755), 0) << name;
}

// The mount goes with this program's mount namespace.
TEST(Leaky, Mount) { EXPECT_EQ(::mount("none", "/mnt", "tmpfs", 0, nullptr), 0); }

class LeakyNamespace : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    ASSERT_EQ(::unshare(CLONE_NEWNET | (::geteuid() == 0 ? 0 : CLONE_NEWUSER)), 0) << std::strerror(errno);
  }
};

// A veth pair, in a network namespace of this program's.
TEST_F(LeakyNamespace, Interface) {
  struct {
    nlmsghdr header;
    ifinfomsg link;
    rtattr info;
    rtattr kind;
    std::array<char, 4> name;
  } request{};
  request.kind = {RTA_LENGTH(4), IFLA_INFO_KIND};
  request.name = {'v', 'e', 't', 'h'};
  request.info = {RTA_LENGTH(RTA_LENGTH(4)), IFLA_LINKINFO};
  request.header.nlmsg_len = sizeof request;
  request.header.nlmsg_type = RTM_NEWLINK;
  request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK;
  const int socket = ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
  ASSERT_EQ(::send(socket, &request, sizeof request, 0), static_cast<ssize_t>(sizeof request));
  struct {
    nlmsghdr header;
    nlmsgerr answer;
  } reply{};
  ASSERT_GT(::recv(socket, &reply, sizeof reply, 0), 0);
  EXPECT_EQ(reply.answer.error, 0) << std::strerror(-reply.answer.error);
  ::close(socket);
}

class LeakySuite : public testing::Test {
 protected:
  static void SetUpTestSuite() { EXPECT_GE(::open("/dev/null", O_RDONLY | O_CLOEXEC), 0); }
};
TEST_F(LeakySuite, Passes) {}

}  // namespace
}  // namespace caisson::test

// Not the main of every test program: here it is known what leaks, and waiting for it to go would only take
// time.
int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  caisson::test::isolate_mounts();
  caisson::test::install_leak_check(std::chrono::milliseconds(300));
  return RUN_ALL_TESTS();
}
