// How messages show user input.
#include "contract/quote.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace caisson {
namespace {

TEST(Quote, PlainTextStays) {
  EXPECT_EQ(quote("python3"), "\"python3\"");
  EXPECT_EQ(quote(""), "\"\"");
  EXPECT_EQ(quote("d\xc3\xa9j\xc3\xa0 \xe2\x82\xac \xf0\x9f\x98\x80"),
            "\"d\xc3\xa9j\xc3\xa0 \xe2\x82\xac \xf0\x9f\x98\x80\"");
}

TEST(Quote, ControlBytesAreEscaped) {
  EXPECT_EQ(quote("a\nb\r\t"), R"("a\nb\r\t")");
  EXPECT_EQ(quote("\x1b[31m\x7f"), R"("\x1b[31m\x7f")");
  EXPECT_EQ(quote(std::string_view("a\0b", 3)), R"("a\x00b")");
  EXPECT_EQ(quote("say \"hi\" \\"), R"("say \"hi\" \\")");
  EXPECT_EQ(quote("\xc2\x9b"), R"("\u{9b}")");
}

TEST(Quote, DirectionAndInvisibleCharactersAreEscaped) {
  EXPECT_EQ(quote("a\xe2\x80\xae"
                  "b"),
            R"("a\u{202e}b")");
  EXPECT_EQ(quote("\xe2\x80\xa8"), R"("\u{2028}")");
}

TEST(Quote, BytesThatAreNotUtf8AreEscaped) {
  EXPECT_EQ(quote("\xff\xe2\x82"), R"("\xff\xe2\x82")");
  EXPECT_EQ(quote("\xed\xa0\x80"), R"("\xed\xa0\x80")");
}

TEST(Quote, LongInputIsCutAtACharacter) {
  EXPECT_EQ(quote(std::string(80, 'x')), '"' + std::string(80, 'x') + '"');
  EXPECT_EQ(quote(std::string(81, 'x')), '"' + std::string(80, 'x') + "...\"");
  EXPECT_EQ(quote("\xe2\x82\xac\xe2\x82\xac", 1), "\"\xe2\x82\xac...\"");
  EXPECT_LT(quote(std::string(1 << 20, '\x01')).size(), 400U);
}

TEST(Quote, NumbersAreShortest) {
  EXPECT_EQ(plain_number(5), "5");
  EXPECT_EQ(plain_number(0.1), "0.1");
  EXPECT_EQ(plain_number(-2.5), "-2.5");
  EXPECT_EQ(plain_number(std::numeric_limits<double>::quiet_NaN()), "nan");
  EXPECT_EQ(plain_number(-std::numeric_limits<double>::infinity()), "-inf");
  EXPECT_EQ(plain_number(std::numeric_limits<double>::denorm_min()), "5e-324");
}

}  // namespace
}  // namespace caisson
