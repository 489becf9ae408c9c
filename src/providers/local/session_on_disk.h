// SessionOnDisk: what a local session has on disk, made and removed (S-24 to S-27, S-92).
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "caisson/kit/managed_sandbox.h"
#include "kit/workspace_lock.h"
#include "os/identity.h"
#include "providers/local/layout.h"

namespace caisson::local {

/// A session's lock, marker and workspace, and the directory that its files on their way make. Every call
/// blocks; those that meet wait for each other. Dropping it removes nothing and lets go of its locks, as the
/// death of the process does: the next recovery removes the rest.
class SessionOnDisk {
 public:
  /// Makes it for `owner`, this process, whose `cgroup` holds the session's processes. Throws root_unusable
  /// or workspace_conflict, leaving nothing.
  SessionOnDisk(std::shared_ptr<const Layout> layout, const kit::SessionRecord& record,
                const os::ProcessIdentity& owner, const std::string& cgroup);

  const std::string& workspace_path() const noexcept { return workspace_path_; }
  std::string temporary_path() const { return layout_->temporary_path(id_); }

  /// Removes it, a persistent workspace too when `remove_workspace`. Throws removal_failed; then call it
  /// again.
  void remove(bool remove_workspace);
  /// Removes what was made, for a create that fails later on (S-27): what cannot be removed is for the next
  /// recovery.
  void abandon() noexcept;

 private:
  void remove_locked(bool remove_workspace);
  void make(const kit::SessionRecord& record, const os::ProcessIdentity& owner, const std::string& cgroup);
  void adopt_workspace(const kit::SessionRecord& record);

  std::shared_ptr<const Layout> layout_;
  std::string id_;
  std::string key_;
  SandboxDurability durability_;
  std::string workspace_path_;
  std::mutex mutex_;  // a sandbox that closes removes what a stuck removal may still be at
  os::Fd lock_;
  std::optional<kit::WorkspaceLock> share_;
  bool made_directory_ = false;
  bool made_sidecar_ = false;
};

}  // namespace caisson::local
