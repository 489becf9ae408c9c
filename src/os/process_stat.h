// /proc/PID/stat, by its fields (proc(5)).
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <type_traits>

namespace caisson::os {

/// Field `number`, from 3 on, of the text of a process's stat; empty when it has no such field. The name
/// before them, field 2, stands in parentheses and may hold anything.
std::string_view stat_field(std::string_view stat, int number) noexcept;

/// The same as a number; nothing where it is none.
template <class Number>
std::optional<Number> stat_number(std::string_view stat, int number) noexcept {
  const std::string_view field = stat_field(stat, number);
  Number value = 0;
  const auto read = std::from_chars(field.data(), field.data() + field.size(), value);
  if (field.empty() || read.ec != std::errc() || read.ptr != field.data() + field.size()) return std::nullopt;
  return value;
}

}  // namespace caisson::os
