// Volumes: persistent workspaces, the ids that their files belong to, and who uses them (S-25, S-101, S-103).
#pragma once

#include <memory>
#include <string>

#include "caisson/kit/managed_sandbox.h"
#include "kit/workspace_lock.h"
#include "providers/container/storage.h"
#include "providers/container/volume_record.h"

namespace caisson::container {

/// A session's share in a persistent workspace. Blocking calls, one at a time. Destroying it lets go of the
/// share and nothing else, as the death of its process does.
class Volume {
 public:
  /// The volume of the session's key, made if it is not there, open for use. It has the ids and the bound
  /// that it is recorded with; a new one a new slot. Throws workspace_conflict (also for a directory that has
  /// no record, or one that makes no sense: nobody knows whose its files are), SandboxSpecRejectedError where
  /// it cannot be bounded, root_unusable or unavailable, leaving nothing.
  static Volume take(std::shared_ptr<const Storage> storage, const kit::SessionRecord& session);

  /// Where it is, in the mount namespace of this process. As root it belongs to the box's root.
  const std::string& path() const noexcept { return path_; }
  const UidSlot& slot() const noexcept { return record_.slot; }
  const WorkspaceBound& bound() const noexcept { return record_.bound; }
  /// Whether boxes of other workspaces may have its ids too.
  bool slot_is_shared() const noexcept { return slot_is_shared_; }

  /// As kit::WorkspaceLock's. No process of the session may be left.
  void give_up(bool remove);
  void abandon() noexcept;
  /// The wish of a session that has left already.
  static void remove_when_unused(const Storage& storage, const std::string& key);

 private:
  Volume(std::shared_ptr<const Storage> storage, std::string key, kit::WorkspaceLock share);
  void adopt(const kit::SessionRecord& session);
  UidLease find(const kit::SessionRecord& session);
  void write_record(const kit::SessionRecord& session, const UidLease& lease);
  void take_back() noexcept;

  std::shared_ptr<const Storage> storage_;
  std::string key_;
  std::string path_;
  kit::WorkspaceLock share_;
  VolumeRecord record_;
  bool slot_is_shared_ = false;
  bool made_ = false;  // By this session: it goes again when that cannot be made.
};

/// Fulfils the wish to remove `key`'s volume, if there is one and nobody uses it, and closes it in any case
/// that nobody does; whether it was removed. Throws removal_failed.
bool settle_volume(const Storage& storage, const std::string& key);

}  // namespace caisson::container
