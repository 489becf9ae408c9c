// This process's identity.
#include "os/identity.h"

#include <fcntl.h>
#include <pwd.h>
#include <unistd.h>

#include <charconv>
#include <vector>

#include "os/clock.h"
#include "os/fd.h"

namespace caisson::os {
namespace {

std::uint64_t own_start_time() {
  const Fd file = Fd::adopt(::open("/proc/self/stat", O_RDONLY | O_CLOEXEC));
  if (!file) return 0;
  const Result<std::string> stat = read_all(file, 4096);
  if (!stat) return 0;
  // The name, field 2, stands in parentheses and may hold anything; field 3 follows the last one.
  std::size_t at = stat->rfind(')');
  for (int field = 2; field < 22 && at != std::string::npos; ++field) at = stat->find(' ', at + 1);
  std::uint64_t ticks = 0;
  if (at != std::string::npos) std::from_chars(stat->data() + at + 1, stat->data() + stat->size(), ticks);
  return ticks;
}

}  // namespace

ProcessIdentity own_identity() { return {::getpid(), own_start_time(), boot_id()}; }

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
