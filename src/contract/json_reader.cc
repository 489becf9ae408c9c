// The leaves of the JSON reader.
#include "contract/json_reader.h"

#include "caisson/contract/json.h"

namespace caisson::wire {
namespace {

std::string_view kind_word(const boost::json::value& value) noexcept {
  switch (value.kind()) {
    case boost::json::kind::null:
      return "null";
    case boost::json::kind::bool_:
      return "a boolean";
    case boost::json::kind::int64:
    case boost::json::kind::uint64:
      return "an integer";
    case boost::json::kind::double_:
      return "a number that is no 64-bit integer";
    case boost::json::kind::string:
      return "a string";
    case boost::json::kind::array:
      return "an array";
    case boost::json::kind::object:
      return "an object";
  }
  return "something else";
}

}  // namespace

void complain_type(const std::string& path, std::string_view wanted, const boost::json::value& value) {
  std::string subject = path.empty() ? std::string("the JSON text") : path;
  complain(path, subject.append(" must be ").append(wanted).append(", not ").append(kind_word(value)));
}

bool read_bool(const boost::json::value& value, const std::string& path) {
  if (!value.is_bool()) complain_type(path, "true or false", value);
  return value.get_bool();
}

std::int64_t read_integer(const boost::json::value& value, const std::string& path, std::int64_t least,
                          std::int64_t most) {
  const bool fits = value.is_int64() && value.get_int64() >= least && value.get_int64() <= most;
  if (fits) return value.get_int64();
  if (!value.is_int64() && !value.is_uint64()) complain_type(path, "an integer", value);
  complain(path, path + " must be an integer from " + std::to_string(least) + " to " + std::to_string(most));
}

double read_double(const boost::json::value& value, const std::string& path) {
  if (value.is_double()) return value.get_double();
  if (value.is_int64()) return static_cast<double>(value.get_int64());
  if (value.is_uint64()) return static_cast<double>(value.get_uint64());
  complain_type(path, "a number", value);
}

std::string_view read_string(const boost::json::value& value, const std::string& path) {
  if (!value.is_string()) complain_type(path, "a string", value);
  return value.get_string();
}

UtcTime read_time(const boost::json::value& value, const std::string& path) {
  const std::string_view text = read_string(value, path);
  if (const auto time = parse_time(text)) return *time;
  complain(path,
           path + " must be a time like \"2026-01-02T03:04:05.678901Z\" (RFC 3339), not " + quote(text));
}

const boost::json::object& read_object(const boost::json::value& value, const std::string& path) {
  if (!value.is_object()) complain_type(path, "an object", value);
  return value.get_object();
}

}  // namespace caisson::wire
