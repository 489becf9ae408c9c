// Recovery of a root.
#include "providers/local/recovery.h"

#include <chrono>
#include <optional>
#include <set>
#include <thread>

#include "caisson/contract/errors.h"
#include "caisson/contract/validate.h"
#include "contract/quote.h"
#include "kit/disk_record.h"
#include "kit/workspace_lock.h"
#include "os/cgroup.h"
#include "os/directory_users.h"
#include "os/fault_point.h"
#include "os/files.h"
#include "os/identity.h"
#include "os/lock.h"
#include "os/remove_tree.h"
#include "os/spawn.h"
#include "providers/local/marker.h"

namespace caisson::local {
namespace {

constexpr std::chrono::seconds kill_patience{2};
constexpr int most_looks = 100;
constexpr std::chrono::milliseconds look_step{1};
constexpr std::chrono::milliseconds use_step{20};

class Recovery {
 public:
  Recovery(const Layout& layout, const kit::Log& log) : layout_(layout), log_(log) {}

  std::vector<std::string> run() {
    os::kill_point("recover.begin");
    // Scratch is listed first: a live session's marker is there before its scratch, and goes after it.
    const std::vector<std::string> scratch = names(layout_.ephemeral);
    std::set<std::string> ids;
    for (const std::string& name : names(layout_.records)) {
      const std::string stem = name.substr(0, name.find('.'));
      if (kit::is_session_id(stem)) ids.insert(stem);
    }
    for (const std::string& id : ids) recover_session(id);
    // Wishes, and the locks of keys that nobody uses: whoever fulfilled a wish may have died before the lock
    // went.
    std::set<std::string> keys;
    for (const std::string& name : names(layout_.keys)) {
      const std::string key = name.substr(0, name.find('.'));
      if (is_workspace_key(key) && (name == wish_name(key) || name == lock_name(key))) keys.insert(key);
    }
    for (const std::string& key : keys) {
      if (recover_wish(key)) handled("workspace " + key + ", which was to be removed");
    }
    recover_unmarked(scratch);
    os::kill_point("recover.end");
    return std::move(handled_);
  }

 private:
  std::vector<std::string> names(os::FdRef directory) const {
    auto listed = os::names_in(directory);
    if (listed) return std::move(*listed);
    say(kit::LogLevel::warning,
        "recovery of " + quote(layout_.root) + " cannot list a directory: " + listed.error().message());
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

  void recover_session(const std::string& id) {
    if (const auto fault = os::fault_point("recover.session"); !fault)
      return left("session " + id, fault.error().message());
    const auto lock = os::try_lock(layout_.records, lock_name(id), os::LockKind::exclusive);
    if (!lock) return left("session " + id, lock.error().message());
    if (!*lock) return;  // Its owner lives.
    std::string what = "session " + id;
    const auto look = os::exists_at(layout_.records, record_name(id));
    if (!look) return left(what, look.error().message());
    const bool marked = *look;
    const auto marker = read_marker(layout_, id);
    // A marker that makes no sense is still ours, and names its session; one that cannot be read may name
    // processes.
    if (marked && !marker && marker.error() != os::error_of(EBADMSG))
      return left(what, marker.error().message());
    if (marker && !end_processes(*marker)) return;
    for (const auto& [directory, name] :
         {std::pair(os::FdRef(layout_.ephemeral), marked ? id : std::string()),
          std::pair(os::FdRef(layout_.records), temporary_name(id)),
          std::pair(os::FdRef(layout_.records), new_name(id))}) {
      if (name.empty()) continue;
      os::Result<void> removed = os::fault_point("recover.remove");
      if (removed) removed = os::remove_tree(directory, name);
      if (!removed) return left(what, removed.error().message());
    }
    if (marker && marker->durability == SandboxDurability::persistent &&
        is_workspace_key(marker->workspace_key)) {
      what += recover_wish(marker->workspace_key) ? " and its workspace " : ", keeping its workspace ";
      what += marker->workspace_key;
    }
    os::Result<void> gone = os::fault_point("recover.marker");
    if (gone) gone = os::unlink_at(layout_.records, record_name(id));
    if (!gone) return left(what, gone.error().message());
    os::kill_point("recover.lock");
    static_cast<void>(os::unlink_at(layout_.records, lock_name(id)));
    // Without a marker its owner died before it had made anything, or ended it in the meantime.
    if (marked) handled(what);
  }

  // Whether the owner of a cgroup lives. Other recoveries, and children of a dead owner on the way to their
  // programs, hold its lock for an instant.
  static bool is_in_use(const std::string& cgroup) {
    for (int tries = 0; tries < most_looks; ++tries) {
      const auto in_use = os::cgroup_in_use(cgroup);
      if (in_use && !*in_use) return false;
      std::this_thread::sleep_for(look_step);
    }
    return true;
  }

  bool end_processes(const Marker& marker) const {
    if (marker.owner.boot_id != own_.boot_id) return true;
    const std::optional<std::string> cgroup = kit::cgroup_to_kill(marker.cgroup, marker.owner);
    if (!cgroup || !can_see(*cgroup, marker.owner)) return wait_until_unused(marker);
    if (is_in_use(*cgroup)) {
      left("session " + marker.id, "its owner, who gave it up, lives and has others");
      return false;
    }
    os::Result<void> removed = os::fault_point("recover.kill");
    if (removed) removed = os::remove_cgroup_tree(*cgroup, kill_patience);
    if (removed) return true;
    left("session " + marker.id, "its processes do not end: " + removed.error().message());
    return false;
  }

  // Whether a cgroup of that path that is not there is no more, rather than not to be seen from here.
  bool can_see(const std::string& cgroup, const os::ProcessIdentity& owner) const {
    return os::candidate_exists({}, cgroup) ||
           (owner.cgroup_namespace == own_.cgroup_namespace && os::is_in_cgroup_hierarchy(cgroup));
  }

  // Processes that nothing here can name: shims end them with their owner, at once. What has not ended by
  // then is seen at least where it uses the scratch directory.
  bool wait_until_unused(const Marker& marker) const {
    if (marker.durability == SandboxDurability::persistent) return true;
    const auto until = std::chrono::steady_clock::now() + kill_patience;
    while (os::directory_users(layout_.ephemeral, {marker.id}).used.contains(marker.id)) {
      if (std::chrono::steady_clock::now() >= until) {
        left("session " + marker.id, "processes of it live, and cannot be ended from here; those that use " +
                                         layout_.ephemeral_path(marker.id) + " are to be killed by hand");
        return false;
      }
      std::this_thread::sleep_for(use_step);
    }
    return true;
  }

  bool recover_wish(const std::string& key) const {
    try {
      return kit::fulfil_wish(layout_.store(), key);
    } catch (const SandboxError& error) {
      left("workspace " + key, error.what());
      return false;
    }
  }

  // S-92: scratch without a marker was made by another implementation. It is dead, unless a process uses it,
  // or one that cannot be looked into might.
  void recover_unmarked(const std::vector<std::string>& scratch) {
    std::set<std::string> unmarked;
    for (const std::string& name : scratch) {
      const auto is = os::status_at(layout_.ephemeral, name);
      const auto marked = os::exists_at(layout_.records, record_name(name));
      if (is && S_ISDIR(is->st_mode) && marked && !*marked) unmarked.insert(name);
    }
    if (unmarked.empty()) return;
    const os::DirectoryUsers users = os::directory_users(layout_.ephemeral, unmarked);
    for (const std::string& name : unmarked) {
      const std::string what = "scratch directory " + quote(name);
      if (users.used.contains(name)) {
        left(what, "a process uses it");
      } else if (users.not_inspected) {
        left(what,
             "process " + std::to_string(*users.not_inspected) + " cannot be looked into and might use it");
      } else {
        os::Result<void> removed = os::fault_point("recover.unmarked");
        if (removed) removed = os::remove_tree(layout_.ephemeral, name);
        if (removed) handled(what + ", which nobody uses");
        if (!removed) left(what, removed.error().message());
      }
    }
  }

  const Layout& layout_;
  const kit::Log& log_;
  const os::ProcessIdentity own_ = os::own_identity();
  std::vector<std::string> handled_;
};

}  // namespace

std::vector<std::string> recover(const Layout& layout, const kit::Log& log) {
  return Recovery(layout, log).run();
}

}  // namespace caisson::local
