// Recovery of a runtime directory and of the volumes of a root.
#include "providers/container/recovery.h"

#include <chrono>
#include <set>
#include <thread>

#include "caisson/contract/errors.h"
#include "caisson/contract/validate.h"
#include "contract/quote.h"
#include "kit/disk_record.h"
#include "kit/workspace_lock.h"
#include "os/cgroup.h"
#include "os/fault_point.h"
#include "os/files.h"
#include "os/lock.h"
#include "os/remove_tree.h"
#include "providers/container/session_on_disk.h"
#include "providers/container/volumes.h"

namespace caisson::container {
namespace {

constexpr std::chrono::seconds kill_patience{2};
constexpr int most_looks = 100;
constexpr std::chrono::milliseconds look_step{1};

class Recovery {
 public:
  Recovery(const Layout& layout, UidSlots& slots, const kit::Log& log)
      : layout_(layout), slots_(slots), log_(log) {}

  std::vector<std::string> run() {
    std::set<std::string> ids;
    for (const std::string& name : names(layout_.sessions, layout_.runtime_directory)) {
      const std::string stem = name.substr(0, name.find('.'));
      if (kit::is_session_id(stem)) ids.insert(stem);
    }
    for (const std::string& id : ids) recover_session(id);
    std::set<std::string> keys;
    for (const std::string& name : names(layout_.keys, layout_.root)) {
      const std::string stem = name.substr(0, name.find('.'));
      if (is_workspace_key(stem) && (name == kit::wish_name(stem) || name == kit::lock_name(stem)))
        keys.insert(stem);
    }
    for (const std::string& key : keys) {
      if (recover_wish(key)) handled("workspace " + key + ", which was to be removed");
    }
    slots_.remove_abandoned();
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

  void recover_session(const std::string& id) {
    const auto lock = os::try_lock(layout_.sessions, kit::lock_name(id), os::LockKind::exclusive);
    if (!lock) return left("session " + id, lock.error().message());
    if (!*lock) return;  // Its owner lives.
    std::string what = "session " + id;
    const auto there = os::exists_at(layout_.sessions, id);
    if (!there) return left(what, there.error().message());
    const auto session = recorded_session(layout_, id);
    // A record that makes no sense is still ours, and names its session; one that cannot be read may name
    // processes.
    if (!session && kit::is_of_the_machine(session.error())) return left(what, session.error().message());
    if (session && !end_processes(id, *session)) return;
    if (session && is_workspace_key(session->workspace_key)) {
      what += recover_wish(session->workspace_key) ? " and its workspace " : ", keeping its workspace ";
      what += session->workspace_key;
    }
    os::Result<void> gone = os::fault_point("container.recover.remove");
    if (gone) gone = os::remove_tree(layout_.sessions, id);
    if (!gone) return left(what, gone.error().message());
    os::kill_point("container.recover.lock");
    static_cast<void>(os::unlink_at(layout_.sessions, kit::lock_name(id)));
    // Without a record its owner died before it had made anything, or ended it in the meantime.
    if (*there) handled(what);
  }

  bool end_processes(const std::string& id, const RecordedSession& session) const {
    for (const std::string& path : session.cgroups) {
      const auto cgroup = kit::cgroup_to_kill(path, session.owner);
      if (!cgroup) continue;
      if (is_in_use(*cgroup)) {
        left("session " + id, "its owner, who gave it up, lives and has others");
        return false;
      }
      const auto removed = os::remove_cgroup_tree(*cgroup, kill_patience);
      if (removed) continue;
      left("session " + id, "its processes do not end: " + removed.error().message());
      return false;
    }
    return true;
  }

  // Other recoveries, and children of a dead owner on the way to their programs, hold its lock for an
  // instant.
  static bool is_in_use(const std::string& cgroup) {
    for (int tries = 0; tries < most_looks; ++tries) {
      const auto in_use = os::cgroup_in_use(cgroup);
      if (in_use && !*in_use) return false;
      std::this_thread::sleep_for(look_step);
    }
    return true;
  }

  bool recover_wish(const std::string& key) const {
    const auto slot = recorded_slot(layout_, key);
    try {
      if (!kit::fulfil_wish(layout_.store(), key)) return false;
    } catch (const SandboxError& error) {
      left("workspace " + key, error.what());
      return false;
    }
    if (slot) slots_.forget(*slot);
    return true;
  }

  const Layout& layout_;
  UidSlots& slots_;
  const kit::Log& log_;
  std::vector<std::string> handled_;
};

}  // namespace

std::vector<std::string> recover(const Layout& layout, UidSlots& slots, const kit::Log& log) {
  return Recovery(layout, slots, log).run();
}

}  // namespace caisson::container
