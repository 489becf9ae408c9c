// One step of UTF-8 decoding, shared by the text views, the JSON writer and the messages.
#pragma once

#include <cstddef>
#include <string_view>

namespace caisson {

/// What stands at the beginning of some bytes.
struct Utf8Step {
  enum class Kind {
    character,   ///< A well-formed character of `size` bytes.
    ill_formed,  ///< A maximal ill-formed part of `size` >= 1 bytes.
    unfinished,  ///< A good beginning that the end of the input cuts off; `size` is all that is left.
  };
  Kind kind = Kind::ill_formed;
  std::size_t size = 1;
  char32_t code_point = 0;  ///< Of a character.
};

/// Decodes the beginning of `bytes`, which is not empty (Unicode 15, table 3-7).
Utf8Step utf8_step(std::string_view bytes) noexcept;

}  // namespace caisson
