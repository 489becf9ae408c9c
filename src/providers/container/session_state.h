// SessionOnDisk: what a container session has on disk, made and removed (S-24 to S-29, S-103, D-7).
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "caisson/kit/managed_sandbox.h"
#include "os/identity.h"
#include "providers/container/recorded_cgroups.h"
#include "providers/container/storage.h"
#include "providers/container/uid_slots.h"
#include "providers/container/volumes.h"

namespace caisson::container {

/// A session's lock and record, its ids, and its share in a persistent workspace. Every call blocks; those
/// that meet wait for each other. Dropping it removes nothing and lets go of its locks, as the death of the
/// process does: the next recovery removes the rest.
class SessionOnDisk {
 public:
  /// Makes it for `owner`, this process. `cgroups`: those that will be made for it, called cgroup_name(), as
  /// they will be. Throws root_unusable, workspace_conflict, unavailable, or
  /// SandboxSpecRejectedError where a persistent workspace would have no bound, leaving nothing.
  SessionOnDisk(std::shared_ptr<const Storage> storage, const kit::SessionRecord& session,
                const os::ProcessIdentity& owner, SessionCgroups cgroups = {});

  /// The ids of the box.
  const UidSlot& slot() const noexcept { return volume_ ? volume_->slot() : lease_.slot; }
  /// Whether other boxes may have them too (S-103: doctor says so).
  bool slot_is_shared() const noexcept { return volume_ ? volume_->slot_is_shared() : lease_.shared; }
  /// Where the persistent workspace is, in the mount namespace of this process, to be copied into the box;
  /// empty for an ephemeral one, which is in the box.
  std::string volume_path() const { return volume_ ? volume_->path() : std::string(); }
  /// A directory of the session's own (0700), for sockets and the like. `session.json` in it is taken.
  std::string state_path() const { return storage_->layout->state_path(id_); }

  /// Records the session that has it from now on, of the same id and ephemeral too. Throws root_unusable;
  /// what was recorded stays.
  void pass_on(const kit::SessionRecord& session);

  /// Removes it, once no process of the session is left and its cgroups are removed; a persistent workspace
  /// too when `remove_workspace`. Throws removal_failed; then call it again.
  void remove(bool remove_workspace);
  /// Removes what was made, for a create that fails later on (S-27): what cannot be removed is for the next
  /// recovery.
  void abandon() noexcept;

 private:
  void make(const kit::SessionRecord& session);
  void write_record();
  void remove_locked(bool remove_workspace);

  const std::shared_ptr<const Storage> storage_;
  const std::string id_;
  kit::SessionRecord session_;  // Without its environment.
  const os::ProcessIdentity owner_;
  const SessionCgroups cgroups_;
  std::mutex mutex_;  // A sandbox that closes removes what a stuck removal may still be at.
  os::Fd lock_;
  os::Fd state_;
  std::optional<Volume> volume_;  // Of a persistent session.
  UidLease lease_;                // Of an ephemeral one.
  bool has_lease_ = false;
};

/// What recovery needs of a session's record.
struct RecordedSession {
  std::string workspace_key;  ///< Of a persistent one; empty: it is ephemeral.
  SessionCgroups cgroups;
  os::ProcessIdentity owner = {};
};
/// ENOENT: there is none; EBADMSG: it makes no sense. What it says is not to be believed (recovery.h).
os::Result<RecordedSession> read_session_record(const Layout& layout, const std::string& id);

}  // namespace caisson::container
