// How the floor programs fail.
#pragma once

#include <cerrno>
#include <system_error>

namespace caisson::bench::floor {

/// Throws std::system_error of `number` when it did not work.
inline void require(bool ok, int number, const char* what) {
  if (!ok) throw std::system_error(number, std::generic_category(), what);
}

}  // namespace caisson::bench::floor
