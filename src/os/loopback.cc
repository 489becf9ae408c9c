// The loopback interface, by the ioctls of a socket.
#include "os/loopback.h"

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "os/fd.h"

namespace caisson::os {

Result<void> bring_loopback_up() noexcept {
  const Fd socket = Fd::adopt(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket) return last_error();
  ifreq request{};
  request.ifr_name[0] = 'l';
  request.ifr_name[1] = 'o';
  if (::ioctl(socket.number(), SIOCGIFFLAGS, &request) != 0) return last_error();
  if ((request.ifr_flags & IFF_UP) != 0) return {};
  request.ifr_flags = static_cast<short>(request.ifr_flags | IFF_UP);
  if (::ioctl(socket.number(), SIOCSIFFLAGS, &request) != 0) return last_error();
  return {};
}

}  // namespace caisson::os
