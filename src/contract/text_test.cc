// Text views of bytes (S-49), against the Unicode standard's own examples and for every way of cutting a
// stream.
#include "caisson/contract/text.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace caisson {
namespace {

const std::string r = "\xef\xbf\xbd";

struct Case {
  std::string bytes;
  std::string text;
};

// Tables 3-8 to 3-11 of Unicode 15 and their neighbours.
const std::vector<Case> cases = {
    {"", ""},
    {"plain ascii that is longer than eight bytes", "plain ascii that is longer than eight bytes"},
    {std::string("a\0b", 3), std::string("a\0b", 3)},
    {"\xc2\x80|\xdf\xbf|\xe0\xa0\x80|\xed\x9f\xbf|\xee\x80\x80|\xef\xbf\xbf|\xf0\x90\x80\x80|"
     "\xf4\x8f\xbf\xbf",
     "\xc2\x80|\xdf\xbf|\xe0\xa0\x80|\xed\x9f\xbf|\xee\x80\x80|\xef\xbf\xbf|\xf0\x90\x80\x80|"
     "\xf4\x8f\xbf\xbf"},
    {"\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41", r + r + r + r + r + r + r + r + "A"},
    {"\xed\xa0\x80\xed\xbf\xbf\xed\xaf\x41", r + r + r + r + r + r + r + r + "A"},
    {"\xf4\x91\x92\x93\xff\x41\x80\xbf\x42", r + r + r + r + r + "A" + r + r + "B"},
    {"\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41", r + r + r + r + "A"},
    {"\x61\xf1\x80\x80\xe1\x80\xc2\x62\x80\x63\x80\xbf\x64", "a" + r + r + r + "b" + r + "c" + r + r + "d"},
    {"cut \xe2\x82", "cut " + r},
    {"cut \xf0\x9f\x98", "cut " + r},
    {"\xf5\x80\x80\x80", r + r + r + r},
    {"eight..\xe2\x82\xac eight..\xff eight", "eight..\xe2\x82\xac eight.." + r + " eight"},
};

std::string feed_all(TextDecoder& decoder, const std::vector<std::string_view>& chunks) {
  std::string text;
  for (const std::string_view chunk : chunks) text += decoder.feed(chunk);
  return text + decoder.finish();
}

TEST(Text, MaximalSubpartsBecomeOneReplacementEach_S49) {
  for (const Case& each : cases) EXPECT_EQ(to_text(each.bytes), each.text) << each.bytes;
}

TEST(Text, IsUtf8AgreesWithToText_S49) {
  for (const Case& each : cases) {
    EXPECT_EQ(is_utf8(each.bytes), each.bytes == each.text) << each.bytes;
    EXPECT_TRUE(is_utf8(each.text));
  }
}

TEST(Text, EveryCutInTwoGivesTheSameText_S49) {
  for (const Case& each : cases) {
    for (std::size_t at = 0; at <= each.bytes.size(); ++at) {
      TextDecoder decoder;
      const std::string_view bytes = each.bytes;
      EXPECT_EQ(feed_all(decoder, {bytes.substr(0, at), bytes.substr(at)}), each.text)
          << each.bytes << " at " << at;
    }
  }
}

TEST(Text, AnyCutsOfAnyBytesGiveTheSameText_S49) {
  std::mt19937 random(20260102);  // NOLINT(cert-msc51-cpp): a failure must come again.
  // Bytes that begin, continue and break sequences, more often than chance would.
  const std::string alphabet = "Az\x80\x8f\x90\x9f\xa0\xbf\xc1\xc2\xdf\xe0\xe1\xed\xef\xf0\xf1\xf4\xf5\xff";
  const auto pick = [&](std::size_t below) {
    return std::uniform_int_distribution<std::size_t>(0, below - 1)(random);
  };
  for (int round = 0; round < 20000; ++round) {
    std::string bytes;
    for (std::size_t size = pick(40); size > 0; --size) bytes += alphabet[pick(alphabet.size())];
    std::vector<std::string_view> chunks;
    for (std::string_view rest = bytes; !rest.empty();) {
      const std::size_t size = std::min(pick(6), rest.size());
      chunks.push_back(rest.substr(0, size));
      rest.remove_prefix(size);
    }
    TextDecoder decoder;
    const std::string text = to_text(bytes);
    ASSERT_EQ(feed_all(decoder, chunks), text) << round;
    ASSERT_TRUE(is_utf8(text)) << round;
    ASSERT_EQ(is_utf8(bytes), bytes == text) << round;
  }
}

TEST(Text, ACharacterWaitsUntilItIsWhole_S49) {
  TextDecoder decoder;
  EXPECT_EQ(decoder.feed("a\xe2"), "a");
  EXPECT_EQ(decoder.feed("\x82"), "");
  EXPECT_EQ(decoder.feed(""), "");
  EXPECT_EQ(decoder.feed("\xac"
                         "b"),
            "\xe2\x82\xac"
            "b");
  EXPECT_EQ(decoder.finish(), "");
}

TEST(Text, ADecoderIsAsNewAfterFinish_S49) {
  TextDecoder decoder;
  EXPECT_EQ(decoder.feed("\xf0\x9f"), "");
  EXPECT_EQ(decoder.finish(), r);
  EXPECT_EQ(decoder.finish(), "");
  EXPECT_EQ(decoder.feed("ok"), "ok");
}

}  // namespace
}  // namespace caisson
