// A system call filter by the raw call: a static program need not link libseccomp for it.
#include "os/seccomp.h"

#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace caisson::os {

Result<void> install_seccomp(std::string_view program) noexcept {
  const auto filter = filter_of(program);
  if (!filter) return filter.error();
  if (::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &*filter) != 0) return last_error();
  return {};
}

}  // namespace caisson::os
