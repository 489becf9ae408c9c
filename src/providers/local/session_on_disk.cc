// Making and removing a session's part of the root.
#include "providers/local/session_on_disk.h"

#include <chrono>
#include <thread>

#include "caisson/contract/errors.h"
#include "caisson/contract/json.h"
#include "contract/quote.h"
#include "os/fault_point.h"
#include "os/files.h"
#include "os/lock.h"
#include "os/remove_tree.h"
#include "providers/local/marker.h"

namespace caisson::local {
namespace {

// A recovery may look at a lock in the instant between its making and its taking.
constexpr int most_tries = 200;
constexpr std::chrono::milliseconds try_step{1};

os::Fd take_ownership(const Layout& layout, const std::string& id) {
  if (const auto fault = os::fault_point("create.lock"); !fault)
    fail_root(layout.root, "making a session's lock", fault.error());
  for (int tries = 0; tries < most_tries; ++tries) {
    auto lock = os::try_lock(layout.records, lock_name(id), os::LockKind::exclusive);
    if (!lock) fail_root(layout.root, "making a session's lock", lock.error());
    if (*lock) return std::move(**lock);
    std::this_thread::sleep_for(try_step);
  }
  fail_root(layout.root, "taking a session's lock", os::error_of(EWOULDBLOCK));
}

void require_gone(const os::Result<void>& removed, const std::string& path) {
  if (removed) return;
  throw SandboxError(ErrorCode::removal_failed, quote(path, 300) +
                                                    " cannot be removed: " + removed.error().message() +
                                                    "; take away what stands in the way, it is tried again");
}

}  // namespace

SessionOnDisk::SessionOnDisk(std::shared_ptr<const Layout> layout, const kit::SessionRecord& record,
                             const os::ProcessIdentity& owner, const std::string& cgroup)
    : layout_(std::move(layout)),
      id_(record.id),
      key_(record.spec.workspace_key),
      durability_(record.spec.durability),
      workspace_path_(durability_ == SandboxDurability::persistent ? layout_->workspace_path(key_)
                                                                   : layout_->ephemeral_path(id_)) {
  lock_ = take_ownership(*layout_, id_);
  try {
    make(record, owner, cgroup);
  } catch (...) {
    abandon();
    throw;
  }
}

void SessionOnDisk::make(const kit::SessionRecord& record, const os::ProcessIdentity& owner,
                         const std::string& cgroup) {
  write_marker(*layout_,
               {id_, key_, durability_, workspace_path_, format_time(record.created_at), cgroup, owner});
  if (durability_ == SandboxDurability::persistent) {
    share_ = kit::WorkspaceLock::take(layout_->store(), key_);
    adopt_workspace(record);
  } else {
    os::Result<void> made = os::fault_point("create.directory");
    if (made) made = os::make_directory_at(layout_->ephemeral, id_, 0700);
    if (!made) fail_root(layout_->root, "making a session's directory", made.error());
  }
}

void SessionOnDisk::adopt_workspace(const kit::SessionRecord& record) {
  os::Result<void> made = os::fault_point("create.workspace");
  if (made) made = os::make_directory_at(layout_->workspaces, key_, 0755);
  made_directory_ = made.has_value();
  if (!made && made.error() != os::error_of(EEXIST)) {
    fail_root(layout_->root, "making workspace " + quote(key_), made.error());
  }
  const auto is = os::status_at(layout_->workspaces, key_);
  if (!is) fail_root(layout_->root, "adopting workspace " + quote(key_), is.error());
  if (!S_ISDIR(is->st_mode)) {
    throw SandboxError(
        ErrorCode::workspace_conflict,
        quote(workspace_path_, 300) +
            " is no directory, so it cannot be the workspace of that key; move it away, or use another "
            "key",
        "workspace_key");
  }
  const auto has_sidecar = os::exists_at(layout_->sidecars, record_name(key_));
  if (!has_sidecar) fail_root(layout_->root, "adopting workspace " + quote(key_), has_sidecar.error());
  made_sidecar_ = !*has_sidecar;
  ensure_sidecar(*layout_, id_, record.spec, record.created_at);
}

void SessionOnDisk::remove(bool remove_workspace) {
  const std::lock_guard lock(mutex_);
  remove_locked(remove_workspace);
}

void SessionOnDisk::remove_locked(bool remove_workspace) {
  require_gone(os::fault_point("remove.temporary"), temporary_path());
  require_gone(os::remove_tree(layout_->records, temporary_name(id_)), temporary_path());
  if (durability_ == SandboxDurability::ephemeral) {
    require_gone(os::fault_point("remove.scratch"), workspace_path_);
    require_gone(os::remove_tree(layout_->ephemeral, id_), workspace_path_);
  } else if (share_) {
    share_->give_up(layout_->store(), remove_workspace);
  }
  const std::string marker = layout_->root + "'s marker of session " + id_;
  require_gone(os::fault_point("remove.marker"), marker);
  require_gone(os::unlink_at(layout_->records, record_name(id_)), marker);
  os::kill_point("remove.lock");
  static_cast<void>(os::unlink_at(layout_->records, lock_name(id_)));
  lock_.reset();
  os::kill_point("remove.end");
}

void SessionOnDisk::abandon() noexcept {
  os::kill_point("abandon.begin");
  const std::lock_guard lock(mutex_);
  if (share_) {
    share_->abandon(layout_->store(), made_directory_, made_sidecar_);
    share_.reset();
  }
  try {
    remove_locked(false);
  } catch (const std::exception&) {
    lock_.reset();
  }
}

}  // namespace caisson::local
