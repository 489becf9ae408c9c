// Escaping and shortening for messages.
#include "contract/quote.h"

#include <array>
#include <charconv>

#include "contract/utf8.h"

namespace caisson {
namespace {

constexpr std::string_view hex_digits = "0123456789abcdef";

void append_byte_escape(std::string& to, unsigned char byte) {
  to += "\\x";
  to += hex_digits[byte >> 4];
  to += hex_digits[byte & 15];
}

void append_code_point_escape(std::string& to, char32_t code_point) {
  std::array<char, 8> digits{};
  const auto end =
      std::to_chars(digits.data(), digits.data() + digits.size(), std::uint32_t{code_point}, 16).ptr;
  to.append("\\u{").append(digits.data(), end).append("}");
}

/// C1 controls drive terminals as C0 ones do; the others make a line read differently from what it says.
bool is_deceptive(char32_t c) noexcept {
  return (c >= 0x80 && c <= 0x9f) || c == 0xad || c == 0x61c || (c >= 0x200b && c <= 0x200f) ||
         (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) || c == 0xfeff ||
         (c >= 0xfff9 && c <= 0xfffb) || (c >= 0xe0000 && c <= 0xe007f);
}

void append_character(std::string& to, std::string_view bytes, char32_t code_point) {
  switch (code_point) {
    case '\n':
      to += "\\n";
      return;
    case '\r':
      to += "\\r";
      return;
    case '\t':
      to += "\\t";
      return;
    case '"':
    case '\\':
      to += '\\';
      to += bytes;
      return;
    default:
      break;
  }
  if (code_point < 0x20 || code_point == 0x7f) {
    append_byte_escape(to, static_cast<unsigned char>(code_point));
  } else if (is_deceptive(code_point)) {
    append_code_point_escape(to, code_point);
  } else {
    to += bytes;
  }
}

}  // namespace

std::string escape(std::string_view text, std::size_t most) {
  std::string shown;
  for (std::size_t count = 0; !text.empty(); ++count) {
    if (count == most) {
      shown += "...";
      break;
    }
    const Utf8Step step = utf8_step(text);
    if (step.kind == Utf8Step::Kind::character) {
      append_character(shown, text.substr(0, step.size), step.code_point);
    } else {
      for (const char byte : text.substr(0, step.size))
        append_byte_escape(shown, static_cast<unsigned char>(byte));
    }
    text.remove_prefix(step.size);
  }
  return shown;
}

std::string quote(std::string_view text, std::size_t most) { return '"' + escape(text, most) + '"'; }

std::string plain_number(double value) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  return {digits.data(), end};
}

}  // namespace caisson
