// Unix stream sockets: pairs, sockets with a name, and descriptors sent along with bytes (unix(7)).
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "os/fd.h"

namespace caisson::os {

struct SocketPair {
  Fd first;
  Fd second;
};
/// socketpair(2), both ends blocking. In the reserve as make_pipe; no end is 0, 1 or 2.
Result<SocketPair> make_socket_pair() noexcept;

/// Descriptors that one message carries at most; more is EMSGSIZE.
inline constexpr std::size_t most_descriptors_sent = 8;

/// Sends `bytes`, and duplicates of `descriptors` with the first of them (SCM_RIGHTS): EINVAL for descriptors
/// without a byte. Returns how many bytes went, which on a blocking socket is all. On a non-blocking one it
/// may be fewer: then the descriptors are gone with them and the rest is to be sent without any; EAGAIN when
/// nothing went. A peer that is gone is EPIPE, without a SIGPIPE.
Result<std::size_t> send_message(FdRef socket, std::string_view bytes,
                                 std::span<const FdRef> descriptors = {}) noexcept;

/// One recvmsg(2), retried on EINTR: how many bytes came, 0 at the end of the stream. The descriptors that
/// came with them are added to `descriptors`, close-on-exec and none of them 0, 1 or 2; those of two messages
/// never come in one call. Where not all of a message's descriptors can be had (more than
/// most_descriptors_sent is EMSGSIZE, no room for them EMFILE) those that came are closed, and the bytes that
/// came with them are lost: nothing more can be made of the stream.
Result<std::size_t> receive_message(FdRef socket, std::span<char> buffer, std::vector<Fd>& descriptors);

/// A non-blocking socket bound to a new name in `directory`; it does not listen yet. The directory's own path
/// may be as long as it likes; `name` is one component of at most 80 bytes or so (ENAMETOOLONG), for sun_path
/// has 108. Its file has `mode` less the umask from the first moment. EADDRINUSE: there is something of that
/// name, perhaps a dead process's socket. The name is the caller's to remove.
Result<Fd> bind_socket_at(FdRef directory, const std::string& name, mode_t mode) noexcept;
/// listen(2), with the longest queue that the system allows. Peers see the credentials of who called it last.
Result<void> listen_on(FdRef socket) noexcept;
/// Accepts one connection, non-blocking; EAGAIN when there is none.
Result<Fd> accept_from(FdRef listener) noexcept;
/// A non-blocking socket connected to a name in `directory`, as bind_socket_at. ECONNREFUSED: nobody listens;
/// EAGAIN: the listener's queue is full. Never waits.
Result<Fd> connect_socket_at(FdRef directory, const std::string& name) noexcept;

/// The peer of a connected socket as its own namespaces' translation tells (SO_PEERCRED): who connected, who
/// listened, or who made the pair. `pid` is 0 when it is in none of our pid namespaces.
struct PeerCredentials {
  pid_t pid;
  uid_t uid;
  gid_t gid;
};
Result<PeerCredentials> peer_credentials(FdRef socket) noexcept;

}  // namespace caisson::os
