// The shim program as an executable memory file.
#include "os/shim_program.h"

#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>

#include <mutex>

#include "os/files.h"
#include "os/shim_image.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U  // Linux 6.3
#endif

namespace caisson::os {
namespace {

Result<Fd> make_image() noexcept {
  constexpr unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  int number = ::memfd_create("caisson-shim", flags | MFD_EXEC);
  if (number < 0 && errno == EINVAL) number = ::memfd_create("caisson-shim", flags);
  if (number < 0) return last_error();
  auto file = clear_of_standard_streams(Fd::adopt(number));
  if (!file) return file.error();
  const auto written = write_all(*file, shim_image());
  if (!written) return written.error();
  if (::fcntl(file->number(), F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) != 0) {
    return last_error();
  }
  // execve(2) refuses a file that is open for writing (ETXTBSY), on some kernels memory files too.
  Fd readable = Fd::adopt(::open(self_path(*file).data(), O_RDONLY | O_CLOEXEC));
  if (!readable) return last_error();
  return clear_of_standard_streams(std::move(readable));
}

}  // namespace

Result<FdRef> shim_program() noexcept {
  static std::mutex mutex;
  static Fd image;
  const std::lock_guard lock(mutex);
  if (!image) {
    auto made = make_image();
    if (!made) return made.error();
    image = std::move(*made);
  }
  const FdRef program = image;
  return program;
}

}  // namespace caisson::os
