// Records of volumes, and their making and removal.
#include "providers/container/volumes.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <boost/json.hpp>
#include <chrono>
#include <thread>

#include "caisson/contract/errors.h"
#include "caisson/contract/json.h"
#include "caisson/contract/validate.h"
#include "contract/quote.h"
#include "kit/disk_record.h"
#include "os/files.h"
#include "os/lock.h"
#include "os/self.h"

namespace caisson::container {
namespace {

namespace json = boost::json;

constexpr int most_tries = 1000;
constexpr std::chrono::milliseconds try_step{1};

std::string new_name(const std::string& id) { return id + ".new"; }

// Held while one looks for a record and makes it: two sessions on a new key are to agree on its ids.
os::Fd lock_making(const Layout& layout, const std::string& key) {
  for (int tries = 0; tries < most_tries; ++tries) {
    auto lock = os::try_lock(layout.keys, key + ".make", os::LockKind::exclusive);
    if (!lock) fail_root(layout.root, "locking workspace " + quote(key), lock.error());
    if (*lock) return std::move(**lock);
    std::this_thread::sleep_for(try_step);
  }
  fail_root(layout.root, "locking workspace " + quote(key), os::error_of(EWOULDBLOCK));
}

void unlock_making(const Layout& layout, const std::string& key, os::Fd lock) {
  static_cast<void>(os::unlink_at(layout.keys, key + ".make"));
  os::unlock(std::move(lock));
}

[[noreturn]] void fail_conflict(const std::string& key, const std::string& why) {
  throw SandboxError(
      ErrorCode::workspace_conflict,
      "workspace " + quote(key) + " cannot be used: " + why + "; move it away, or use another key",
      "workspace_key");
}

std::string text_of(const kit::SessionRecord& session, const UidSlot& slot) {
  json::object ids;
  ids["first_user"] = slot.first_user;
  ids["first_group"] = slot.first_group;
  ids["count"] = slot.count;
  json::object object;
  object["workspace_key"] = session.spec.workspace_key;
  object["durability"] = to_string(session.spec.durability);
  object["created_at"] = format_time(session.created_at);
  object["image"] = session.spec.image;
  object["labels"] = kit::json_of(session.spec.labels);
  object["ids"] = std::move(ids);
  return json::serialize(object) + "\n";
}

struct IsRecorded {
  bool operator()(const std::string& key, const UidSlot& slot) const {
    if (!is_workspace_key(key)) return false;
    const auto recorded = recorded_slot(*layout, key);
    if (recorded) return *recorded == slot;
    return recorded.error() != os::error_of(ENOENT);
  }
  std::shared_ptr<const Layout> layout;
};

}  // namespace

os::Result<UidSlot> recorded_slot(const Layout& layout, const std::string& key) {
  const auto record = kit::read_disk_record(layout.volumes, kit::record_name(key));
  if (!record) return record.error();
  const json::value* const ids = record->object.if_contains("ids");
  if (ids == nullptr || !ids->is_object()) return os::error_of(EBADMSG);
  const json::object& fields = ids->get_object();
  const UidSlot slot{kit::number_field<std::uint32_t>(fields, "first_user"),
                     kit::number_field<std::uint32_t>(fields, "first_group"),
                     kit::number_field<std::uint32_t>(fields, "count")};
  if (slot.count == 0) return os::error_of(EBADMSG);
  return slot;
}

std::shared_ptr<UidSlots> open_uid_slots(const std::shared_ptr<const Layout>& layout, UidRanges ranges) {
  auto directory = os::duplicate(layout->ids);
  if (!directory) fail_root(layout->root, "opening ids", directory.error());
  return std::make_shared<UidSlots>(std::move(ranges), std::move(*directory), IsRecorded{layout});
}

Volume::Volume(std::shared_ptr<const Layout> layout, std::shared_ptr<UidSlots> slots, std::string key,
               kit::WorkspaceLock share)
    : layout_(std::move(layout)),
      slots_(std::move(slots)),
      key_(std::move(key)),
      path_(layout_->volume_path(key_)),
      share_(std::move(share)) {}

Volume Volume::take(std::shared_ptr<const Layout> layout, std::shared_ptr<UidSlots> slots,
                    const kit::SessionRecord& session) {
  const std::string& key = session.spec.workspace_key;
  auto share = kit::WorkspaceLock::take(layout->store(), key);
  Volume volume(std::move(layout), std::move(slots), key, std::move(share));
  try {
    volume.adopt(session);
  } catch (...) {
    volume.abandon();
    throw;
  }
  return volume;
}

void Volume::adopt(const kit::SessionRecord& session) {
  os::Fd making = lock_making(*layout_, key_);
  UidLease lease;
  try {
    const auto recorded = recorded_slot(*layout_, key_);
    if (recorded) {
      lease = slots_->take_recorded(key_, *recorded);
    } else if (kit::is_of_the_machine(recorded.error())) {
      fail_root(layout_->root, "reading the record of workspace " + quote(key_), recorded.error());
    } else if (recorded.error() != os::error_of(ENOENT)) {
      fail_conflict(key_, "its record makes no sense: " + recorded.error().message());
    } else {
      const auto there = os::exists_at(layout_->volumes, key_);
      if (!there) fail_root(layout_->root, "looking for workspace " + quote(key_), there.error());
      if (*there) fail_conflict(key_, "it has no record of whose its files are");
      lease = slots_->take();
      slots_->keep(lease, key_);
      const auto written =
          kit::replace_disk_record(layout_->keys, new_name(session.id), layout_->volumes,
                                   kit::record_name(key_), text_of(session, lease.slot), 0600);
      if (!written) fail_root(layout_->root, "writing a record", written.error());
      made_record_ = true;
    }
    slot_ = lease.slot;
    slot_is_shared_ = lease.shared;
    make_directory();
  } catch (...) {
    const UidSlot slot = lease.slot;
    const bool kept = static_cast<bool>(lease.lock);
    slots_->give_back(std::move(lease));
    if (kept && !made_record_) slots_->forget(slot);
    unlock_making(*layout_, key_, std::move(making));
    throw;
  }
  // From here on the record keeps the slot.
  slots_->give_back(std::move(lease));
  unlock_making(*layout_, key_, std::move(making));
}

void Volume::make_directory() {
  const auto made = os::make_directory_at(layout_->volumes, key_, 0755);
  made_directory_ = made.has_value();
  if (!made && made.error() != os::error_of(EEXIST))
    fail_root(layout_->root, "making workspace " + quote(key_), made.error());
  const auto directory = os::open_at(layout_->volumes, key_, O_PATH | O_DIRECTORY);
  if (!directory && directory.error() == os::error_of(ENOTDIR)) fail_conflict(key_, "it is no directory");
  if (!directory) fail_root(layout_->root, "opening workspace " + quote(key_), directory.error());
  const auto is = os::status(*directory);
  if (!is) fail_root(layout_->root, "looking at workspace " + quote(key_), is.error());
  const bool is_in_slot = is->st_uid - slot_.first_user < slot_.count;
  if (!os::is_root() || is_in_slot) return;
  // Whoever made it may have died before this.
  const auto owned = os::set_owner(*directory, slot_.first_user, slot_.first_group);
  if (!owned) fail_root(layout_->root, "giving workspace " + quote(key_) + " its owner", owned.error());
}

void Volume::give_up(bool remove) {
  share_.give_up(layout_->store(), remove);
  slots_->forget(slot_);
}

void Volume::abandon() noexcept {
  share_.abandon(layout_->store(), made_directory_, made_record_);
  if (slot_.count > 1) slots_->forget(slot_);
}

void Volume::remove_when_unused(const Layout& layout, UidSlots& slots, const std::string& key) {
  const auto slot = recorded_slot(layout, key);
  kit::WorkspaceLock::remove_when_unused(layout.store(), key);
  if (slot) slots.forget(*slot);
}

}  // namespace caisson::container
