// CLOCK_BOOTTIME, the boot id and random ids.
#include "os/clock.h"

#include <fcntl.h>
#include <sys/random.h>
#include <time.h>

#include <array>
#include <cerrno>
#include <cstdlib>

#include "os/fd.h"

namespace caisson::os {

namespace {

std::string read_boot_id() {
  constexpr std::size_t length = 36;
  const Fd file = Fd::adopt(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  if (!file) return {};
  auto text = read_all(file, 64);
  if (!text || text->size() < length) return {};
  text->resize(length);
  return std::move(*text);
}

}  // namespace

std::chrono::nanoseconds boottime() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

const std::string& boot_id() {
  static const std::string id = read_boot_id();
  return id;
}

std::string random_hex_id() {
  std::array<unsigned char, 16> bytes;
  // Up to 256 bytes come whole (getrandom(2)); only a signal that comes before the pool is seeded interrupts
  // it.
  while (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    if (errno != EINTR) std::abort();
  }
  constexpr char digits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const unsigned char byte : bytes) {
    text.push_back(digits[byte >> 4]);
    text.push_back(digits[byte & 15]);
  }
  return text;
}

}  // namespace caisson::os
