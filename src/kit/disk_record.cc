// Reading and replacing records.
#include "kit/disk_record.h"

#include <fcntl.h>

#include <boost/json.hpp>

#include "os/clock.h"
#include "os/fault_point.h"
#include "os/files.h"

namespace caisson::kit {
namespace {

namespace json = boost::json;

// A record is a few hundred bytes; labels may make it more.
constexpr std::size_t largest_record = 16 << 20;

}  // namespace

os::Result<DiskRecord> read_disk_record(os::FdRef directory, const std::string& name) {
  auto text = os::read_file_at(directory, name, largest_record);
  if (!text) return text.error();
  boost::system::error_code error;
  json::value value = json::parse(*text, error);
  if (error || !value.is_object()) return os::error_of(EBADMSG);
  return DiskRecord{std::move(*text), std::move(value.get_object())};
}

os::Result<void> replace_disk_record(os::FdRef temporaries, const std::string& temporary, os::FdRef directory,
                                     const std::string& name, std::string_view text, mode_t mode) {
  if (const auto fault = os::fault_point("record.open"); !fault) return fault.error();
  const auto file = os::open_at(temporaries, temporary, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (!file) return file.error();
  os::Result<void> done = os::fault_point("record.write");
  if (done) done = os::write_all(*file, text);
  if (done) done = os::set_mode(*file, mode);
  if (done) done = os::fault_point("record.rename");
  if (done) done = os::rename_at(temporaries, temporary, directory, name);
  os::kill_point("record.renamed");
  if (!done) static_cast<void>(os::unlink_at(temporaries, temporary));
  return done;
}

bool is_of_the_machine(const os::Error& error) noexcept {
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

std::string text_field(const json::object& object, std::string_view key) {
  const json::value* const value = object.if_contains(key);
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : std::string();
}

json::object json_of(const Labels& labels) {
  json::object object;
  for (const auto& [key, value] : labels) object[key] = value;
  return object;
}

json::object json_of(const os::ProcessIdentity& owner) {
  json::object object;
  object["pid"] = owner.pid;
  object["start_time"] = owner.start_time;
  object["boot_id"] = owner.boot_id;
  object["cgroup_namespace"] = owner.cgroup_namespace;
  return object;
}

os::ProcessIdentity owner_field(const json::object& object) {
  const json::value* const owner = object.if_contains("owner");
  if (owner == nullptr || !owner->is_object()) return {};
  const json::object& fields = owner->get_object();
  return {number_field<pid_t>(fields, "pid"), number_field<std::uint64_t>(fields, "start_time"),
          text_field(fields, "boot_id"), number_field<std::uint64_t>(fields, "cgroup_namespace")};
}

bool is_session_id(std::string_view id) noexcept {
  return id.size() == 32 && id.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::optional<std::string> cgroup_to_kill(const std::string& cgroup, const os::ProcessIdentity& owner) {
  const std::string prefix = std::to_string(owner.pid) + "-";
  const std::string name = cgroup.substr(cgroup.rfind('/') + 1);
  if (!cgroup.starts_with('/') || cgroup.find("/../") != std::string::npos || !name.starts_with(prefix) ||
      !is_session_id(name.substr(prefix.size())) || owner.pid <= 0 || owner.boot_id != os::boot_id()) {
    return std::nullopt;
  }
  return cgroup;
}

}  // namespace caisson::kit
