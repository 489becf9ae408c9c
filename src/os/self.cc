// What this process is and was given.
#include "os/self.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

namespace caisson::os {

pid_t own_pid() noexcept { return ::getpid(); }

uid_t own_user() noexcept { return ::geteuid(); }

gid_t own_group() noexcept { return ::getegid(); }

bool is_root() noexcept { return ::geteuid() == 0; }

bool signal_is_ignored(int number) noexcept {
  struct sigaction present{};
  if (::sigaction(number, nullptr, &present) != 0) return false;
  return (present.sa_flags & SA_SIGINFO) == 0 && present.sa_handler == SIG_IGN;
}

void ignore_signal(int number) noexcept {
  struct sigaction ignore{};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(number, &ignore, nullptr);
}

void fill_standard_descriptors() noexcept {
  for (int number = 0; number <= 2; ++number) {
    if (::fcntl(number, F_GETFD) >= 0) continue;
    // open(2) gives the lowest free number, which is this one: the ones below are open by now.
    if (::open("/dev/null", O_RDWR) != number) return;
  }
}

std::string own_object_path() {
  Dl_info info = {};
  static const char here = 0;
  if (::dladdr(&here, &info) == 0 || info.dli_fname == nullptr || info.dli_fname[0] != '/') return {};
  return info.dli_fname;
}

}  // namespace caisson::os
