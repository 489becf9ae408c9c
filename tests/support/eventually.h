// eventually: for what the kernel makes true in a moment.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

namespace caisson::test {

/// Whether `predicate()` becomes true within `patience`; asks again after 1 ms, then at growing intervals of
/// up to 20 ms. For `EXPECT_TRUE(eventually(...))`: a test waits for the thing itself, never for a time.
template <class Predicate>
bool eventually(Predicate predicate, std::chrono::milliseconds patience = std::chrono::seconds(10)) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  auto pause = std::chrono::milliseconds(1);
  while (!predicate()) {
    if (std::chrono::steady_clock::now() >= deadline) {
      return static_cast<bool>(predicate());
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::milliseconds(20));
  }
  return true;
}

}  // namespace caisson::test
