// The checks of the suite as a test program's parameters.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "caisson/kit/conformance.h"

namespace caisson::test {

inline std::vector<std::string> check_names() {
  std::vector<std::string> names;
  for (const kit::conformance::CheckInfo& info : kit::conformance::checks()) names.emplace_back(info.name);
  return names;
}

/// Whether a check is not run where the kernel or the user may not do what it takes (chattr, mknod).
inline bool needs_what_a_machine_may_lack(const std::string& check) {
  return check == "reap.goes_on_past_failure" || check == "files.devices";
}

/// A check's name as a test's.
inline std::string name_of(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  for (char& letter : name) {
    if (letter == '.') letter = '_';
  }
  return name;
}

}  // namespace caisson::test
