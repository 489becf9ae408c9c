// This process's identity.
#include "os/identity.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <vector>

#include "os/clock.h"
#include "os/fd.h"
#include "os/process_stat.h"

namespace caisson::os {
namespace {

std::uint64_t own_start_time() {
  const Fd file = Fd::adopt(::open("/proc/self/stat", O_RDONLY | O_CLOEXEC));
  if (!file) return 0;
  const Result<std::string> stat = read_all(file, 4096);
  if (!stat) return 0;
  return stat_number<std::uint64_t>(*stat, 22).value_or(0);
}

}  // namespace

ProcessIdentity own_identity() {
  struct stat is = {};
  const bool known = ::stat("/proc/self/ns/cgroup", &is) == 0;
  return {::getpid(), own_start_time(), boot_id(), known ? is.st_ino : 0};
}

Result<std::string> home_directory() {
  std::vector<char> buffer(1024);
  for (;;) {
    passwd entry = {};
    passwd* found = nullptr;
    const int error = ::getpwuid_r(::geteuid(), &entry, buffer.data(), buffer.size(), &found);
    if (error == 0 && found == nullptr) return error_of(ENOENT);
    if (error == 0) return std::string(entry.pw_dir);
    if (error != ERANGE && error != EINTR) return error_of(error);
    if (error == ERANGE) buffer.resize(buffer.size() * 2);
  }
}

}  // namespace caisson::os
