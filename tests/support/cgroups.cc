// Reads the list of mounts for a cgroup v2 hierarchy that this process may change.
#include "tests/support/cgroups.h"

#include <unistd.h>

#include <fstream>
#include <sstream>

namespace caisson::test {

std::string writable_cgroup() {
  std::ifstream file("/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::string skipped, point;
    fields >> skipped >> skipped >> skipped >> skipped >> point;
    if (line.find(" - cgroup2 ") != std::string::npos && ::access(point.c_str(), W_OK) == 0) return point;
  }
  return {};
}

void CgroupTest::SetUp() {
  if (writable_cgroup().empty()) GTEST_SKIP() << "no cgroup can be made here";
}

}  // namespace caisson::test
