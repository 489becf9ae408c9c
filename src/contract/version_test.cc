// The version's three forms agree.
#include "caisson/version.h"

#include <gtest/gtest.h>

#include <string>

namespace caisson {
namespace {

TEST(Version, LibraryAndHeaderAgree) {
  const std::string parts = std::to_string(CAISSON_VERSION_MAJOR) + "." +
                            std::to_string(CAISSON_VERSION_MINOR) + "." +
                            std::to_string(CAISSON_VERSION_PATCH);
  EXPECT_EQ(parts, CAISSON_VERSION_STRING);
  EXPECT_EQ(parts, version());
}

TEST(Version, Orders) {
  EXPECT_EQ(CAISSON_VERSION,
            10000 * CAISSON_VERSION_MAJOR + 100 * CAISSON_VERSION_MINOR + CAISSON_VERSION_PATCH);
  EXPECT_LT(CAISSON_VERSION_MINOR, 100);
  EXPECT_LT(CAISSON_VERSION_PATCH, 100);
}

}  // namespace
}  // namespace caisson
