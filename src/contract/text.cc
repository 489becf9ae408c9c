// UTF-8 checking and text views of bytes.
#include "caisson/contract/text.h"

#include <array>
#include <cstdint>
#include <cstring>

#include "contract/utf8.h"

namespace caisson {
namespace {

constexpr std::string_view replacement = "\xef\xbf\xbd";

/// What may follow a lead byte: how many bytes, and the range of the first of them (the others are 80 to bf).
struct Sequence {
  std::size_t following = 0;
  unsigned char low = 0x80;
  unsigned char high = 0xbf;
  char32_t lead_bits = 0;
};

/// Table 3-7 of Unicode 15. `following` is 0 for a byte that begins nothing.
Sequence sequence_of(unsigned char lead) noexcept {
  const char32_t bits = lead;
  if (lead < 0xc2) return {};
  if (lead < 0xe0) return {1, 0x80, 0xbf, bits & 0x1f};
  if (lead == 0xe0) return {2, 0xa0, 0xbf, bits & 0x0f};
  if (lead == 0xed) return {2, 0x80, 0x9f, bits & 0x0f};
  if (lead < 0xf0) return {2, 0x80, 0xbf, bits & 0x0f};
  if (lead == 0xf0) return {3, 0x90, 0xbf, bits & 0x07};
  if (lead < 0xf4) return {3, 0x80, 0xbf, bits & 0x07};
  if (lead == 0xf4) return {3, 0x80, 0x8f, bits & 0x07};
  return {};
}

/// The length of the ASCII run at the beginning of `bytes`, eight bytes at a time and so rounded down.
std::size_t ascii_run(std::string_view bytes) noexcept {
  std::size_t size = 0;
  for (; size + 8 <= bytes.size(); size += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + size, 8);
    if ((word & 0x8080808080808080ULL) != 0) break;
  }
  return size;
}

/// Appends the text of `bytes` up to an unfinished character at their end; the size of what was used up.
std::size_t append_text(std::string& text, std::string_view bytes) {
  std::size_t at = 0;
  std::size_t copied = 0;  // Well-formed bytes from here to `at` are copied in one go.
  while (at < bytes.size()) {
    at += ascii_run(bytes.substr(at));
    if (at == bytes.size()) break;
    const Utf8Step step = utf8_step(bytes.substr(at));
    if (step.kind == Utf8Step::Kind::unfinished) break;
    if (step.kind == Utf8Step::Kind::ill_formed) {
      text.append(bytes.substr(copied, at - copied)).append(replacement);
      copied = at + step.size;
    }
    at += step.size;
  }
  text.append(bytes.substr(copied, at - copied));
  return at;
}

}  // namespace

Utf8Step utf8_step(std::string_view bytes) noexcept {
  using Kind = Utf8Step::Kind;
  const auto lead = static_cast<unsigned char>(bytes.front());
  if (lead < 0x80) return {Kind::character, 1, lead};
  const Sequence sequence = sequence_of(lead);
  if (sequence.following == 0) return {Kind::ill_formed, 1, 0};
  char32_t code_point = sequence.lead_bits;
  for (std::size_t i = 1; i <= sequence.following; ++i) {
    if (i == bytes.size()) return {Kind::unfinished, i, 0};
    const auto byte = static_cast<unsigned char>(bytes[i]);
    const unsigned char low = i == 1 ? sequence.low : 0x80;
    const unsigned char high = i == 1 ? sequence.high : 0xbf;
    if (byte < low || byte > high) return {Kind::ill_formed, i, 0};
    code_point = (code_point << 6) | (byte & 0x3fU);
  }
  return {Kind::character, sequence.following + 1, code_point};
}

bool is_utf8(std::string_view bytes) noexcept {
  while (true) {
    bytes.remove_prefix(ascii_run(bytes));
    if (bytes.empty()) return true;
    const Utf8Step step = utf8_step(bytes);
    if (step.kind != Utf8Step::Kind::character) return false;
    bytes.remove_prefix(step.size);
  }
}

std::string to_text(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  if (append_text(text, bytes) < bytes.size()) text.append(replacement);
  return text;
}

std::string TextDecoder::feed(std::string_view chunk) {
  std::string text;
  text.reserve(pending_.size() + chunk.size());
  // An unfinished character has at most three bytes, so this joins at most three of the chunk's, one at a
  // time.
  while (!pending_.empty() && !chunk.empty()) {
    pending_ += chunk.front();
    chunk.remove_prefix(1);
    pending_.erase(0, append_text(text, pending_));
  }
  if (pending_.empty()) pending_ = chunk.substr(append_text(text, chunk));
  return text;
}

std::string TextDecoder::finish() {
  std::string text = to_text(pending_);
  pending_.clear();
  return text;
}

}  // namespace caisson
