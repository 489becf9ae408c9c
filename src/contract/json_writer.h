// Writes described models as JSON values, fields in the order of their description.
#pragma once

#include <boost/describe.hpp>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <boost/mp11/algorithm.hpp>
#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "caisson/contract/json.h"
#include "caisson/contract/text.h"
#include "contract/described.h"

namespace caisson::wire {

/// A field that is left out when it holds nothing (a std::optional is null then).
template <class T>
struct Omittable {
  std::optional<T> value;
};

/// A described member's name in JSON. `stdout` and `stderr` are macros in C, so their members end in "_".
constexpr std::string_view field_name(std::string_view member) noexcept {
  if (member.ends_with('_')) member.remove_suffix(1);
  return member;
}

template <class T>
boost::json::value write(const T& item);

template <class T>
void write_field(boost::json::object& object, std::string_view name, const T& item) {
  object.emplace(name, write(item));
}
template <class T>
void write_field(boost::json::object& object, std::string_view name, const Omittable<T>& item) {
  if (item.value) object.emplace(name, write(*item.value));
}

/// Text that is not UTF-8 is written as to_text() shows it: what comes out is always JSON.
inline boost::json::value write_text(std::string_view text) {
  if (is_utf8(text)) return boost::json::value(boost::json::string(text));
  return boost::json::value(boost::json::string(to_text(text)));
}

template <class T>
boost::json::value write(const T& item) {
  static_assert(!std::same_as<T, Secret>, "a Secret cannot be serialised");
  if constexpr (std::same_as<T, bool> || std::integral<T> || std::same_as<T, double>) {
    return boost::json::value(item);
  } else if constexpr (std::convertible_to<const T&, std::string_view>) {
    return write_text(item);
  } else if constexpr (std::same_as<T, UtcTime>) {
    return write_text(format_time(item));
  } else if constexpr (std::is_enum_v<T>) {
    return write_text(to_string(item));
  } else if constexpr (requires { item.has_value(); }) {
    return item ? write(*item) : boost::json::value(nullptr);
  } else if constexpr (requires { typename T::mapped_type; }) {
    boost::json::object object;
    for (const auto& [key, value] : item) object.emplace(is_utf8(key) ? key : to_text(key), write(value));
    return object;
  } else if constexpr (requires { item.begin(); }) {
    boost::json::array array;
    for (const auto& element : item) array.push_back(write(element));
    return array;
  } else {
    boost::json::object object;
    boost::mp11::mp_for_each<boost::describe::describe_members<T, boost::describe::mod_public>>(
        [&](auto member) { write_field(object, field_name(member.name), item.*member.pointer); });
    return object;
  }
}

}  // namespace caisson::wire
