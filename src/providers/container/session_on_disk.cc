// Making and removing what a session has on disk.
#include "providers/container/session_on_disk.h"

#include <fcntl.h>

#include <boost/json.hpp>
#include <chrono>
#include <thread>

#include "caisson/contract/errors.h"
#include "caisson/contract/json.h"
#include "contract/quote.h"
#include "kit/disk_record.h"
#include "os/fault_point.h"
#include "os/files.h"
#include "os/lock.h"
#include "os/remove_tree.h"

namespace caisson::container {
namespace {

namespace json = boost::json;

constexpr const char* record_file = "session.json";
// A recovery may look at a lock in the instant between its making and its taking.
constexpr int most_tries = 200;
constexpr std::chrono::milliseconds try_step{1};

os::Fd take_ownership(const Layout& layout, const std::string& id) {
  if (const auto fault = os::fault_point("container.lock"); !fault)
    fail_root(layout.runtime_directory, "making a session's lock", fault.error());
  for (int tries = 0; tries < most_tries; ++tries) {
    auto lock = os::try_lock(layout.sessions, kit::lock_name(id), os::LockKind::exclusive);
    if (!lock) fail_root(layout.runtime_directory, "making a session's lock", lock.error());
    if (*lock) return std::move(**lock);
    std::this_thread::sleep_for(try_step);
  }
  fail_root(layout.runtime_directory, "taking a session's lock", os::error_of(EWOULDBLOCK));
}

// Never env (S-6).
std::string text_of(const kit::SessionRecord& session, const os::ProcessIdentity& owner,
                    const std::vector<std::string>& cgroups) {
  json::object object;
  object["id"] = session.id;
  object["workspace_key"] = session.spec.workspace_key;
  object["durability"] = to_string(session.spec.durability);
  object["image"] = session.spec.image;
  object["created_at"] = format_time(session.created_at);
  object["labels"] = kit::json_of(session.spec.labels);
  object["cgroups"] = json::array(cgroups.begin(), cgroups.end());
  object["owner"] = kit::json_of(owner);
  return json::serialize(object) + "\n";
}

void require_gone(const os::Result<void>& removed, const Layout& layout, const std::string& id) {
  if (removed) return;
  throw SandboxError(ErrorCode::removal_failed, "the record of session " + id + " in " +
                                                    quote(layout.runtime_directory, 300) +
                                                    " cannot be removed: " + removed.error().message() +
                                                    "; take away what stands in the way, it is tried again");
}

}  // namespace

SessionOnDisk::SessionOnDisk(std::shared_ptr<const Layout> layout, std::shared_ptr<UidSlots> slots,
                             const kit::SessionRecord& session, const os::ProcessIdentity& owner,
                             const std::vector<std::string>& cgroups)
    : layout_(std::move(layout)), slots_(std::move(slots)), id_(session.id) {
  lock_ = take_ownership(*layout_, id_);
  try {
    make(session, owner, cgroups);
  } catch (...) {
    abandon();
    throw;
  }
}

void SessionOnDisk::make(const kit::SessionRecord& session, const os::ProcessIdentity& owner,
                         const std::vector<std::string>& cgroups) {
  os::Result<void> made = os::fault_point("container.directory");
  if (made) made = os::make_directory_at(layout_->sessions, id_, 0700);
  if (!made) fail_root(layout_->runtime_directory, "making a session's directory", made.error());
  os::kill_point("container.directory.made");
  const auto directory = os::ensure_directory_at(layout_->sessions, id_, 0700);
  if (!directory) fail_root(layout_->runtime_directory, "opening a session's directory", directory.error());
  const auto written = kit::replace_disk_record(*directory, "new", *directory, record_file,
                                                text_of(session, owner, cgroups), 0600);
  if (!written) fail_root(layout_->runtime_directory, "writing a session's record", written.error());
  if (session.spec.durability == SandboxDurability::persistent) {
    volume_ = Volume::take(layout_, slots_, session);
  } else {
    lease_ = slots_->take();
    leased_ = true;
  }
  os::kill_point("container.made");
}

void SessionOnDisk::remove(bool remove_workspace) {
  const std::lock_guard lock(mutex_);
  remove_locked(remove_workspace);
}

void SessionOnDisk::remove_locked(bool remove_workspace) {
  if (volume_) volume_->give_up(remove_workspace);
  if (leased_) slots_->give_back(std::move(lease_));
  leased_ = false;
  os::kill_point("container.removing");
  os::Result<void> gone = os::fault_point("container.remove");
  if (gone) gone = os::remove_tree(layout_->sessions, id_);
  require_gone(gone, *layout_, id_);
  static_cast<void>(os::unlink_at(layout_->sessions, kit::lock_name(id_)));
  lock_.reset();
}

void SessionOnDisk::abandon() noexcept {
  const std::lock_guard lock(mutex_);
  if (volume_) {
    volume_->abandon();
    volume_.reset();
  }
  try {
    remove_locked(false);
  } catch (const std::exception&) {
    lock_.reset();
  }
}

os::Result<RecordedSession> recorded_session(const Layout& layout, const std::string& id) {
  const auto directory = os::open_at(layout.sessions, id, O_PATH | O_DIRECTORY);
  if (!directory) return directory.error();
  const auto record = kit::read_disk_record(*directory, record_file);
  if (!record) return record.error();
  const auto durability = parse_durability(kit::text_field(record->object, "durability"));
  if (!durability) return os::error_of(EBADMSG);
  RecordedSession session;
  if (*durability == SandboxDurability::persistent)
    session.workspace_key = kit::text_field(record->object, "workspace_key");
  if (const json::value* const cgroups = record->object.if_contains("cgroups");
      cgroups && cgroups->is_array()) {
    for (const json::value& cgroup : cgroups->get_array()) {
      if (cgroup.is_string()) session.cgroups.emplace_back(cgroup.get_string());
    }
  }
  session.owner = kit::owner_field(record->object);
  return session;
}

}  // namespace caisson::container
