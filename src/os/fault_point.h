// Fault points: named places at which tests end this process or make a call fail.
#pragma once

#include "os/result.h"

#ifdef CAISSON_FAULT_POINTS
#include <cstddef>
#include <map>
#include <string>
#include <vector>
#endif

namespace caisson::os {

// A name is a literal and stands at one place: tests/crash finds them in the source, and fails on one that no
// scenario of its passes. Dots part the phase from the step.

#ifdef CAISSON_FAULT_POINTS

/// Before a step that may fail: the error that a test has armed for this passage, else success. Thread-safe.
Result<void> fault_point(const char* name) noexcept;
/// Where nothing can fail, but the process may die.
void kill_point(const char* name) noexcept;

/// What strikes at a point, from one passage of it to another, counted from 1.
struct Fault {
  std::string point;
  int error = 0;  ///< The errno that the point gives; 0: the process dies there of SIGKILL.
  std::size_t first = 1;
  std::size_t last = first;
};
/// Replaces what was armed; passages are counted anew. None at all only counts them.
void arm_faults(std::vector<Fault> faults);
/// The points passed since, and how often; what was armed is no longer.
std::map<std::string, std::size_t> disarm_faults();

#else

inline Result<void> fault_point(const char*) noexcept { return {}; }
inline void kill_point(const char*) noexcept {}

#endif

}  // namespace caisson::os
