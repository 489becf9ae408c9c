// RFC 3339 times, both ways.
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>

#include "caisson/contract/json.h"

namespace caisson {
namespace {

using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr seconds example(1767323045);  // 2026-01-02T03:04:05Z

TEST(Time, IsWrittenInMicroseconds) {
  EXPECT_EQ(format_time(UtcTime(example + nanoseconds(678901234))), "2026-01-02T03:04:05.678901Z");
  EXPECT_EQ(format_time(UtcTime(seconds(0))), "1970-01-01T00:00:00.000000Z");
  EXPECT_EQ(format_time(UtcTime(nanoseconds(-1))), "1969-12-31T23:59:59.999999Z");
  EXPECT_EQ(format_time(UtcTime(seconds(951782400))), "2000-02-29T00:00:00.000000Z");
  EXPECT_EQ(format_time(UtcTime::max()), "2262-04-11T23:47:16.854775Z");
  EXPECT_EQ(format_time(UtcTime::min()), "1677-09-21T00:12:43.145224Z");
}

TEST(Time, IsReadInAnyForm) {
  for (const char* text :
       {"2026-01-02T03:04:05Z", "2026-01-02t03:04:05z", "2026-01-02 03:04:05+00:00",
        "2026-01-02T04:34:05+01:30", "2026-01-01T23:04:05-04:00", "2026-01-02T03:04:05.0-00:00"}) {
    EXPECT_EQ(parse_time(text), UtcTime(example)) << text;
  }
  EXPECT_EQ(parse_time("2026-01-02T03:04:05.5Z"), UtcTime(example + nanoseconds(500000000)));
  EXPECT_EQ(parse_time("2026-01-02T03:04:05.678901234999Z"), UtcTime(example + nanoseconds(678901234)));
  EXPECT_EQ(parse_time("2016-12-31T23:59:60Z"), UtcTime(seconds(1483228800)));
  EXPECT_EQ(parse_time("2017-01-01T00:59:60+01:00"), UtcTime(seconds(1483228800)));
}

TEST(Time, WhatIsNoTimeIsRefused) {
  for (const char* text : {"",
                           "2026",
                           "2026-01-02",
                           "2026-01-02T03:04Z",
                           "2026-01-02T03:04:05",
                           "2026-1-2T03:04:05Z",
                           "2026-13-02T03:04:05Z",
                           "2026-00-02T03:04:05Z",
                           "2026-02-29T03:04:05Z",
                           "2026-01-02T24:00:00Z",
                           "2026-01-02T03:60:05Z",
                           "2026-01-02T03:04:61Z",
                           "2026-01-02T03:04:60Z",
                           "2026-01-02T03:04:05.Z",
                           "2026-01-02T03:04:05+0100",
                           "2026-01-02T03:04:05+24:00",
                           "2026-01-02T03:04:05Z ",
                           " 2026-01-02T03:04:05Z",
                           "2026-01-02T03:04:05ZZ",
                           "+026-01-02T03:04:05Z",
                           "2026-01-02T-3:04:05Z",
                           "1677-09-21T00:12:43Z",
                           "2262-04-11T23:47:17Z",
                           "9999-12-31T23:59:59Z",
                           "0000-01-01T00:00:00Z"}) {
    EXPECT_FALSE(parse_time(text)) << text;
  }
}

TEST(Time, WhatIsWrittenIsReadBack) {
  for (std::int64_t second = -8'000'000'000; second < 9'000'000'000; second += 12'345'679) {
    const UtcTime time(seconds(second) + std::chrono::microseconds(123456));
    ASSERT_EQ(parse_time(format_time(time)), time) << second;
  }
}

}  // namespace
}  // namespace caisson
