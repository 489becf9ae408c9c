// Tests of /proc/PID/stat's fields.
#include "os/process_stat.h"

#include <gtest/gtest.h>

namespace caisson::os {
namespace {

TEST(ProcessStatTest, FieldsComeAfterAnyName) {
  constexpr std::string_view stat = "42 (a) b (c 7) S 1 42 -3\n";
  EXPECT_EQ(stat_field(stat, 3), "S");
  EXPECT_EQ(stat_field(stat, 4), "1");
  EXPECT_EQ(stat_field(stat, 6), "-3") << "the last one ends with the line";
  EXPECT_EQ(stat_field(stat, 7), "");
  EXPECT_EQ(stat_field(stat, 2), "");
  EXPECT_EQ(stat_field("no stat at all", 3), "");
  EXPECT_EQ(stat_number<int>(stat, 5), 42);
  EXPECT_EQ(stat_number<int>(stat, 3), std::nullopt) << "no number";
  EXPECT_EQ(stat_number<unsigned>(stat, 6), std::nullopt) << "not of that type";
  EXPECT_EQ(stat_number<int>(stat, 7), std::nullopt);
}

}  // namespace
}  // namespace caisson::os
