// SessionOnDisk: what a container session has on disk, made and removed (S-24 to S-29, S-103, D-7).
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "caisson/kit/managed_sandbox.h"
#include "os/identity.h"
#include "providers/container/layout.h"
#include "providers/container/uid_slots.h"
#include "providers/container/volumes.h"

namespace caisson::container {

/// A session's lock and record, its ids and its share in a persistent workspace. Every call blocks; those
/// that meet wait for each other. Dropping it removes nothing and lets go of its locks, as the death of the
/// process does: the next recovery removes the rest.
class SessionOnDisk {
 public:
  /// Makes it for `owner`, this process; `cgroups` are the directories that will hold the session's
  /// processes. Throws root_unusable, workspace_conflict or unavailable, leaving nothing.
  SessionOnDisk(std::shared_ptr<const Layout> layout, std::shared_ptr<UidSlots> slots,
                const kit::SessionRecord& session, const os::ProcessIdentity& owner,
                const std::vector<std::string>& cgroups);

  const UidSlot& slot() const noexcept { return volume_ ? volume_->slot() : lease_.slot; }
  /// The path of the persistent workspace; empty for an ephemeral one, which is in the box.
  std::string volume_path() const { return volume_ ? volume_->path() : std::string(); }

  /// Removes it, once no process of the session is left; a persistent workspace too when `remove_workspace`.
  /// Throws removal_failed; then call it again.
  void remove(bool remove_workspace);
  /// Removes what was made, for a create that fails later on (S-27): what cannot be removed is for the next
  /// recovery.
  void abandon() noexcept;

 private:
  void make(const kit::SessionRecord& session, const os::ProcessIdentity& owner,
            const std::vector<std::string>& cgroups);
  void remove_locked(bool remove_workspace);

  std::shared_ptr<const Layout> layout_;
  std::shared_ptr<UidSlots> slots_;
  std::string id_;
  std::mutex mutex_;  // A sandbox that closes removes what a stuck removal may still be at.
  os::Fd lock_;
  std::optional<Volume> volume_;  // Of a persistent session.
  UidLease lease_;                // Of an ephemeral one, until it is given back.
  bool leased_ = false;
};

/// What recovery needs of a session's record.
struct RecordedSession {
  std::string workspace_key;  ///< Empty: the session is ephemeral.
  std::vector<std::string> cgroups;
  os::ProcessIdentity owner;
};
/// ENOENT: there is none; EBADMSG: it makes no sense.
os::Result<RecordedSession> recorded_session(const Layout& layout, const std::string& id);

}  // namespace caisson::container
