// Records of sessions and workspaces on disk, as JSON objects that other processes read after this one's
// death.
#pragma once

#include <sys/types.h>

#include <boost/json/object.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "caisson/contract/models.h"
#include "os/fd.h"
#include "os/identity.h"

namespace caisson::kit {

struct DiskRecord {
  std::string text;
  boost::json::object object;
};
/// EBADMSG for what is no JSON object.
os::Result<DiskRecord> read_disk_record(os::FdRef directory, const std::string& name);
/// Replaces a file: a reader sees the old bytes or the new, and nothing is left of a failure. `temporary` is
/// a name that nobody else uses in `temporaries`, on the same file system.
os::Result<void> replace_disk_record(os::FdRef temporaries, const std::string& temporary, os::FdRef directory,
                                     const std::string& name, std::string_view text, mode_t mode);
/// Whether an error of these says nothing of the file, but of the machine: try it again later.
bool is_of_the_machine(const os::Error& error) noexcept;

/// Empty where there is no such text.
std::string text_field(const boost::json::object& object, std::string_view key);
/// 0 where there is no such number, or it does not fit.
template <class Number>
Number number_field(const boost::json::object& object, std::string_view key) {
  const boost::json::value* const value = object.if_contains(key);
  if (value == nullptr) return 0;
  boost::system::error_code error;
  const Number number = value->to_number<Number>(error);
  return error ? 0 : number;
}
boost::json::object json_of(const Labels& labels);
boost::json::object json_of(const os::ProcessIdentity& owner);
/// The owner that is recorded as `owner`; no process where there is none.
os::ProcessIdentity owner_field(const boost::json::object& object);

/// Whether `id` is 32 lowercase hex digits (S-28).
bool is_session_id(std::string_view id) noexcept;

/// The cgroup that a record names, if it is named as its owner names its cgroups and the owner ran in this
/// boot: what runs in a session may rewrite a record, and is not to have another cgroup killed by it.
std::optional<std::string> cgroup_to_kill(const std::string& cgroup, const os::ProcessIdentity& owner);

}  // namespace caisson::kit
