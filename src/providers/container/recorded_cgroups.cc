// Removing the cgroups that a record names, if they are its session's.
#include "providers/container/recorded_cgroups.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>

#include <chrono>
#include <thread>

#include "kit/disk_record.h"
#include "os/beneath.h"
#include "os/cgroup.h"
#include "os/clock.h"
#include "os/fault_point.h"
#include "os/files.h"

namespace caisson::container {
namespace {

constexpr std::chrono::seconds patience{2};
constexpr std::chrono::milliseconds step{1};
constexpr int deepest = 64;

enum class Whose { session, nobody_knows, gone };

bool process_exists(pid_t pid) {
  const auto processes = os::open_directory("/proc");
  const auto there = processes ? os::exists_at(*processes, std::to_string(pid)) : os::Result<bool>(true);
  return !there || *there;
}

Whose whose(const std::string& path, const os::ProcessIdentity& owner, const std::string& session_id,
            std::uint64_t file_system) {
  if (!kit::cgroup_to_kill(path, owner)) return Whose::nobody_knows;
  const auto directory = os::open_directory(path);
  if (!directory && directory.error() == os::error_of(ENOENT)) return Whose::gone;
  const auto descriptors = os::open_directory("/proc/self/fd");
  if (!directory || !descriptors) return Whose::nobody_knows;
  // A symlink may bear any name.
  const auto true_path = os::read_link_at(*descriptors, std::to_string(directory->number()));
  const auto type = os::file_system_type(*directory);
  if (!true_path || *true_path != path || !type || *type != file_system) return Whose::nobody_knows;
  if (path.ends_with("/" + cgroup_name(owner, session_id))) return Whose::session;
  const auto in_use = os::cgroup_in_use(path);
  return process_exists(owner.pid) || !in_use || *in_use ? Whose::nobody_knows : Whose::session;
}

// Whoever is in it still keeps it: nobody is killed.
os::Result<void> remove_empty(os::FdRef parent, const std::string& name, int depth) {
  if (depth > deepest) return os::error_of(ELOOP);
  const auto directory = os::open_at(parent, name, O_PATH | O_DIRECTORY);
  if (!directory && directory.error() == os::error_of(ENOENT)) return {};
  if (!directory) return directory.error();
  const auto names = os::names_in(*directory);
  if (!names) return names.error();
  for (const std::string& child : *names) {
    const auto is = os::status_at(*directory, child);
    if (!is || !S_ISDIR(is->st_mode)) continue;
    const auto removed = remove_empty(*directory, child, depth + 1);
    if (!removed) return removed;
  }
  return os::remove_directory_at(parent, name);
}

// The kernel takes a moment to let go of what was killed.
os::Result<void> remove_when_empty(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const auto parent = os::open_directory(path.substr(0, slash));
  if (!parent) return parent.error();
  const auto until = std::chrono::steady_clock::now() + patience;
  for (;;) {
    const auto removed = remove_empty(*parent, path.substr(slash + 1), 0);
    const bool again = !removed && removed.error() == os::error_of(EBUSY);
    if (!again || std::chrono::steady_clock::now() >= until) return removed;
    std::this_thread::sleep_for(step);
  }
}

}  // namespace

std::string cgroup_name(const os::ProcessIdentity& owner, const std::string& session_id) {
  return std::to_string(owner.pid) + "-" + session_id;
}

CgroupRemoval remove_recorded_cgroups(const SessionCgroups& cgroups, const os::ProcessIdentity& owner,
                                      const std::string& session_id) {
  CgroupRemoval removal;
  if (owner.boot_id != os::boot_id()) return removal;  // Of the last boot nothing is left.
  const auto consider = [&](const std::string& path, std::uint64_t file_system, auto remove) {
    const Whose is = whose(path, owner, session_id, file_system);
    if (is == Whose::nobody_knows) removal.ignored.push_back(path);
    if (is != Whose::session) return;
    const os::Result<void> removed = remove();
    if (!removed) removal.failure = "its cgroup " + path + " cannot be removed: " + removed.error().message();
  };
  if (!cgroups.unified.empty()) {
    consider(cgroups.unified, CGROUP2_SUPER_MAGIC, [&]() -> os::Result<void> {
      if (const auto fault = os::fault_point("salvage.kill"); !fault) return fault;
      return os::remove_cgroup_tree(cgroups.unified, patience);
    });
  }
  for (const std::string& path : cgroups.legacy)
    consider(path, CGROUP_SUPER_MAGIC, [&] { return remove_when_empty(path); });
  return removal;
}

}  // namespace caisson::container
