// Tests of Unix sockets: bytes with descriptors, whole and cut short, and sockets by name.
#include "os/socket.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <thread>

#include "os/beneath.h"
#include "os/files.h"
#include "tests/support/temporary_directory.h"

namespace caisson::os {
namespace {

constexpr std::string_view hello = "hello";

bool is_close_on_exec(FdRef fd) { return (::fcntl(fd.number, F_GETFD) & FD_CLOEXEC) != 0; }

bool same_file(FdRef one, FdRef other) {
  return status(one)->st_ino == status(other)->st_ino && status(one)->st_dev == status(other)->st_dev;
}

std::vector<FdRef> many(FdRef fd, std::size_t count) { return std::vector<FdRef>(count, fd); }

// The numbers that are open in this process.
std::size_t open_descriptors() {
  const Fd directory = Fd::adopt(::open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return names_in(directory)->size();
}

TEST(Socket, PairCarriesBytesBothWaysAndIsCloseOnExec) {
  auto pair = make_socket_pair();
  ASSERT_TRUE(pair);
  EXPECT_TRUE(is_close_on_exec(pair->first));
  EXPECT_TRUE(is_close_on_exec(pair->second));
  std::array<char, 16> buffer;
  std::vector<Fd> descriptors;
  EXPECT_EQ(send_message(pair->first, hello).value(), hello.size());
  EXPECT_EQ(receive_message(pair->second, buffer, descriptors).value(), hello.size());
  EXPECT_EQ(std::string_view(buffer.data(), hello.size()), hello);
  EXPECT_EQ(send_message(pair->second, "ok").value(), 2U);
  EXPECT_EQ(receive_message(pair->first, buffer, descriptors).value(), 2U);
  EXPECT_TRUE(descriptors.empty());
  pair->first.reset();
  EXPECT_EQ(receive_message(pair->second, buffer, descriptors).value(), 0U) << "the end of the stream";
  EXPECT_EQ(send_message(pair->second, "x").error(), error_of(EPIPE)) << "and no SIGPIPE";
}

TEST(Socket, DescriptorsComeWithTheFirstByte) {
  auto pair = make_socket_pair();
  auto pipe = make_pipe();
  const FdRef both[] = {pipe->read, pipe->write};
  ASSERT_TRUE(send_message(pair->first, "before"));
  ASSERT_EQ(send_message(pair->first, hello, both).value(), hello.size());
  ASSERT_TRUE(send_message(pair->first, "after"));
  std::vector<Fd> descriptors;
  std::array<char, 6> before;
  ASSERT_EQ(receive_message(pair->second, before, descriptors).value(), before.size());
  EXPECT_TRUE(descriptors.empty());
  std::array<char, 64> buffer;
  // What was sent later is not mixed into a message with descriptors.
  ASSERT_EQ(receive_message(pair->second, buffer, descriptors).value(), hello.size());
  ASSERT_EQ(descriptors.size(), 2U);
  for (const Fd& descriptor : descriptors) {
    EXPECT_TRUE(is_close_on_exec(descriptor));
    EXPECT_GE(descriptor.number(), 3);
  }
  EXPECT_TRUE(same_file(descriptors[0], pipe->read));
  pipe->write.reset();
  ASSERT_TRUE(write_all(descriptors[1], "through"));
  descriptors.pop_back();
  EXPECT_EQ(read_all(pipe->read, 64).value(), "through");
}

TEST(Socket, ManyBytesGoWholeOnABlockingSocket) {
  auto pair = make_socket_pair();
  const std::string bytes(1 << 20, 'b');
  std::string got;
  std::thread reader([&] { got = read_all(pair->second, bytes.size()).value(); });
  EXPECT_EQ(send_message(pair->first, bytes).value(), bytes.size());
  pair->first.reset();
  reader.join();
  EXPECT_EQ(got, bytes);
}

TEST(Socket, FullNonBlockingSocketSaysHowMuchWent) {
  auto pair = make_socket_pair();
  ASSERT_EQ(::fcntl(pair->first.number(), F_SETFL, O_NONBLOCK), 0);
  const Fd null = Fd::adopt(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const FdRef one[] = {null};
  const std::string bytes(8 << 20, 'b');
  const auto sent = send_message(pair->first, bytes, one);
  ASSERT_TRUE(sent);
  EXPECT_GT(*sent, 0U);
  EXPECT_LT(*sent, bytes.size());
  EXPECT_EQ(send_message(pair->first, "more", one).error(), error_of(EAGAIN));
  pair->first.reset();
  std::vector<Fd> descriptors;
  std::vector<char> buffer(1 << 16);
  std::size_t received = 0;
  for (;;) {
    const auto count = receive_message(pair->second, buffer, descriptors);
    ASSERT_TRUE(count);
    if (*count == 0) break;
    received += *count;
  }
  EXPECT_EQ(received, *sent);
  EXPECT_EQ(descriptors.size(), 1U) << "sent once, whatever the number of sends";
}

// A signal cuts a send in two, of which the second must not carry the descriptors again.
TEST(Socket, InterruptedSendGoesOnWithoutTheDescriptors) {
  struct sigaction handle{};
  struct sigaction before{};
  handle.sa_handler = [](int) {};
  ::sigaction(SIGUSR1, &handle, &before);
  auto pair = make_socket_pair();
  const Fd null = Fd::adopt(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const FdRef one[] = {null};
  const std::string bytes(8 << 20, 'b');
  std::thread sender([&] { EXPECT_EQ(send_message(pair->first, bytes, one).value(), bytes.size()); });
  std::vector<Fd> descriptors;
  std::vector<char> buffer(1 << 16);
  std::size_t received = 0;
  while (received < bytes.size()) {
    ::pthread_kill(sender.native_handle(), SIGUSR1);
    received += receive_message(pair->second, buffer, descriptors).value();
  }
  sender.join();
  ::sigaction(SIGUSR1, &before, nullptr);
  EXPECT_EQ(received, bytes.size());
  EXPECT_EQ(descriptors.size(), 1U);
}

TEST(Socket, TooManyDescriptorsAreAnErrorAndNoneStaysOpen) {
  auto pair = make_socket_pair();
  const Fd null = Fd::adopt(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  std::array<char, 16> buffer;
  std::vector<Fd> descriptors;
  // The most that may come.
  ASSERT_TRUE(send_message(pair->first, hello, many(null, most_descriptors_sent)));
  ASSERT_TRUE(receive_message(pair->second, buffer, descriptors));
  EXPECT_EQ(descriptors.size(), most_descriptors_sent);
  descriptors.clear();
  EXPECT_EQ(send_message(pair->first, hello, many(null, most_descriptors_sent + 1)).error(),
            error_of(EMSGSIZE));
  EXPECT_EQ(send_message(pair->first, "", many(null, 1)).error(), error_of(EINVAL));

  // A peer that sends more than the protocol knows.
  const std::size_t before = open_descriptors();
  int numbers[most_descriptors_sent + 2];
  for (int& number : numbers) number = null.number();
  union {
    cmsghdr header;
    char bytes[CMSG_SPACE(sizeof numbers)];
  } control{};
  char byte = 'x';
  iovec data{&byte, 1};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  control.header.cmsg_level = SOL_SOCKET;
  control.header.cmsg_type = SCM_RIGHTS;
  control.header.cmsg_len = CMSG_LEN(sizeof numbers);
  std::memcpy(CMSG_DATA(&control.header), numbers, sizeof numbers);
  ASSERT_EQ(::sendmsg(pair->first.number(), &message, 0), 1);
  EXPECT_EQ(receive_message(pair->second, buffer, descriptors).error(), error_of(EMSGSIZE));
  EXPECT_TRUE(descriptors.empty());
  EXPECT_EQ(open_descriptors(), before);
}

TEST(Socket, NoRoomForDescriptorsIsAnErrorAndNoneStaysOpen) {
  auto pair = make_socket_pair();
  const Fd null = Fd::adopt(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  std::array<char, 16> buffer;
  std::vector<Fd> descriptors;
  ASSERT_TRUE(send_message(pair->first, hello, many(null, 4)));
  const std::size_t before = open_descriptors();
  struct rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  // The lowest number that is free, and one more.
  const Fd free = duplicate(null).value();
  const struct rlimit tight{static_cast<rlim_t>(free.number()) + 2, limit.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &tight);
  const auto received = receive_message(pair->second, buffer, descriptors);
  ::setrlimit(RLIMIT_NOFILE, &limit);
  EXPECT_EQ(received.error(), error_of(EMFILE));
  EXPECT_TRUE(descriptors.empty());
  EXPECT_EQ(open_descriptors(), before + 1);
}

[[noreturn]] void receive_without_standard_streams() {
  auto pair = make_socket_pair();
  for (int number = 0; number < 3; ++number) ::close(number);
  if (!send_message(pair->first, hello, many(pair->first, 4))) _exit(1);
  std::array<char, 16> buffer;
  std::vector<Fd> descriptors;
  if (!receive_message(pair->second, buffer, descriptors) || descriptors.size() != 4) _exit(2);
  for (const Fd& descriptor : descriptors) {
    if (descriptor.number() < 3 || !is_close_on_exec(descriptor)) _exit(3);
  }
  _exit(0);
}

TEST(SocketDeathTest, ReceivedDescriptorsAreNoStandardStreams) {
  EXPECT_EXIT(receive_without_standard_streams(), testing::ExitedWithCode(0), "");
}

// --- by name
// ------------------------------------------------------------------------------------------------------

TEST(Socket, NameInADeepDirectoryIsBoundListenedAtAndConnectedTo) {
  const test::TemporaryDirectory temporary;
  const std::string deep = temporary / std::string(150, 'd');
  ASSERT_EQ(::mkdir(deep.c_str(), 0755), 0);
  const Fd directory = open_directory(deep).value();
  EXPECT_EQ(connect_socket_at(directory, "control").error(), error_of(ENOENT));
  const auto listener = bind_socket_at(directory, "control", 0600);
  ASSERT_TRUE(listener);
  EXPECT_TRUE(is_close_on_exec(*listener));
  EXPECT_EQ(status_at(directory, "control")->st_mode, mode_t{S_IFSOCK | 0600});
  EXPECT_EQ(connect_socket_at(directory, "control").error(), error_of(ECONNREFUSED)) << "not listening yet";
  EXPECT_EQ(bind_socket_at(directory, "control", 0600).error(), error_of(EADDRINUSE));
  ASSERT_TRUE(listen_on(*listener));
  EXPECT_EQ(accept_from(*listener).error(), error_of(EAGAIN));
  const auto client = connect_socket_at(directory, "control");
  ASSERT_TRUE(client);
  const auto server = accept_from(*listener);
  ASSERT_TRUE(server);
  EXPECT_TRUE(is_close_on_exec(*client));
  EXPECT_TRUE(is_close_on_exec(*server));
  ASSERT_TRUE(send_message(*client, hello));
  std::array<char, 16> buffer;
  std::vector<Fd> descriptors;
  EXPECT_EQ(receive_message(*server, buffer, descriptors).value(), hello.size());
  EXPECT_EQ(receive_message(*server, buffer, descriptors).error(), error_of(EAGAIN)) << "nobody waits";
}

TEST(Socket, NamesThatCannotBeAreRefused) {
  const test::TemporaryDirectory temporary;
  const Fd directory = open_directory(temporary.path()).value();
  EXPECT_TRUE(bind_socket_at(directory, std::string(80, 'n'), 0600));
  EXPECT_EQ(bind_socket_at(directory, std::string(120, 'n'), 0600).error(), error_of(ENAMETOOLONG));
  for (const std::string& name : {std::string(), std::string("a/b"), std::string("a\0b", 3)}) {
    EXPECT_EQ(bind_socket_at(directory, name, 0600).error(), error_of(EINVAL));
    EXPECT_EQ(connect_socket_at(directory, name).error(), error_of(EINVAL));
  }
}

TEST(Socket, PeerIsWhoListenedLastAndWhoConnected) {
  const test::TemporaryDirectory temporary;
  const Fd directory = open_directory(temporary.path()).value();
  const auto listener = bind_socket_at(directory, "s", 0600);
  ASSERT_TRUE(listen_on(*listener));
  const auto before = connect_socket_at(directory, "s");
  EXPECT_EQ(peer_credentials(*before)->pid, ::getpid());
  EXPECT_EQ(peer_credentials(*before)->uid, ::geteuid());
  EXPECT_EQ(peer_credentials(*before)->gid, ::getegid());
  const pid_t child = ::fork();
  if (child == 0) _exit(listen_on(*listener) ? 0 : 1);
  int end = 0;
  ASSERT_EQ(::waitpid(child, &end, 0), child);
  ASSERT_EQ(end, 0);
  const auto after = connect_socket_at(directory, "s");
  EXPECT_EQ(peer_credentials(*after)->pid, child) << "the process that took the listener over";
  const auto server = accept_from(*listener);
  EXPECT_EQ(peer_credentials(*server)->pid, ::getpid());
}

}  // namespace
}  // namespace caisson::os
