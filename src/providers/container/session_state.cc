// Making, recording and removing what a session has on disk.
#include "providers/container/session_state.h"

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

const std::string record_file = "session.json";
const std::string new_record_file = "session.json.new";
// A recovery may look at a lock in the instant between its making and its taking.
constexpr int most_tries = 200;
constexpr std::chrono::milliseconds try_step{1};

os::Fd take_ownership(const Layout& layout, const std::string& id) {
  for (int tries = 0; tries < most_tries; ++tries) {
    const auto fault = os::fault_point("session.lock");
    auto lock = fault ? os::try_lock(layout.sessions, kit::lock_name(id), os::LockKind::exclusive)
                      : os::Result<std::optional<os::Fd>>(fault.error());
    if (!lock) fail_root(layout.runtime_directory, "making a session's lock", lock.error());
    if (*lock) return std::move(**lock);
    std::this_thread::sleep_for(try_step);
  }
  fail_root(layout.runtime_directory, "taking a session's lock", os::error_of(EWOULDBLOCK));
}

// S-6: no environment stays here.
kit::SessionRecord without_environment(const kit::SessionRecord& session) {
  kit::SessionRecord copy = session.clone();
  copy.spec.env.clear();
  return copy;
}

SessionCgroups cgroups_in(const json::object& object) {
  SessionCgroups cgroups;
  cgroups.unified = kit::text_field(object, "cgroup");
  const json::value* const legacy = object.if_contains("cgroups_v1");
  if (legacy == nullptr || !legacy->is_array()) return cgroups;
  for (const json::value& path : legacy->get_array()) {
    if (path.is_string()) cgroups.legacy.emplace_back(path.get_string());
  }
  return cgroups;
}

}  // namespace

SessionOnDisk::SessionOnDisk(std::shared_ptr<const Storage> storage, const kit::SessionRecord& session,
                             const os::ProcessIdentity& owner, SessionCgroups cgroups)
    : storage_(std::move(storage)),
      id_(session.id),
      session_(without_environment(session)),
      owner_(owner),
      cgroups_(std::move(cgroups)) {
  lock_ = take_ownership(*storage_->layout, id_);
  os::kill_point("session.owned");
  try {
    make(session);
  } catch (...) {
    abandon();
    throw;
  }
}

// D-7: each thing is recorded before it is made; a slot of ids tells for itself whose it is.
void SessionOnDisk::make(const kit::SessionRecord& session) {
  const Layout& layout = *storage_->layout;
  const auto fault = os::fault_point("session.directory");
  const auto made = fault ? os::make_directory_at(layout.sessions, id_, 0700) : fault;
  if (!made) fail_root(layout.runtime_directory, "making a session's directory", made.error());
  auto state = os::open_at(layout.sessions, id_, O_PATH | O_DIRECTORY);
  if (!state) fail_root(layout.runtime_directory, "opening a session's directory", state.error());
  state_ = std::move(*state);
  if (session.spec.durability == SandboxDurability::persistent) {
    write_record();
    volume_ = Volume::take(storage_, session);
  } else {
    lease_ = storage_->slots->take();
    has_lease_ = true;
  }
  os::kill_point("session.has_ids");
  write_record();
  os::kill_point("session.made");
}

void SessionOnDisk::write_record() {
  json::object object;
  object["id"] = id_;
  object["workspace_key"] = session_.spec.workspace_key;
  object["durability"] = to_string(session_.spec.durability);
  object["image"] = session_.spec.image;
  object["created_at"] = format_time(session_.created_at);
  object["labels"] = kit::json_of(session_.spec.labels);
  object["owner"] = kit::json_of(owner_);
  if (!cgroups_.unified.empty()) object["cgroup"] = cgroups_.unified;
  if (!cgroups_.legacy.empty())
    object["cgroups_v1"] = json::array(cgroups_.legacy.begin(), cgroups_.legacy.end());
  if (volume_ || has_lease_) {
    json::object ids;
    ids["first_user"] = slot().first_user;
    ids["first_group"] = slot().first_group;
    ids["count"] = slot().count;
    object["ids"] = std::move(ids);
  }
  if (volume_) object["volume"] = volume_->path();
  const auto written = kit::replace_disk_record(state_, new_record_file, state_, record_file,
                                                json::serialize(object) + "\n", 0600);
  if (!written) fail_root(storage_->layout->runtime_directory, "writing a session's record", written.error());
}

void SessionOnDisk::pass_on(const kit::SessionRecord& session) {
  const std::lock_guard lock(mutex_);
  kit::SessionRecord before = std::exchange(session_, without_environment(session));
  try {
    write_record();
  } catch (...) {
    session_ = std::move(before);
    throw;
  }
}

void SessionOnDisk::remove(bool remove_workspace) {
  const std::lock_guard lock(mutex_);
  remove_locked(remove_workspace);
}

void SessionOnDisk::remove_locked(bool remove_workspace) {
  const Layout& layout = *storage_->layout;
  if (volume_) volume_->give_up(remove_workspace);
  if (has_lease_) storage_->slots->give_back(std::move(lease_));
  has_lease_ = false;
  os::kill_point("session.given_up");
  const auto fault = os::fault_point("session.remove");
  const auto gone = fault ? os::remove_tree(layout.sessions, id_) : fault;
  if (!gone) {
    throw SandboxError(ErrorCode::removal_failed,
                       "the state of a session, " + quote(state_path(), 300) + ", cannot be removed: " +
                           gone.error().message() + "; take away what stands in the way, it is tried again");
  }
  os::kill_point("session.removed");
  if (lock_) static_cast<void>(os::unlink_at(layout.sessions, kit::lock_name(id_)));
  os::unlock(std::move(lock_));
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
    os::unlock(std::move(lock_));
  }
}

os::Result<RecordedSession> read_session_record(const Layout& layout, const std::string& id) {
  const auto state = os::open_at(layout.sessions, id, O_PATH | O_DIRECTORY);
  if (!state) return state.error();
  const auto record = kit::read_disk_record(*state, record_file);
  if (!record) return record.error();
  const auto durability = parse_durability(kit::text_field(record->object, "durability"));
  if (!durability) return os::error_of(EBADMSG);
  RecordedSession session;
  if (*durability == SandboxDurability::persistent)
    session.workspace_key = kit::text_field(record->object, "workspace_key");
  session.cgroups = cgroups_in(record->object);
  session.owner = kit::owner_field(record->object);
  return session;
}

}  // namespace caisson::container
