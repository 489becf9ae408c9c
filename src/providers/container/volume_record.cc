// Records of volumes as JSON.
#include "providers/container/volume_record.h"

#include <boost/json.hpp>

#include "caisson/contract/json.h"
#include "kit/disk_record.h"

namespace caisson::container {
namespace {

namespace json = boost::json;

constexpr BoundKind kinds[] = {BoundKind::none, BoundKind::project_quota, BoundKind::image};

// Of no fields where there is none.
json::object object_field(const json::object& object, std::string_view key) {
  const json::value* const value = object.if_contains(key);
  return value != nullptr && value->is_object() ? value->get_object() : json::object();
}

std::optional<BoundKind> parse_kind(std::string_view text) noexcept {
  for (const BoundKind kind : kinds) {
    if (to_string(kind) == text) return kind;
  }
  return std::nullopt;
}

}  // namespace

std::string_view to_string(BoundKind kind) noexcept {
  switch (kind) {
    case BoundKind::none:
      return "none";
    case BoundKind::project_quota:
      return "project_quota";
    case BoundKind::image:
      return "image";
  }
  return {};
}

os::Result<VolumeRecord> read_volume_record(const Layout& layout, const std::string& key) {
  const auto read = kit::read_disk_record(layout.volumes, kit::record_name(key));
  if (!read) return read.error();
  const json::object ids = object_field(read->object, "ids");
  VolumeRecord record;
  record.slot.first_user = kit::number_field<std::uint32_t>(ids, "first_user");
  record.slot.first_group = kit::number_field<std::uint32_t>(ids, "first_group");
  record.slot.count = kit::number_field<std::uint32_t>(ids, "count");
  const json::object bound = object_field(read->object, "bound");
  const auto kind = parse_kind(kit::text_field(bound, "kind"));
  if (record.slot.count == 0 || !kind) return os::error_of(EBADMSG);
  record.bound = {*kind, kit::number_field<std::uint64_t>(bound, "bytes"),
                  kit::number_field<std::uint32_t>(bound, "project")};
  const bool is_whole = (*kind == BoundKind::none || record.bound.bytes != 0) &&
                        (*kind != BoundKind::project_quota || record.bound.project != 0);
  if (!is_whole) return os::error_of(EBADMSG);
  return record;
}

os::Result<void> write_volume_record(const Layout& layout, const kit::SessionRecord& session,
                                     const VolumeRecord& record) {
  json::object ids;
  ids["first_user"] = record.slot.first_user;
  ids["first_group"] = record.slot.first_group;
  ids["count"] = record.slot.count;
  json::object bound;
  bound["kind"] = to_string(record.bound.kind);
  if (record.bound.bytes != 0) bound["bytes"] = record.bound.bytes;
  if (record.bound.project != 0) bound["project"] = record.bound.project;
  json::object object;
  object["workspace_key"] = session.spec.workspace_key;
  object["durability"] = to_string(session.spec.durability);
  object["created_at"] = format_time(session.created_at);
  object["image"] = session.spec.image;
  object["labels"] = kit::json_of(session.spec.labels);
  object["ids"] = std::move(ids);
  object["bound"] = std::move(bound);
  const std::string& key = session.spec.workspace_key;
  return kit::replace_disk_record(layout.keys, new_name(key), layout.volumes, kit::record_name(key),
                                  json::serialize(object) + "\n", 0600);
}

}  // namespace caisson::container
