// Output is bytes (S-49); these give text views of it.
#pragma once

#include <string>
#include <string_view>

namespace caisson {

/// Whether `bytes` is well-formed UTF-8 (RFC 3629: no surrogates, no overlong forms).
bool is_utf8(std::string_view bytes) noexcept;

/// `bytes` as text: each maximal ill-formed part replaced by one U+FFFD (Unicode 15, section 3.9,
/// "substitution of maximal subparts").
std::string to_text(std::string_view bytes);

/// The same for a stream that arrives in chunks: a character split between two chunks comes out whole.
class TextDecoder {
 public:
  /// The text that is complete so far; up to three bytes of an unfinished character wait for the next chunk.
  std::string feed(std::string_view chunk);
  /// What still waits, as U+FFFD; the decoder is then as new.
  std::string finish();

 private:
  std::string pending_;
};

}  // namespace caisson
