// Uid slots: the range of ids that a box, and its workspace, has outside of it (S-103).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "os/fd.h"
#include "os/id_map.h"

namespace caisson::container {

/// Id n of a box is `first_user + n` outside, for users, and `first_group + n` for groups.
struct UidSlot {
  std::uint32_t first_user = 0;
  std::uint32_t first_group = 0;
  std::uint32_t count = 0;  ///< 1: a box of a single id, this user's own.

  bool operator==(const UidSlot&) const = default;
};

/// The ids of a slot as those of a user namespace, and this user's own past them: who may do there with files
/// of the slot, and with his own, what the slot's root may.
os::IdMaps maps_with_own(const UidSlot& slot);

/// What this machine says of its ids: who asks, and the texts of files (subuid(5), passwd(5), group(5)).
struct UidSources {
  uid_t user = 0;
  gid_t group = 0;
  std::string subuid;
  std::string subgid;
  std::string passwd;
  std::string group_file;

  /// Of this process. A file that is not there is empty; throws unavailable for one that cannot be read.
  static UidSources of_this_machine();
};

/// The slots there are, in their order. For root: ranges of 65,536 from `base` up, but those in which
/// /etc/subuid or /etc/subgid gives anybody an id, or a user or group of the machine has one. For others:
/// ranges of `per_box` in what /etc/subuid and /etc/subgid give this user, the last of which is common to the
/// boxes that find no other; with no room for one, a single id that all boxes share.
class UidRanges {
 public:
  UidRanges(const UidSources& sources, std::uint32_t base, std::uint32_t per_box);

  /// Places that at() knows.
  std::size_t size() const noexcept { return root_ ? (end_of_ids - base_) / root_slot : slots_.size(); }
  /// A slot that is for one workspace; none at a place where others have ids.
  std::optional<UidSlot> at(std::size_t place) const;
  /// For the boxes that find none of those, to share; root has none.
  const std::optional<UidSlot>& common() const noexcept { return common_; }
  /// Whether this user may map all of the slot, and nobody else has a part in it.
  bool may_use(const UidSlot& slot) const;
  /// For doctor: what boxes get here, and what would give them more.
  std::string description() const;

 private:
  static constexpr std::uint32_t root_slot = 65536;
  static constexpr std::uint32_t end_of_ids = 0xffff0000U;  // What is above is for a few special ids.

  void set_aside(const std::vector<os::IdRange>& others);

  bool root_;
  std::uint32_t base_;
  std::vector<os::IdRange> others_;  // For root: the ids that others have, and the places they are at.
  std::set<std::size_t> set_aside_;
  std::vector<os::IdRange> users_;  // For an ordinary user: what is his, and the slots in it.
  std::vector<os::IdRange> groups_;
  std::vector<UidSlot> slots_;
  std::optional<UidSlot> common_;
};

/// A slot in use by a box.
struct UidLease {
  UidSlot slot;
  bool shared = false;  ///< Other boxes may have it too (S-103: doctor says so).
  os::Fd lock;          ///< Of a slot that is this box's alone.
};

/// Hands out slots to the boxes of every process that has the same directory: two that live never have the
/// same one, nor is one given out that a persistent workspace is recorded with. Calls block on the file
/// system; thread-safe. A lease that is destroyed without give_back() is as one of a dead process: the slot
/// comes free.
///
///     <directory>/<first user>-<count>.lock   held by the box that has the slot
///                                      .key   the workspace that it is kept for
class UidSlots {
 public:
  /// Whether the persistent workspace `key` is recorded with the slot of these users. Where that cannot be
  /// told: true.
  using IsRecorded = std::function<bool(const std::string& key, const os::IdRange& users)>;
  UidSlots(UidRanges ranges, os::Fd directory, IsRecorded is_recorded);

  const UidRanges& ranges() const noexcept { return ranges_; }
  /// A slot that nobody has. Throws unavailable where all are taken, root_unusable where the directory cannot
  /// be used.
  UidLease take();
  /// The slot that a persistent workspace is recorded with. Throws workspace_conflict for one that may not be
  /// used any more.
  UidLease take_recorded(const std::string& key, const UidSlot& slot) const;
  /// Keeps the slot for a workspace from now on, for which a record of it is to be written before the lease
  /// is given back. Throws root_unusable.
  void keep(const UidLease& lease, const std::string& key);
  /// Takes back what keep() did, once no such record is there (any more).
  void forget(const UidSlot& slot) noexcept;
  void give_back(UidLease lease) noexcept;
  /// Frees the slots of dead boxes, and those kept for workspaces that are not recorded with them (any more);
  /// says which the latter are. Goes on past what fails.
  std::vector<std::string> recover() noexcept;

 private:
  std::optional<UidLease> try_take(const UidSlot& slot);
  bool is_kept(const std::string& slot, const os::IdRange& users);
  bool overlaps_another(const UidSlot& slot);
  [[noreturn]] static void fail(const std::string& what, const os::Error& error);

  const UidRanges ranges_;
  const os::Fd directory_;
  const IsRecorded is_recorded_;
};

}  // namespace caisson::container
