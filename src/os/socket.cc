// Unix stream sockets and SCM_RIGHTS.
#include "os/socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cstdio>
#include <cstring>

namespace caisson::os {
namespace {

union ControlBuffer {
  cmsghdr alignment;
  char bytes[CMSG_SPACE(most_descriptors_sent * sizeof(int))];
};

Result<std::size_t> send_once(FdRef socket, std::string_view bytes,
                              std::span<const FdRef> descriptors) noexcept {
  iovec data{const_cast<char*>(bytes.data()), bytes.size()};
  ControlBuffer control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    message.msg_control = control.bytes;
    message.msg_controllen = CMSG_SPACE(descriptors.size() * sizeof(int));
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
    for (std::size_t i = 0; i < descriptors.size(); ++i) {
      std::memcpy(CMSG_DATA(header) + i * sizeof(int), &descriptors[i].number, sizeof(int));
    }
  }
  for (;;) {
    const ssize_t count = ::sendmsg(socket.number, &message, MSG_NOSIGNAL);
    if (count >= 0) return static_cast<std::size_t>(count);
    if (errno != EINTR) return last_error();
  }
}

// Takes every descriptor out of a control message, so that each has an owner whatever comes next.
void adopt_descriptors(msghdr& message, std::vector<Fd>& descriptors) {
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(header) + i * sizeof number, sizeof number);
      descriptors.push_back(Fd::adopt(number));
    }
  }
}

// The path of a name in a directory that is given by descriptor: the calls for sockets take no directory.
Result<sockaddr_un> address_in(FdRef directory, const std::string& name) noexcept {
  if (name.empty() || name.find('/') != std::string::npos || name.find('\0') != std::string::npos) {
    return error_of(EINVAL);
  }
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const int size = std::snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%s",
                                 directory.number, name.c_str());
  if (size < 0 || static_cast<std::size_t>(size) >= sizeof address.sun_path) return error_of(ENAMETOOLONG);
  return address;
}

Result<Fd> new_socket() noexcept {
  const int number = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (number < 0) return last_error();
  return spare_descriptor(Fd::adopt(number));
}

const sockaddr* generic(const sockaddr_un& address) noexcept {
  return reinterpret_cast<const sockaddr*>(&address);
}

}  // namespace

Result<SocketPair> make_socket_pair() noexcept {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return last_error();
  Fd one = Fd::adopt(ends[0]);
  Fd other = Fd::adopt(ends[1]);
  auto first = spare_descriptor(std::move(one));
  if (!first) return first.error();
  auto second = spare_descriptor(std::move(other));
  if (!second) return second.error();
  return SocketPair{std::move(*first), std::move(*second)};
}

Result<std::size_t> send_message(FdRef socket, std::string_view bytes,
                                 std::span<const FdRef> descriptors) noexcept {
  if (descriptors.size() > most_descriptors_sent) return error_of(EMSGSIZE);
  if (bytes.empty() && !descriptors.empty()) return error_of(EINVAL);
  std::size_t sent = 0;
  while (sent < bytes.size()) {
    const auto count =
        send_once(socket, bytes.substr(sent), sent == 0 ? descriptors : std::span<const FdRef>());
    if (!count) {
      if (sent > 0 && count.error() == error_of(EAGAIN)) return sent;
      return count.error();
    }
    sent += *count;
  }
  return sent;
}

Result<std::size_t> receive_message(FdRef socket, std::span<char> buffer, std::vector<Fd>& descriptors) {
  std::vector<Fd> came;
  came.reserve(most_descriptors_sent);
  descriptors.reserve(descriptors.size() + most_descriptors_sent);
  iovec data{buffer.data(), buffer.size()};
  ControlBuffer control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  ssize_t count;
  do {
    count = ::recvmsg(socket.number, &message, MSG_CMSG_CLOEXEC);
  } while (count < 0 && errno == EINTR);
  if (count < 0) return last_error();
  adopt_descriptors(message, came);
  // The kernel leaves out those that find no room in the buffer or in our table of descriptors.
  if ((message.msg_flags & MSG_CTRUNC) != 0) {
    return error_of(came.size() == most_descriptors_sent ? EMSGSIZE : EMFILE);
  }
  for (Fd& descriptor : came) {
    auto clear = clear_of_standard_streams(std::move(descriptor));
    if (!clear) return clear.error();
    descriptor = std::move(*clear);
  }
  for (Fd& descriptor : came) descriptors.push_back(std::move(descriptor));
  return static_cast<std::size_t>(count);
}

Result<Fd> bind_socket_at(FdRef directory, const std::string& name, mode_t mode) noexcept {
  const auto address = address_in(directory, name);
  if (!address) return address.error();
  auto socket = new_socket();
  if (!socket) return socket;
  // The name's file gets the mode that its socket has when it is bound: there is no moment of another one.
  if (::fchmod(socket->number(), mode) != 0) return last_error();
  if (::bind(socket->number(), generic(*address), sizeof *address) != 0) return last_error();
  return socket;
}

Result<void> listen_on(FdRef socket) noexcept {
  if (::listen(socket.number, SOMAXCONN) != 0) return last_error();
  return {};
}

Result<Fd> accept_from(FdRef listener) noexcept {
  for (;;) {
    const int number = ::accept4(listener.number, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (number >= 0) return spare_descriptor(Fd::adopt(number));
    if (errno != EINTR) return last_error();
  }
}

Result<Fd> connect_socket_at(FdRef directory, const std::string& name) noexcept {
  const auto address = address_in(directory, name);
  if (!address) return address.error();
  auto socket = new_socket();
  if (!socket) return socket;
  if (::connect(socket->number(), generic(*address), sizeof *address) != 0) return last_error();
  return socket;
}

Result<PeerCredentials> peer_credentials(FdRef socket) noexcept {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (::getsockopt(socket.number, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return last_error();
  return PeerCredentials{credentials.pid, credentials.uid, credentials.gid};
}

}  // namespace caisson::os
