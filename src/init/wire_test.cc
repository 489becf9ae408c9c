// Tests of values as bytes: their form, and readers that believe nothing.
#include "init/wire.h"

#include <gtest/gtest.h>

#include <limits>

namespace caisson::init {
namespace {

enum class Colour : std::uint8_t { red, green, blue };

const auto as_number = [](auto& archive, auto& item) { archive.number(item); };
const auto as_bytes = [](auto& archive, auto& item) { archive.bytes(item, 10); };

template <class T>
std::string bytes_of(T value) {
  std::string bytes;
  Writer(bytes).number(value);
  return bytes;
}

TEST(Wire, NumbersAreLittleEndian) {
  EXPECT_EQ(bytes_of(std::uint8_t{0xfe}), "\xfe");
  EXPECT_EQ(bytes_of(std::uint16_t{0x0102}), "\x02\x01");
  EXPECT_EQ(bytes_of(std::uint32_t{0x01020304}), "\x04\x03\x02\x01");
  EXPECT_EQ(bytes_of(std::uint64_t{0x0102030405060708}), "\x08\x07\x06\x05\x04\x03\x02\x01");
  EXPECT_EQ(bytes_of(std::int64_t{-2}), "\xfe\xff\xff\xff\xff\xff\xff\xff");
}

template <class T>
void expect_number_comes_back(T value) {
  const std::string bytes = bytes_of(value);
  Reader reader(bytes);
  T read = 0;
  reader.number(read);
  reader.finish();
  EXPECT_FALSE(reader.failed());
  EXPECT_EQ(read, value);
}

TEST(Wire, NumbersComeBackAtTheirEnds) {
  expect_number_comes_back(std::numeric_limits<std::uint8_t>::max());
  expect_number_comes_back(std::numeric_limits<std::uint32_t>::max());
  expect_number_comes_back(std::numeric_limits<std::uint64_t>::max());
  expect_number_comes_back(std::numeric_limits<std::int64_t>::max());
  expect_number_comes_back(std::numeric_limits<std::int64_t>::min());
  expect_number_comes_back(std::int64_t{-1});
}

TEST(Wire, OneByteTooFewIsAFailureThatStays) {
  const std::string bytes = bytes_of(std::uint32_t{7}) + "\x01";
  Reader whole(std::string_view(bytes).substr(0, 4));
  std::uint32_t value = 0;
  whole.number(value);
  EXPECT_EQ(value, 7U);

  Reader cut(std::string_view(bytes).substr(0, 3));
  value = 5;
  cut.number(value);
  EXPECT_EQ(cut.error(), EBADMSG);
  EXPECT_EQ(value, 5U);
  std::uint8_t byte = 9;
  cut.number(byte);
  EXPECT_EQ(byte, 9) << "what is left may not be read after a failure";
}

TEST(Wire, TheFirstFailureIsTold) {
  Writer writer;
  writer.require(true, ENOENT);
  EXPECT_FALSE(writer.failed());
  writer.require(false, E2BIG);
  writer.require(false, EINVAL);
  EXPECT_EQ(writer.error(), E2BIG);
}

TEST(Wire, LeftOverBytesAreAFailure) {
  Reader reader("\x01\x02");
  std::uint8_t byte = 0;
  reader.number(byte);
  EXPECT_EQ(reader.remaining(), 1U);
  EXPECT_FALSE(reader.failed());
  reader.finish();
  EXPECT_TRUE(reader.failed());
}

TEST(Wire, ABooleanIsZeroOrOne) {
  for (const char byte : {'\0', '\1', '\2', '\xff'}) {
    Reader reader({&byte, 1});
    bool value = byte == 0;
    reader.boolean(value);
    EXPECT_EQ(reader.failed(), byte != 0 && byte != 1) << int{byte};
    if (!reader.failed()) {
      EXPECT_EQ(value, byte == 1);
    }
  }
}

TEST(Wire, AnEnumeratorIsAKnownOne) {
  for (const char byte : {'\0', '\1', '\2', '\3', '\xff'}) {
    Reader reader({&byte, 1});
    Colour value = Colour::green;
    reader.choice(value, Colour::blue);
    EXPECT_EQ(reader.failed(), static_cast<unsigned char>(byte) > 2) << int{byte};
    EXPECT_LE(value, Colour::blue);
  }
  Writer writer;
  writer.choice(static_cast<Colour>(3), Colour::blue);
  EXPECT_TRUE(writer.failed());
}

TEST(Wire, BytesMayBeAnyButNotTooMany) {
  const std::string value("a\0\xff", 3);
  std::string bytes;
  Writer writer(bytes);
  writer.bytes(value, 3);
  EXPECT_FALSE(writer.failed());
  EXPECT_EQ(bytes, std::string("\x03\0\0\0a\0\xff", 7));
  Writer strict;
  strict.bytes(value, 2, ENAMETOOLONG);
  EXPECT_EQ(strict.error(), ENAMETOOLONG);

  std::string read;
  Reader reader(bytes);
  reader.bytes(read, 3);
  EXPECT_FALSE(reader.failed());
  EXPECT_EQ(read, value);
  Reader strict_reader(bytes);
  strict_reader.bytes(read, 2);
  EXPECT_TRUE(strict_reader.failed());
  Reader cut(std::string_view(bytes).substr(0, 6));
  cut.bytes(read, 3);
  EXPECT_TRUE(cut.failed());
}

TEST(Wire, ListsComeBackButNotTooLongOnes) {
  const std::vector<std::string> items = {"", "one", "two"};
  std::string bytes;
  Writer(bytes).list(items, 3, as_bytes);
  std::vector<std::string> read;
  Reader reader(bytes);
  reader.list(read, 3, as_bytes);
  reader.finish();
  EXPECT_FALSE(reader.failed());
  EXPECT_EQ(read, items);

  Writer writer;
  writer.list(items, 2, as_bytes, E2BIG);
  EXPECT_EQ(writer.error(), E2BIG);
  read.clear();
  Reader strict(bytes);
  strict.list(read, 2, as_bytes);
  EXPECT_TRUE(strict.failed());
  EXPECT_TRUE(read.empty());
}

TEST(Wire, AnAnnouncedLengthAllocatesNothing) {
  const std::string announced = bytes_of(std::uint32_t{0x7fffffff}) + "abcdefgh";
  std::vector<std::uint32_t> numbers;
  Reader list(announced);
  list.list(numbers, 0x7fffffff, as_number);
  EXPECT_TRUE(list.failed());
  EXPECT_LE(numbers.capacity(), 4U);
  std::string bytes;
  Reader string(announced);
  string.bytes(bytes, 0x7fffffff);
  EXPECT_TRUE(string.failed());
  EXPECT_EQ(bytes.capacity(), std::string().capacity());
}

TEST(Wire, OptionalsComeBack) {
  for (const std::optional<std::uint16_t> value : {std::optional<std::uint16_t>(), {0x1234}}) {
    std::string bytes;
    Writer(bytes).optional(value, as_number);
    EXPECT_EQ(bytes.size(), value ? 3U : 1U);
    std::optional<std::uint16_t> read;
    Reader reader(bytes);
    reader.optional(read, as_number);
    reader.finish();
    EXPECT_FALSE(reader.failed());
    EXPECT_EQ(read, value);
  }
}

TEST(Wire, VariantsComeBackButNoUnknownAlternative) {
  using Variant = std::variant<std::uint8_t, std::uint16_t>;
  for (const Variant value : {Variant(std::uint8_t{3}), Variant(std::uint16_t{3})}) {
    std::string bytes;
    Writer(bytes).variant(value, as_number);
    Variant read;
    Reader reader(bytes);
    reader.variant(read, as_number);
    reader.finish();
    EXPECT_FALSE(reader.failed());
    EXPECT_EQ(read, value);
  }
  Variant read;
  Reader reader("\x02\x03\x03");
  reader.variant(read, as_number);
  EXPECT_TRUE(reader.failed());
}

TEST(Wire, CountingSaysHowMuchIsWritten) {
  const auto write = [](Writer& writer) {
    writer.number(std::uint64_t{1});
    writer.boolean(true);
    writer.bytes("text", 4);
  };
  std::string bytes;
  Writer kept(bytes);
  Writer counted;
  write(kept);
  write(counted);
  EXPECT_EQ(kept.size(), bytes.size());
  EXPECT_EQ(counted.size(), bytes.size());
}

TEST(Wire, WipedBytesAreGone_S6) {
  for (std::string bytes : {std::string(100, 's'), std::string("short")}) {
    bytes.pop_back();
    const std::string_view memory(bytes.data(), bytes.capacity());
    ASSERT_NE(memory.find('s'), std::string_view::npos) << "the control: it is there";
    wipe(bytes);
    EXPECT_TRUE(bytes.empty());
    EXPECT_EQ(memory.find_first_not_of('\0'), std::string_view::npos);
  }
}

}  // namespace
}  // namespace caisson::init
