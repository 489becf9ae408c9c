// scaled: patience on a machine that is slower than the tests are written for.
#pragma once

#include <algorithm>
#include <cstdlib>

namespace caisson::test {

/// CAISSON_TEST_TIME_SCALE times as long; 1 where it is not set. For what a test waits at most, never for
/// what it measures.
template <class Duration>
Duration scaled(Duration patience) {
  const char* const scale = std::getenv("CAISSON_TEST_TIME_SCALE");
  return patience * (scale == nullptr ? 1 : std::max(1, std::atoi(scale)));
}

}  // namespace caisson::test
