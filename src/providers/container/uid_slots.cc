// Which ids there are, and who has them.
#include "providers/container/uid_slots.h"

#include <fcntl.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "caisson/contract/errors.h"
#include "contract/quote.h"
#include "kit/disk_record.h"
#include "os/files.h"
#include "os/host_file.h"
#include "os/lock.h"
#include "os/self.h"

namespace caisson::container {
namespace {

constexpr std::size_t largest_file = std::size_t{64} << 20U;
constexpr std::size_t largest_key = 64;

std::string text_of(const std::string& path) {
  const auto file = os::open_for_reading(path);
  if (!file && file.error() == os::error_of(ENOENT)) return {};
  auto text = file ? os::read_all(file->fd, largest_file) : os::Result<std::string>(file.error());
  if (!text) {
    throw SandboxError(ErrorCode::unavailable, "the ids in use on this machine cannot be told: reading " +
                                                   path + ": " + text.error().message());
  }
  return std::move(*text);
}

std::string_view take(std::string_view& text, char separator) noexcept {
  const std::size_t end = std::min(text.find(separator), text.size());
  const std::string_view field = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return field;
}

std::optional<std::uint32_t> number_of(std::string_view text) noexcept {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// The ids in passwd(5), users' and their groups', or in group(5).
std::vector<os::IdRange> ids_in(std::string_view text, int fields) {
  std::vector<os::IdRange> ids;
  while (!text.empty()) {
    std::string_view line = take(text, '\n');
    take(line, ':');
    take(line, ':');
    for (int field = 0; field < fields; ++field) {
      if (const auto id = number_of(take(line, ':'))) ids.push_back({*id, 1});
    }
  }
  return ids;
}

// Empty where the user has no entry.
std::string name_of(std::string_view passwd, uid_t user) {
  while (!passwd.empty()) {
    std::string_view line = take(passwd, '\n');
    const std::string_view name = take(line, ':');
    take(line, ':');
    if (number_of(take(line, ':')) == user) return std::string(name);
  }
  return {};
}

bool covers(const std::vector<os::IdRange>& ranges, std::uint32_t first, std::uint32_t count) {
  return std::any_of(ranges.begin(), ranges.end(), [&](const os::IdRange& range) {
    return first >= range.first && std::uint64_t{first} + count <= std::uint64_t{range.first} + range.count;
  });
}

std::vector<std::uint32_t> starts_of(const std::vector<os::IdRange>& ranges, std::uint32_t count) {
  std::vector<std::uint32_t> starts;
  for (const os::IdRange& range : ranges) {
    for (std::uint32_t i = 0; i < range.count / count; ++i) starts.push_back(range.first + i * count);
  }
  return starts;
}

std::string name_of(const UidSlot& slot) {
  return std::to_string(slot.first_user) + "-" + std::to_string(slot.count);
}

// The users of the slot whose file has that name.
std::optional<os::IdRange> slot_in(std::string_view name) {
  std::string_view stem = take(name, '.');
  const auto first = number_of(take(stem, '-'));
  const auto count = number_of(stem);
  if (!first || !count || *count == 0) return std::nullopt;
  return os::IdRange{*first, *count};
}

bool overlap(const os::IdRange& one, const os::IdRange& other) noexcept {
  return one.first < std::uint64_t{other.first} + other.count &&
         other.first < std::uint64_t{one.first} + one.count;
}

}  // namespace

os::IdMaps maps_with_own(const UidSlot& slot) {
  return {{{0, slot.first_user, slot.count}, {slot.count, os::own_user(), 1}},
          {{0, slot.first_group, slot.count}, {slot.count, os::own_group(), 1}}};
}

UidSources UidSources::of_this_machine() {
  return {os::own_user(),         os::own_group(),        text_of("/etc/subuid"),
          text_of("/etc/subgid"), text_of("/etc/passwd"), text_of("/etc/group")};
}

UidRanges::UidRanges(const UidSources& sources, std::uint32_t base, std::uint32_t per_box)
    : root_(sources.user == 0), base_(base) {
  if (root_) {
    set_aside(os::parse_subordinate_ids(sources.subuid));
    set_aside(os::parse_subordinate_ids(sources.subgid));
    set_aside(ids_in(sources.passwd, 2));
    set_aside(ids_in(sources.group_file, 1));
    return;
  }
  const std::string name = name_of(sources.passwd, sources.user);
  users_ = os::parse_subordinate_ids(sources.subuid, name, sources.user);
  groups_ = os::parse_subordinate_ids(sources.subgid, name, sources.user);
  const auto users = starts_of(users_, per_box);
  const auto groups = starts_of(groups_, per_box);
  for (std::size_t i = 0; i < std::min(users.size(), groups.size()); ++i)
    slots_.push_back({users[i], groups[i], per_box});
  if (slots_.empty()) {
    common_ = UidSlot{sources.user, sources.group, 1};
  } else {
    common_ = slots_.back();
    slots_.pop_back();
  }
}

void UidRanges::set_aside(const std::vector<os::IdRange>& others) {
  others_.insert(others_.end(), others.begin(), others.end());
  for (const auto& [first, count] : others) {
    const std::uint64_t end = std::uint64_t{first} + count;
    if (end <= base_) continue;
    const std::uint64_t last = (end - 1 - base_) / root_slot;
    for (std::uint64_t place = (std::max(first, base_) - base_) / root_slot; place <= last; ++place)
      set_aside_.insert(place);
  }
}

std::optional<UidSlot> UidRanges::at(std::size_t place) const {
  if (!root_) return slots_.at(place);
  if (set_aside_.contains(place)) return std::nullopt;
  const std::uint32_t first = base_ + static_cast<std::uint32_t>(place) * root_slot;
  return UidSlot{first, first, root_slot};
}

bool UidRanges::may_use(const UidSlot& slot) const {
  if (slot.count == 0) return false;
  if (!root_) {
    return slot == common_ ||
           (covers(users_, slot.first_user, slot.count) && covers(groups_, slot.first_group, slot.count));
  }
  const auto is_free = [&](std::uint32_t first) {
    return first >= root_slot && std::uint64_t{first} + slot.count <= end_of_ids &&
           std::none_of(others_.begin(), others_.end(),
                        [&](const os::IdRange& other) { return overlap(other, {first, slot.count}); });
  };
  return is_free(slot.first_user) && is_free(slot.first_group);
}

std::string UidRanges::description() const {
  if (root_) return "a range of 65536 ids for each workspace, from " + std::to_string(base_) + " up";
  if (common_->count == 1) {
    return "this user's own id, shared by all boxes and with its other processes; a range for this user in "
           "/etc/subuid and /etc/subgid (usermod --add-subuids, --add-subgids) gives each box its own";
  }
  return "a range of " + std::to_string(common_->count) + " ids for each of " +
         std::to_string(slots_.size()) +
         " workspaces; those beyond share another, until this user has more in /etc/subuid and /etc/subgid";
}

UidSlots::UidSlots(UidRanges ranges, os::Fd directory, IsRecorded is_recorded)
    : ranges_(std::move(ranges)), directory_(std::move(directory)), is_recorded_(std::move(is_recorded)) {}

void UidSlots::fail(const std::string& what, const os::Error& error) {
  throw SandboxError(ErrorCode::root_unusable, "ids for a box cannot be had: " + what + ": " +
                                                   error.message() +
                                                   "; see that CAISSON_ROOT can be written, and has space");
}

UidLease UidSlots::take() {
  for (std::size_t place = 0; place < ranges_.size(); ++place) {
    const auto slot = ranges_.at(place);
    if (!slot) continue;
    if (auto lease = try_take(*slot)) return std::move(*lease);
  }
  if (ranges_.common()) return {*ranges_.common(), true, {}};
  throw SandboxError(ErrorCode::unavailable,
                     "every range of ids from CAISSON_CONTAINER_UID_BASE up is in use; destroy sessions, or "
                     "remove persistent workspaces");
}

std::optional<UidLease> UidSlots::try_take(const UidSlot& slot) {
  const std::string name = name_of(slot) + ".lock";
  auto lock = os::try_lock(directory_, name, os::LockKind::exclusive);
  if (!lock) fail("locking " + name, lock.error());
  if (!*lock) return std::nullopt;
  UidLease lease{slot, false, std::move(**lock)};
  if (!is_kept(name_of(slot), {slot.first_user, slot.count}) && !overlaps_another(slot)) return lease;
  give_back(std::move(lease));
  return std::nullopt;
}

// With the slot's lock held. What is kept for a workspace that is not there, or has another slot, was left by
// a process that died on its way.
bool UidSlots::is_kept(const std::string& slot, const os::IdRange& users) {
  const std::string name = slot + ".key";
  const auto key = os::read_file_at(directory_, name, largest_key);
  if (!key && key.error() == os::error_of(ENOENT)) return false;
  if (!key || is_recorded_(*key, users)) return true;
  const auto gone = os::unlink_at(directory_, name);
  return !gone;
}

// Slots of another size or from another base, which were given out by other settings. Whoever comes second
// sees the first, for both look when their own lock is there.
bool UidSlots::overlaps_another(const UidSlot& slot) {
  const auto names = os::names_in(directory_);
  if (!names) fail("listing the slots in use", names.error());
  const std::string own = name_of(slot);
  for (const std::string& name : *names) {
    const auto other = slot_in(name);
    if (!other || name.starts_with(own + ".") || !overlap(*other, {slot.first_user, slot.count})) continue;
    if (name.ends_with(".key")) return true;
    auto lock = os::try_lock(directory_, name, os::LockKind::exclusive);
    if (!lock || !*lock) return true;
    static_cast<void>(os::unlink_at(directory_, name));
    os::unlock(std::move(**lock));
  }
  return false;
}

UidLease UidSlots::take_recorded(const std::string& key, const UidSlot& slot) const {
  if (ranges_.may_use(slot)) return {slot, slot == ranges_.common(), {}};
  throw SandboxError(ErrorCode::workspace_conflict,
                     "the files of workspace " + quote(key) + " belong to the ids " +
                         std::to_string(slot.first_user) + " to " +
                         std::to_string(std::uint64_t{slot.first_user} + slot.count - 1) +
                         ", which this user may not use, or others have by now (/etc/subuid, /etc/subgid, "
                         "/etc/passwd, /etc/group); give them back, or use another key",
                     "workspace_key");
}

void UidSlots::keep(const UidLease& lease, const std::string& key) {
  if (!lease.lock) return;  // All may share it anyway.
  const std::string name = name_of(lease.slot) + ".key";
  const auto file = os::open_at(directory_, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (!file) fail("writing " + name, file.error());
  const auto written = os::write_all(*file, key);
  if (written) return;
  static_cast<void>(os::unlink_at(directory_, name));
  fail("writing " + name, written.error());
}

void UidSlots::forget(const UidSlot& slot) noexcept {
  if (slot == ranges_.common()) return;
  try {
    // Whoever holds the lock is looking at it himself.
    if (auto lease = try_take(slot)) give_back(std::move(*lease));
  } catch (const std::exception&) {
    // It is found out by the next who would take it.
  }
}

std::vector<std::string> UidSlots::recover() noexcept {
  std::vector<std::string> freed;
  try {
    const auto names = os::names_in(directory_);
    if (!names) return freed;
    std::set<std::string> stems;
    for (const std::string& name : *names) {
      if (name.ends_with(".lock") || name.ends_with(".key")) stems.insert(name.substr(0, name.find('.')));
    }
    for (const std::string& stem : stems) {
      const auto users = slot_in(stem);
      // The other locks are those that an opening of the directories tries it with.
      if (!users && !kit::is_session_id(stem)) continue;
      auto lock = os::try_lock(directory_, stem + ".lock", os::LockKind::exclusive);
      if (!lock || !*lock) continue;
      const auto kept = os::exists_at(directory_, stem + ".key");
      if (users && kept && *kept && !is_kept(stem, *users)) {
        freed.push_back("the ids from " + std::to_string(users->first) +
                        " up, kept for a workspace that is not there");
      }
      static_cast<void>(os::unlink_at(directory_, stem + ".lock"));
      os::unlock(std::move(**lock));
    }
  } catch (const std::exception&) {
    // What is left is found out by the next who looks.
  }
  return freed;
}

void UidSlots::give_back(UidLease lease) noexcept {
  if (!lease.lock) return;
  static_cast<void>(os::unlink_at(directory_, name_of(lease.slot) + ".lock"));
  os::unlock(std::move(lease.lock));
}

}  // namespace caisson::container
