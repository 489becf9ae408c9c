// Volumes: persistent workspaces, the ids that their files belong to, and who uses them (S-25, S-103).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "caisson/kit/managed_sandbox.h"
#include "kit/workspace_lock.h"
#include "providers/container/layout.h"
#include "providers/container/uid_slots.h"

namespace caisson::container {

/// The slots of a layout, which know the records of its volumes.
std::shared_ptr<UidSlots> open_uid_slots(const std::shared_ptr<const Layout>& layout, UidRanges ranges);

/// A session's share in a persistent workspace. Blocking calls, one at a time. Destroying it lets go of the
/// share and nothing else, as the death of its process does.
class Volume {
 public:
  /// The volume of the session's key, made if it is not there, with the ids that it is recorded with, or a
  /// new slot of them. As root its directory belongs to the box's root. Throws workspace_conflict (also for a
  /// directory that has no record, or one that makes no sense: nobody knows whose its files are),
  /// root_unusable or unavailable, leaving nothing.
  static Volume take(std::shared_ptr<const Layout> layout, std::shared_ptr<UidSlots> slots,
                     const kit::SessionRecord& session);

  const std::string& path() const noexcept { return path_; }
  const UidSlot& slot() const noexcept { return slot_; }
  /// Whether boxes of other workspaces may have its ids too.
  bool slot_is_shared() const noexcept { return slot_is_shared_; }

  /// As kit::WorkspaceLock's.
  void give_up(bool remove);
  void abandon() noexcept;
  /// The wish of a session that has left already.
  static void remove_when_unused(const Layout& layout, UidSlots& slots, const std::string& key);

 private:
  Volume(std::shared_ptr<const Layout> layout, std::shared_ptr<UidSlots> slots, std::string key,
         kit::WorkspaceLock share);
  void adopt(const kit::SessionRecord& session);
  void make_directory();

  std::shared_ptr<const Layout> layout_;
  std::shared_ptr<UidSlots> slots_;
  std::string key_;
  std::string path_;
  kit::WorkspaceLock share_;
  UidSlot slot_;
  bool slot_is_shared_ = false;
  bool made_record_ = false;
  bool made_directory_ = false;
};

/// The slot that a volume is recorded with. ENOENT: it has no record; EBADMSG: one that makes no sense.
os::Result<UidSlot> recorded_slot(const Layout& layout, const std::string& key);

}  // namespace caisson::container
