// Faults armed for the length of a scope.
#pragma once

#include <utility>
#include <vector>

#include "os/fault_point.h"

namespace caisson::test {

/// Arms faults as long as it lives; one at a time in a process.
class Faults {
 public:
  explicit Faults(std::vector<os::Fault> faults) { os::arm_faults(std::move(faults)); }
  ~Faults() { os::disarm_faults(); }
  Faults(const Faults&) = delete;
  Faults& operator=(const Faults&) = delete;
};

/// An error at the first passage of a point, at one that is not the first, or from the first on.
inline os::Fault error_at(const char* point, int error, std::size_t passage = 1) {
  return {point, error, passage, passage};
}
inline os::Fault error_always(const char* point, int error) { return {point, error, 1, ~std::size_t{0}}; }

}  // namespace caisson::test
