// The links of /proc/PID/ns.
#include "os/namespaces.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>

#include <array>
#include <charconv>
#include <cstdio>
#include <string_view>

namespace caisson::os {
namespace {

const char* name_of(std::uint64_t kind) noexcept {
  switch (kind) {
    case CLONE_NEWUSER:
      return "user";
    case CLONE_NEWNS:
      return "mnt";
    case CLONE_NEWPID:
      return "pid";
    case CLONE_NEWNET:
      return "net";
    case CLONE_NEWIPC:
      return "ipc";
    case CLONE_NEWUTS:
      return "uts";
    case CLONE_NEWCGROUP:
      return "cgroup";
    case CLONE_NEWTIME:
      return "time";
    default:
      return nullptr;
  }
}

using Path = std::array<char, 64>;

Result<Fd> open_link(const char* path) noexcept {
  const int number = ::open(path, O_RDONLY | O_CLOEXEC);
  if (number < 0) return last_error();
  return clear_of_standard_streams(Fd::adopt(number));
}

// The process of a pidfd, from its "Pid:" line (pidfd_open(2), proc_pid_fdinfo(5)); -1 when it has ended and
// was reaped, 0 when it is in none of our PID namespaces.
Result<int> number_of(FdRef pidfd) noexcept {
  Path path{};
  std::snprintf(path.data(), path.size(), "/proc/self/fdinfo/%d", pidfd.number);
  const Fd file = Fd::adopt(::open(path.data(), O_RDONLY | O_CLOEXEC));
  if (!file) return errno == ENOENT ? error_of(EBADF) : last_error();
  std::array<char, 512> buffer;
  const auto count = read_some(file, buffer.data(), buffer.size());
  if (!count) return count.error();
  const std::string_view text(buffer.data(), *count);
  constexpr std::string_view key = "\nPid:\t";
  const std::size_t at = text.find(key);
  int number = 0;
  if (at == std::string_view::npos) return error_of(EBADF);
  std::from_chars(text.data() + at + key.size(), text.data() + text.size(), number);
  return number;
}

bool has_ended(FdRef pidfd) noexcept {
  pollfd end{pidfd.number, POLLIN, 0};
  return ::poll(&end, 1, 0) != 0;
}

}  // namespace

Result<Fd> open_namespace(FdRef pidfd, std::uint64_t kind) noexcept {
  const char* const name = name_of(kind);
  if (name == nullptr) return error_of(EINVAL);
  const auto number = number_of(pidfd);
  if (!number) return number.error();
  if (*number <= 0) return error_of(ESRCH);
  Path path{};
  std::snprintf(path.data(), path.size(), "/proc/%d/ns/%s", *number, name);
  auto opened = open_link(path.data());
  // As long as the process lives nobody else has its number.
  if (has_ended(pidfd)) return error_of(ESRCH);
  return opened;
}

Result<Fd> open_own_namespace(std::uint64_t kind) noexcept {
  const char* const name = name_of(kind);
  if (name == nullptr) return error_of(EINVAL);
  Path path{};
  std::snprintf(path.data(), path.size(), "/proc/self/ns/%s", name);
  return open_link(path.data());
}

}  // namespace caisson::os
