// Reads described models out of JSON values, naming the field's path in every error.
#pragma once

#include <array>
#include <boost/describe.hpp>
#include <boost/json/value.hpp>
#include <boost/mp11/algorithm.hpp>
#include <concepts>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "caisson/contract/models.h"
#include "contract/described.h"
#include "contract/json_document.h"
#include "contract/quote.h"

namespace caisson::wire {

/// The fields of a described model that JSON may leave out, which then keep their default.
template <class Model>
struct OptionalFields {
  static constexpr std::array<std::string_view, 0> names{};
};

/// "durability must be a string, not an array".
[[noreturn]] void complain_type(const std::string& path, std::string_view wanted,
                                const boost::json::value& value);

bool read_bool(const boost::json::value& value, const std::string& path);
/// Integers only: neither 5.0 nor "5".
std::int64_t read_integer(const boost::json::value& value, const std::string& path, std::int64_t least,
                          std::int64_t most);
double read_double(const boost::json::value& value, const std::string& path);
std::string_view read_string(const boost::json::value& value, const std::string& path);
UtcTime read_time(const boost::json::value& value, const std::string& path);
const boost::json::object& read_object(const boost::json::value& value, const std::string& path);

template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};
template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};
template <class T>
concept MapOfStrings =
    std::same_as<typename T::key_type, std::string> && requires { typename T::mapped_type; };

template <class Enum>
Enum read_enum(const boost::json::value& value, const std::string& path) {
  const std::string_view word = read_string(value, path);
  if (const auto found = enum_of_word<Enum>(word)) return *found;
  complain(path, path + " must be " + enum_choices<Enum>() + ", not " + quote(word));
}

template <class Model>
Model read_model(const boost::json::value& value, const std::string& path);

/// One value of any type that models are made of.
template <class T>
T read(const boost::json::value& value, const std::string& path) {
  if constexpr (std::same_as<T, bool>) {
    return read_bool(value, path);
  } else if constexpr (std::signed_integral<T>) {
    return static_cast<T>(
        read_integer(value, path, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
  } else if constexpr (std::same_as<T, double>) {
    return read_double(value, path);
  } else if constexpr (std::same_as<T, std::string> || std::same_as<T, Secret>) {
    return T(read_string(value, path));
  } else if constexpr (std::same_as<T, UtcTime>) {
    return read_time(value, path);
  } else if constexpr (std::is_enum_v<T>) {
    return read_enum<T>(value, path);
  } else if constexpr (IsOptional<T>::value) {
    if (value.is_null()) return std::nullopt;
    return read<typename T::value_type>(value, path);
  } else if constexpr (IsVector<T>::value) {
    if (!value.is_array()) complain_type(path, "an array", value);
    T items;
    for (const auto& item : value.get_array()) {
      const std::string at = path + "[" + std::to_string(items.size()) + "]";
      items.push_back(read<typename T::value_type>(item, at));
    }
    return items;
  } else if constexpr (MapOfStrings<T>) {
    T map;
    for (const auto& [key, item] : read_object(value, path)) {
      map.emplace(key, read<typename T::mapped_type>(item, join_path(path, key)));
    }
    return map;
  } else {
    return read_model<T>(value, path);
  }
}

/// Every key must be a field, and every field that OptionalFields does not name must be there. `path` is
/// empty at the root.
template <class Model>
Model read_model(const boost::json::value& value, const std::string& path) {
  using Members = boost::describe::describe_members<Model, boost::describe::mod_public>;
  const boost::json::object& object = read_object(value, path);
  for (const auto& entry : object) {
    const std::string_view key = entry.key();
    bool known = false;
    std::string fields;
    boost::mp11::mp_for_each<Members>([&](auto member) {
      known = known || key == member.name;
      fields.append(fields.empty() ? "" : ", ").append(member.name);
    });
    const std::string at = join_path(path, key);
    if (!known) complain(at, at + " is no known field; there are " + fields);
  }
  Model model{};
  boost::mp11::mp_for_each<Members>([&](auto member) {
    const std::string at = join_path(path, member.name);
    using Field = std::remove_cvref_t<decltype(model.*member.pointer)>;
    if (const boost::json::value* field = object.if_contains(member.name)) {
      model.*member.pointer = read<Field>(*field, at);
      return;
    }
    for (const std::string_view name : OptionalFields<Model>::names) {
      if (name == member.name) return;
    }
    complain(at, at + " is missing: it is required");
  });
  return model;
}

}  // namespace caisson::wire
