// How messages show what a caller gave: shortened, and without a byte that could act on a terminal or a log.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace caisson {

/// The characters of user input that a message repeats.
inline constexpr std::size_t quoted_characters = 80;

/// `text` with backslashes, quotes, control and direction-changing characters and bytes that are not UTF-8
/// escaped, cut after `most` characters, which "..." then shows.
std::string escape(std::string_view text, std::size_t most = quoted_characters);
/// The same between double quotes.
std::string quote(std::string_view text, std::size_t most = quoted_characters);
/// The shortest decimal form that reads back as `value`: "5", "0.1", "nan".
std::string plain_number(double value);

}  // namespace caisson
