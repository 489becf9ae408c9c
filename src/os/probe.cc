// What this kernel can do, found out by doing.
#include "os/probe.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <charconv>

#include "os/fd.h"
#include "os/pidfd_info.h"

namespace caisson::os {
namespace {

Result<void> outcome_of(long returned) noexcept {
  if (returned < 0) return last_error();
  return {};
}

Result<Fd> own_pidfd() noexcept {
  const long number = ::syscall(SYS_pidfd_open, ::getpid(), 0);
  if (number < 0) return last_error();
  return Fd::adopt(static_cast<int>(number));
}

Result<void> try_openat2() noexcept {
  open_how how{};
  how.flags = O_PATH | O_CLOEXEC;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  const Fd root = Fd::adopt(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!root) return last_error();
  const long number = ::syscall(SYS_openat2, root.number(), ".", &how, sizeof how);
  const Fd opened = Fd::adopt(number < 0 ? -1 : static_cast<int>(number));
  return outcome_of(number);
}

// Flags that contradict each other: the kernel that has clone3 answers EINVAL before it makes anything.
Result<void> try_clone3() noexcept {
  clone_args args{};
  args.flags = CLONE_SIGHAND;
  if (::syscall(SYS_clone3, &args, sizeof args) < 0 && errno == EINVAL) return {};
  return last_error();
}

Result<void> try_pidfd() noexcept {
  auto pidfd = own_pidfd();
  if (!pidfd) return pidfd.error();
  return outcome_of(::syscall(SYS_pidfd_send_signal, pidfd->number(), 0, nullptr, 0));
}

Result<void> try_close_range() noexcept {
  constexpr unsigned none = ~0U;
  return outcome_of(::syscall(SYS_close_range, none, none, 0));
}

// A live process has no exit to tell, so the call answers 0 whether or not the kernel knows the flag: the
// version decides once the call itself works.
Result<void> try_pidfd_exit_info() noexcept {
  auto pidfd = own_pidfd();
  if (!pidfd) return pidfd.error();
  PidfdInfo info{};
  info.mask = pidfd_info_exit;
  if (::ioctl(pidfd->number(), pidfd_get_info, &info) != 0) {
    // No pidfd has the call before Linux 6.13.
    return errno == ENOTTY ? error_of(ENOSYS) : last_error();
  }
  if (parse_kernel_version(kernel_release()) < KernelVersion{6, 15}) return error_of(ENOSYS);
  return {};
}

}  // namespace

std::string kernel_release() {
  utsname name{};
  return ::uname(&name) == 0 ? std::string(name.release) : std::string();
}

KernelVersion parse_kernel_version(std::string_view release) noexcept {
  KernelVersion version{0, 0};
  const char* const end = release.data() + release.size();
  const auto first = std::from_chars(release.data(), end, version.major);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != '.') return {0, 0};
  const auto second = std::from_chars(first.ptr + 1, end, version.minor);
  return second.ec == std::errc() ? version : KernelVersion{0, 0};
}

std::vector<KernelFeature> probe_kernel() {
  return {
      {"openat2", {5, 6}, true, try_openat2()},
      {"clone3", {5, 3}, true, try_clone3()},
      {"pidfd", {5, 4}, true, try_pidfd()},
      {"close_range", {5, 9}, true, try_close_range()},
      {"pidfd_exit_info", {6, 15}, false, try_pidfd_exit_info()},
  };
}

std::string missing_requirement(const std::vector<KernelFeature>& features) {
  for (const KernelFeature& feature : features) {
    if (!feature.required || feature.works) continue;
    if (feature.works.error() == error_of(EMFILE) || feature.works.error() == error_of(ENFILE)) {
      return std::string(feature.name) + " cannot be tried: " + feature.works.error().message() +
             "; raise the limit of descriptors (ulimit -n)";
    }
    return "Linux " + kernel_release() + " does not give us " + std::string(feature.name) + " (" +
           feature.works.error().message() + "), which Caisson needs and every Linux has from " +
           std::to_string(feature.since.major) + "." + std::to_string(feature.since.minor) +
           " on; a seccomp filter around this process may be what takes it away";
  }
  return {};
}

}  // namespace caisson::os
