// A system call filter by the raw call: a static program need not link libseccomp for it.
#include "os/seccomp.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace caisson::os {

Result<void> install_seccomp(std::string_view program) noexcept {
  const std::size_t length = program.size() / sizeof(sock_filter);
  if (program.size() % sizeof(sock_filter) != 0 || length > BPF_MAXINSNS) return error_of(EINVAL);
  sock_fprog filter{};
  filter.len = static_cast<unsigned short>(length);
  // Only the kernel looks at it, which copies it byte by byte.
  filter.filter = static_cast<sock_filter*>(static_cast<void*>(const_cast<char*>(program.data())));
  if (::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) != 0) return last_error();
  return {};
}

}  // namespace caisson::os
