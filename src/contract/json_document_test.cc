// The parsed text's memory is wiped (S-6): every block, and what the parser leaves on the stack.
#include "contract/json_document.h"

#include <gtest/gtest.h>

#include <boost/json/string.hpp>
#include <cstdint>
#include <cstring>
#include <string>

#include "caisson/contract/errors.h"
#include "contract/release_watch.h"

namespace caisson::wire {
namespace {

/// The sanitizers put frames elsewhere and forbid reading where no object is.
#if defined(__clang__)
#define CAISSON_PLAIN_FRAME __attribute__((noinline, no_sanitize("address", "undefined")))
#else
#define CAISSON_PLAIN_FRAME __attribute__((noinline))
#endif

/// Whether `needle` stands in the stack below the caller's frame; volatile, so that it is really read.
CAISSON_PLAIN_FRAME bool stack_below_has(const char* needle, std::size_t size) {
  const volatile char* here = static_cast<const char*>(__builtin_frame_address(0));
  for (std::ptrdiff_t at = -16384; at < -256; ++at) {
    std::size_t same = 0;
    while (same < size && here[at + static_cast<std::ptrdiff_t>(same)] == needle[same]) ++same;
    if (same == size) return true;
  }
  return false;
}

/// Leaves `text` on the stack as the parser does.
CAISSON_PLAIN_FRAME void leave_on_stack(const char* text, std::size_t size) {
  char area[4096];
  for (std::size_t i = 0; i < size; ++i) area[2048 + i] = text[i];
  asm volatile("" : : "r"(area) : "memory");
}

TEST(JsonDocument, TheParsersStackIsWiped_S6) {
  // In two halves, so that the searched text is whole nowhere but where the parser unescapes it.
  const std::string canary = std::string("canary-77c2") + "-on-the-stack";
  leave_on_stack(canary.data(), canary.size());
  ASSERT_TRUE(stack_below_has(canary.data(), canary.size())) << "the control: the search finds what is there";
  std::string text = "{\"env\":\"";
  text.append("\\u0041").append(canary).append("\\n\"}");
  const Document document(text);
  EXPECT_FALSE(stack_below_has(canary.data(), canary.size()));
  EXPECT_EQ(document.root().at("env").as_string(), "A" + canary + "\n");
}

TEST(JsonDocument, ItsMemoryIsWiped_S6) {
  {
    WipingMemory memory;
    auto* block = static_cast<char*>(memory.allocate(64));
    std::memset(block, 'x', 64);
    asm volatile("" : : "r"(block) : "memory");
    testing::watch_release({block, 64});
    memory.deallocate(block, 64);
    EXPECT_EQ(testing::watched_releases(), 1);
    EXPECT_TRUE(testing::was_zero_at_release());
  }
  {
    // A key is a block of its own, which begins with its first character.
    const Document document(R"({"TOKEN":"value"})");
    testing::watch_release(document.root().get_object().begin()->key());
  }
  EXPECT_EQ(testing::watched_releases(), 1);
  EXPECT_TRUE(testing::was_zero_at_release());
}

TEST(JsonDocument, EveryValueIsInTheDocumentsMemory_S6) {
  const Document document(R"({"a":"a string of some length, kept outside","b":[{"c":"d"}],"e":"f"})");
  const auto is_ours = [&](const boost::json::value& value) {
    return value.storage() == document.root().storage() && !value.storage().is_deallocate_trivial();
  };
  EXPECT_NE(document.root().storage(), boost::json::storage_ptr());
  EXPECT_TRUE(is_ours(document.root().at("a")));
  EXPECT_TRUE(is_ours(document.root().at("b").at(0).at("c")));
  EXPECT_TRUE(is_ours(document.root().at("e")));
}

TEST(JsonDocument, PathsOfRepeatedKeys_S8) {
  try {
    const Document document(R"({"a":{"b":{},"c":{"d":1,"d":2}}})");
    FAIL();
  } catch (const SandboxError& error) {
    EXPECT_EQ(error.field(), "a.c.d");
  }
}

TEST(JsonDocument, LongTextsArriveInParts) {
  // Longer than the parser's buffer, with escapes, so that keys and strings come in several parts.
  std::string long_text;
  for (int i = 0; i < 5000; ++i) long_text += "ab\\n";
  const Document document("{\"" + long_text + "\":\"" + long_text + "\"}");
  const auto& entry = *document.root().get_object().begin();
  EXPECT_EQ(entry.key().size(), 15000U);
  EXPECT_EQ(entry.value().get_string().size(), 15000U);
  EXPECT_THROW(Document("{\"" + long_text + "\":1,\"" + long_text + "\":2}"), SandboxError);
}

}  // namespace
}  // namespace caisson::wire
