// Recovery of a runtime directory, and of the volumes and ids of a root.
#include "providers/container/recovery.h"

#include <set>

#include "caisson/contract/errors.h"
#include "caisson/contract/validate.h"
#include "contract/quote.h"
#include "kit/disk_record.h"
#include "kit/workspace_lock.h"
#include "os/fault_point.h"
#include "os/files.h"
#include "os/lock.h"
#include "os/mount.h"
#include "os/remove_tree.h"
#include "providers/container/recorded_cgroups.h"
#include "providers/container/session_state.h"
#include "providers/container/volumes.h"

namespace caisson::container {
namespace {

class Recovery {
 public:
  Recovery(const Storage& storage, const kit::Log& log)
      : storage_(storage), layout_(*storage.layout), log_(log) {}

  std::vector<std::string> run() {
    os::kill_point("salvage.begin");
    std::set<std::string> ids;
    for (const std::string& name : names(layout_.sessions, layout_.runtime_directory)) {
      const std::string stem = name.substr(0, name.find('.'));
      if (kit::is_session_id(stem)) ids.insert(stem);
    }
    for (const std::string& id : ids) recover_session(id);
    for (const std::string& key : keys()) recover_volume(key);
    for (const std::string& freed : storage_.slots->recover()) handled(freed);
    os::kill_point("salvage.end");
    return std::move(handled_);
  }

 private:
  std::vector<std::string> names(os::FdRef directory, const std::string& path) const {
    auto listed = os::names_in(directory);
    if (listed) return std::move(*listed);
    say(kit::LogLevel::warning,
        "recovery of " + quote(path) + " cannot list a directory: " + listed.error().message());
    return {};
  }
  void say(kit::LogLevel level, const std::string& message) const {
    if (log_) log_(level, message);
  }
  void handled(const std::string& what) {
    say(kit::LogLevel::info, "recovered: " + what);
    handled_.push_back(what);
  }
  void left(const std::string& what, const std::string& why) const {
    say(kit::LogLevel::warning, what + " is left for the next recovery: " + why);
  }

  // Of which there is more than a workspace at rest: locks, wishes, what was being made, a mount.
  std::set<std::string> keys() const {
    std::set<std::string> keys;
    for (const std::string& name : names(layout_.keys, layout_.root)) {
      const std::string key = name.substr(0, name.find('.'));
      if (is_workspace_key(key)) keys.insert(key);
    }
    for (const std::string& name : names(layout_.volumes, layout_.root)) {
      const std::string key = name.substr(0, name.find('.'));
      if (is_workspace_key(key) && name == image_name(key) && is_mounted(key)) keys.insert(key);
    }
    return keys;
  }
  bool is_mounted(const std::string& key) const {
    const auto mounted = os::is_mount_at(layout_.volumes, key);
    return mounted && *mounted;
  }

  void recover_session(const std::string& id) {
    std::string what = "session " + id;
    const auto fault = os::fault_point("salvage.session");
    const auto lock = fault ? os::try_lock(layout_.sessions, kit::lock_name(id), os::LockKind::exclusive)
                            : os::Result<std::optional<os::Fd>>(fault.error());
    if (!lock) return left(what, lock.error().message());
    if (!*lock) return;  // Its owner lives.
    const auto there = os::exists_at(layout_.sessions, id);
    if (!there) return left(what, there.error().message());
    const auto record = read_session_record(layout_, id);
    // A record that makes no sense is still ours, and names its session; one that cannot be read may name
    // processes.
    if (!record && kit::is_of_the_machine(record.error())) return left(what, record.error().message());
    if (record && !end_processes(id, *record)) return;
    if (record && is_workspace_key(record->workspace_key)) {
      what += settle(record->workspace_key) ? " and its workspace " : ", keeping its workspace ";
      what += record->workspace_key;
    }
    const auto doomed = os::fault_point("salvage.remove");
    const auto gone = doomed ? os::remove_tree(layout_.sessions, id) : doomed;
    if (!gone) return left(what, gone.error().message());
    os::kill_point("salvage.lock");
    static_cast<void>(os::unlink_at(layout_.sessions, kit::lock_name(id)));
    // Without a state its owner died before it had made anything, or ended it in the meantime.
    if (*there) handled(what);
  }

  bool end_processes(const std::string& id, const RecordedSession& session) const {
    const CgroupRemoval removal = remove_recorded_cgroups(session.cgroups, session.owner, id);
    for (const std::string& path : removal.ignored)
      say(kit::LogLevel::warning,
          "session " + id + " names " + quote(path, 300) + ", which is no cgroup of its own");
    if (!removal.failure.empty()) left("session " + id, removal.failure);
    return removal.failure.empty();
  }

  void recover_volume(const std::string& key) {
    remove_half_made(key);
    const bool was_mounted = is_mounted(key);
    if (settle(key)) {
      handled("workspace " + key + ", which was to be removed");
    } else if (was_mounted && !is_mounted(key)) {
      handled("workspace " + key + ", which nobody uses any more");
    }
  }

  bool settle(const std::string& key) const {
    try {
      return settle_volume(storage_, key);
    } catch (const SandboxError& error) {
      left("workspace " + key, error.what());
      return false;
    }
  }

  // What was on its way when its maker died.
  void remove_half_made(const std::string& key) const {
    bool any = false;
    for (const std::string& name : {making_name(key), new_name(key), image_name(key)}) {
      const auto there = os::exists_at(layout_.keys, name);
      any = any || (there && *there);
    }
    if (!any) return;
    auto lock = os::try_lock(layout_.keys, making_name(key), os::LockKind::exclusive);
    if (!lock) return left("workspace " + key, lock.error().message());
    if (!*lock) return;  // It is being made.
    for (const std::string& name : {new_name(key), image_name(key), making_name(key)})
      static_cast<void>(os::unlink_at(layout_.keys, name));
    os::unlock(std::move(**lock));
  }

  const Storage& storage_;
  const Layout& layout_;
  const kit::Log& log_;
  std::vector<std::string> handled_;
};

}  // namespace

std::vector<std::string> recover(const Storage& storage, const kit::Log& log) {
  return Recovery(storage, log).run();
}

}  // namespace caisson::container
