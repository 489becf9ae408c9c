// Volumes taken, made and left.
#include "providers/container/volumes.h"

#include <chrono>
#include <thread>

#include "caisson/contract/errors.h"
#include "contract/quote.h"
#include "kit/disk_record.h"
#include "os/fault_point.h"
#include "os/files.h"
#include "os/lock.h"

namespace caisson::container {
namespace {

// Another session may be making a file system meanwhile.
constexpr std::chrono::seconds making_patience{20};
constexpr std::chrono::milliseconds try_step{1};

[[noreturn]] void fail_conflict(const std::string& key, const std::string& why) {
  throw SandboxError(
      ErrorCode::workspace_conflict,
      "workspace " + quote(key) + " cannot be used: " + why + "; move it away, or use another key",
      "workspace_key");
}

// Held while one looks for a record and makes what it says: two sessions on a new key are to agree.
class Making {
 public:
  Making(const Layout& layout, const std::string& key) : layout_(layout), name_(making_name(key)) {
    const auto until = std::chrono::steady_clock::now() + making_patience;
    for (;;) {
      const auto fault = os::fault_point("volume.making");
      auto lock = fault ? os::try_lock(layout.keys, name_, os::LockKind::exclusive)
                        : os::Result<std::optional<os::Fd>>(fault.error());
      if (!lock) fail_root(layout.root, "locking workspace " + quote(key), lock.error());
      if (*lock) {
        lock_ = std::move(**lock);
        return;
      }
      if (std::chrono::steady_clock::now() >= until)
        fail_conflict(key, "another session has been making it for long");
      std::this_thread::sleep_for(try_step);
    }
  }
  ~Making() {
    os::kill_point("volume.unmaking");
    static_cast<void>(os::unlink_at(layout_.keys, name_));
    os::unlock(std::move(lock_));
  }
  Making(const Making&) = delete;
  Making& operator=(const Making&) = delete;

 private:
  const Layout& layout_;
  const std::string name_;
  os::Fd lock_;
};

}  // namespace

Volume::Volume(std::shared_ptr<const Storage> storage, std::string key, kit::WorkspaceLock share)
    : storage_(std::move(storage)),
      key_(std::move(key)),
      path_(storage_->layout->volume_path(key_)),
      share_(std::move(share)) {}

Volume Volume::take(std::shared_ptr<const Storage> storage, const kit::SessionRecord& session) {
  const std::string& key = session.spec.workspace_key;
  auto share = kit::WorkspaceLock::take(storage->store(), key);
  Volume volume(std::move(storage), key, std::move(share));
  try {
    volume.adopt(session);
  } catch (...) {
    volume.abandon();
    throw;
  }
  return volume;
}

void Volume::adopt(const kit::SessionRecord& session) {
  const Making making(*storage_->layout, key_);
  UidLease lease;
  try {
    lease = find(session);
    slot_is_shared_ = lease.shared;
    os::kill_point("volume.recorded");
    storage_->bounds->open(key_, record_);
  } catch (...) {
    take_back();
    const UidSlot slot = lease.slot;
    storage_->slots->give_back(std::move(lease));
    if (slot.count != 0) storage_->slots->forget(slot);
    throw;
  }
  // From here on the record keeps the slot.
  storage_->slots->give_back(std::move(lease));
}

// The ids of the record that is there, or of one that is made.
UidLease Volume::find(const kit::SessionRecord& session) {
  const Layout& layout = *storage_->layout;
  const auto fault = os::fault_point("volume.record");
  const auto record = fault ? read_volume_record(layout, key_) : os::Result<VolumeRecord>(fault.error());
  if (record) {
    record_ = *record;
    const auto is_made = storage_->bounds->is_made(key_, record_.bound);
    if (!is_made) fail_root(layout.root, "looking for workspace " + quote(key_), is_made.error());
    made_ = !*is_made;
    return storage_->slots->take_recorded(key_, record_.slot);
  }
  if (kit::is_of_the_machine(record.error()))
    fail_root(layout.root, "reading the record of workspace " + quote(key_), record.error());
  if (record.error() != os::error_of(ENOENT))
    fail_conflict(key_, "its record makes no sense: " + record.error().message());
  for (const std::string& name : {key_, image_name(key_)}) {
    const auto there = os::exists_at(layout.volumes, name);
    if (!there) fail_root(layout.root, "looking for workspace " + quote(key_), there.error());
    if (*there) fail_conflict(key_, quote(name) + " has no record of whose its files are");
  }
  record_.bound = storage_->bounds->choose();
  UidLease lease = storage_->slots->take();
  try {
    write_record(session, lease);
  } catch (...) {
    const UidSlot slot = lease.slot;
    storage_->slots->give_back(std::move(lease));
    storage_->slots->forget(slot);
    throw;
  }
  return lease;
}

void Volume::write_record(const kit::SessionRecord& session, const UidLease& lease) {
  record_.slot = lease.slot;
  storage_->slots->keep(lease, key_);
  os::kill_point("volume.kept");
  const auto written = write_volume_record(*storage_->layout, session, record_);
  if (!written) fail_root(storage_->layout->root, "writing a record", written.error());
  made_ = true;
}

// With the making lock held: nobody has come to use what was made since.
void Volume::take_back() noexcept {
  if (!made_) return;
  made_ = false;
  const Layout& layout = *storage_->layout;
  if (!storage_->bounds->close(key_) || !storage_->bounds->remove(key_)) return;
  if (!os::remove_directory_at(layout.volumes, key_)) return;
  static_cast<void>(os::unlink_at(layout.volumes, kit::record_name(key_)));
}

void Volume::give_up(bool remove) {
  share_.give_up(storage_->store(), remove);
  storage_->slots->forget(record_.slot);
}

void Volume::abandon() noexcept {
  share_.abandon(storage_->store(), made_, made_);
  if (record_.slot.count != 0) storage_->slots->forget(record_.slot);
}

void Volume::remove_when_unused(const Storage& storage, const std::string& key) {
  const auto record = read_volume_record(*storage.layout, key);
  kit::WorkspaceLock::remove_when_unused(storage.store(), key);
  if (record) storage.slots->forget(record->slot);
}

bool settle_volume(const Storage& storage, const std::string& key) {
  const auto record = read_volume_record(*storage.layout, key);
  if (!kit::fulfil_wish(storage.store(), key)) return false;
  if (record) storage.slots->forget(record->slot);
  return true;
}

}  // namespace caisson::container
