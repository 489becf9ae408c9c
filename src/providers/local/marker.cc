// Markers and sidecars as JSON.
#include "providers/local/marker.h"

#include <boost/json.hpp>

#include "caisson/contract/errors.h"
#include "caisson/contract/json.h"
#include "contract/quote.h"
#include "kit/disk_record.h"
#include "os/fault_point.h"

namespace caisson::local {

namespace json = boost::json;

void write_marker(const Layout& layout, const Marker& marker) {
  json::object object;
  object["id"] = marker.id;
  object["workspace_key"] = marker.workspace_key;
  object["durability"] = to_string(marker.durability);
  object["workspace"] = marker.workspace;
  object["created_at"] = marker.created_at;
  if (!marker.cgroup.empty()) object["cgroup"] = marker.cgroup;
  object["owner"] = kit::json_of(marker.owner);
  replace_record(layout, marker.id, layout.records, record_name(marker.id), json::serialize(object) + "\n");
}

os::Result<Marker> read_marker(const Layout& layout, const std::string& id) {
  const auto record = kit::read_disk_record(layout.records, record_name(id));
  if (!record) return record.error();
  const json::object* const object = &record->object;
  const auto durability = parse_durability(kit::text_field(*object, "durability"));
  if (!durability) return os::error_of(EBADMSG);
  Marker marker;
  marker.id = id;
  marker.workspace_key = kit::text_field(*object, "workspace_key");
  marker.durability = *durability;
  marker.workspace = kit::text_field(*object, "workspace");
  marker.created_at = kit::text_field(*object, "created_at");
  marker.cgroup = kit::text_field(*object, "cgroup");
  marker.owner = kit::owner_field(*object);
  return marker;
}

void ensure_sidecar(const Layout& layout, const std::string& id, const SandboxSessionSpec& spec,
                    UtcTime created_at) {
  const std::string name = record_name(spec.workspace_key);
  const auto fault = os::fault_point("create.sidecar");
  auto read =
      fault ? kit::read_disk_record(layout.sidecars, name) : os::Result<kit::DiskRecord>(fault.error());
  if (!read && kit::is_of_the_machine(read.error()))
    fail_root(layout.root, "reading a sidecar", read.error());
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
  add("labels", kit::json_of(spec.labels));
  if (added.empty()) return;
  text.insert(text.rfind('}'), added);
  if (!text.ends_with('\n')) text += '\n';
  replace_record(layout, id, layout.sidecars, name, text);
}

}  // namespace caisson::local
