// Markers and sidecars as JSON.
#include "providers/local/marker.h"

#include <boost/json.hpp>

#include "caisson/contract/errors.h"
#include "caisson/contract/json.h"
#include "contract/quote.h"
#include "os/clock.h"
#include "os/fault_point.h"
#include "os/files.h"

namespace caisson::local {
namespace {

namespace json = boost::json;

// A record is a few hundred bytes; labels may make it more.
constexpr std::size_t largest_record = 16 << 20;

struct Record {
  std::string text;
  json::object object;
};

// EBADMSG for what is no JSON object.
os::Result<Record> read_record(os::FdRef directory, const std::string& name) {
  auto text = os::read_file_at(directory, name, largest_record);
  if (!text) return text.error();
  boost::system::error_code error;
  json::value value = json::parse(*text, error);
  if (error || !value.is_object()) return os::error_of(EBADMSG);
  return Record{std::move(*text), std::move(value.get_object())};
}

// Whether an error says nothing of the file.
bool is_of_the_machine(const os::Error& error) {
  switch (error.value()) {
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case ENOSPC:
    case EIO:
      return true;
    default:
      return false;
  }
}

std::string string_of(const json::object& object, std::string_view key) {
  const json::value* const value = object.if_contains(key);
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : std::string();
}

template <class Number>
Number number_of(const json::object& object, std::string_view key) {
  const json::value* const value = object.if_contains(key);
  if (value == nullptr) return 0;
  boost::system::error_code error;
  const Number number = value->to_number<Number>(error);
  return error ? 0 : number;
}

json::object json_of(const Labels& labels) {
  json::object object;
  for (const auto& [key, value] : labels) object[key] = value;
  return object;
}

}  // namespace

void write_marker(const Layout& layout, const Marker& marker) {
  json::object owner;
  owner["pid"] = marker.owner.pid;
  owner["start_time"] = marker.owner.start_time;
  owner["boot_id"] = marker.owner.boot_id;
  owner["cgroup_namespace"] = marker.owner.cgroup_namespace;
  json::object object;
  object["id"] = marker.id;
  object["workspace_key"] = marker.workspace_key;
  object["durability"] = to_string(marker.durability);
  object["workspace"] = marker.workspace;
  object["created_at"] = marker.created_at;
  if (!marker.cgroup.empty()) object["cgroup"] = marker.cgroup;
  object["owner"] = std::move(owner);
  replace_record(layout, marker.id, layout.records, record_name(marker.id), json::serialize(object) + "\n");
}

os::Result<Marker> read_marker(const Layout& layout, const std::string& id) {
  const auto record = read_record(layout.records, record_name(id));
  if (!record) return record.error();
  const json::object* const object = &record->object;
  const auto durability = parse_durability(string_of(*object, "durability"));
  if (!durability) return os::error_of(EBADMSG);
  Marker marker;
  marker.id = id;
  marker.workspace_key = string_of(*object, "workspace_key");
  marker.durability = *durability;
  marker.workspace = string_of(*object, "workspace");
  marker.created_at = string_of(*object, "created_at");
  marker.cgroup = string_of(*object, "cgroup");
  const json::value* const owner = object->if_contains("owner");
  if (owner != nullptr && owner->is_object()) {
    marker.owner.pid = number_of<pid_t>(owner->get_object(), "pid");
    marker.owner.start_time = number_of<std::uint64_t>(owner->get_object(), "start_time");
    marker.owner.boot_id = string_of(owner->get_object(), "boot_id");
    marker.owner.cgroup_namespace = number_of<std::uint64_t>(owner->get_object(), "cgroup_namespace");
  }
  return marker;
}

std::optional<std::string> cgroup_to_kill(const Marker& marker) {
  const std::string& path = marker.cgroup;
  const std::string prefix = std::to_string(marker.owner.pid) + "-";
  const std::string name = path.substr(path.rfind('/') + 1);
  if (!path.starts_with('/') || path.find("/../") != std::string::npos || !name.starts_with(prefix) ||
      !is_session_id(name.substr(prefix.size())) || marker.owner.pid <= 0 ||
      marker.owner.boot_id != os::boot_id()) {
    return std::nullopt;
  }
  return path;
}

void ensure_sidecar(const Layout& layout, const std::string& id, const SandboxSessionSpec& spec,
                    UtcTime created_at) {
  const std::string name = record_name(spec.workspace_key);
  const auto fault = os::fault_point("create.sidecar");
  auto read = fault ? read_record(layout.sidecars, name) : os::Result<Record>(fault.error());
  if (!read && is_of_the_machine(read.error())) fail_root(layout.root, "reading a sidecar", read.error());
  if (!read && read.error() != os::error_of(ENOENT)) {
    throw SandboxError(ErrorCode::workspace_conflict,
                       "the sidecar " + quote(layout.root + "/.tai-sandbox/" + name, 300) +
                           " of that workspace cannot be read: " + read.error().message() +
                           "; repair it or move it away, or use another key",
                       "workspace_key");
  }
  // What is there stays as it was written: a number need not be one that can be read and written back.
  std::string text = read ? std::move(read->text) : "{}";
  json::object object = read ? std::move(read->object) : json::object();
  std::string added;
  const auto add = [&](std::string_view key, const json::value& value) {
    if (!object.emplace(key, value).second) return;
    if (object.size() > 1) added += ',';
    added += json::serialize(json::value(key)) + ":" + json::serialize(value);
  };
  add("workspace_key", json::string(spec.workspace_key));
  add("durability", json::string(to_string(spec.durability)));
  add("created_at", json::string(format_time(created_at)));
  add("image", json::string(spec.image));
  add("labels", json_of(spec.labels));
  if (added.empty()) return;
  text.insert(text.rfind('}'), added);
  if (!text.ends_with('\n')) text += '\n';
  replace_record(layout, id, layout.sidecars, name, text);
}

}  // namespace caisson::local
