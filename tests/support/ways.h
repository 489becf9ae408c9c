// The two ways that trees are killed, as the parameters of tests.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "caisson/kit/host.h"
#include "tests/support/cgroups.h"

namespace caisson::test {

/// Those that can be had here: both, or where no cgroup can be made the shim alone.
inline std::vector<kit::TreeKill> ways_here() {
  if (writable_cgroup().empty()) return {kit::TreeKill::shim};
  return {kit::TreeKill::cgroup, kit::TreeKill::shim};
}

inline std::string name_of_way(const testing::TestParamInfo<kit::TreeKill>& way) {
  return std::string(kit::to_string(way.param));
}

}  // namespace caisson::test
