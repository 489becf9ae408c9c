// Shares in persistent workspaces.
#include "kit/workspace_lock.h"

#include <fcntl.h>

#include <chrono>
#include <optional>
#include <thread>

#include "caisson/contract/errors.h"
#include "contract/quote.h"
#include "os/fault_point.h"
#include "os/files.h"
#include "os/lock.h"
#include "os/remove_tree.h"

namespace caisson::kit {
namespace {

// Others hold the lock alone while they look for a wish, an instant; while they close a workspace, which may
// take a disk's time; and while they remove it, which a create does not wait for.
constexpr std::chrono::milliseconds most_wait{200};
constexpr std::chrono::seconds most_wait_for_closing{10};
constexpr std::chrono::milliseconds wait_step{1};

[[noreturn]] void fail_conflict(const std::string& key, const std::string& why) {
  throw SandboxError(ErrorCode::workspace_conflict,
                     "workspace " + quote(key) + " is " + why + "; use another key until then",
                     "workspace_key");
}

[[noreturn]] void fail_removal(const WorkspaceStore& store, const std::string& key, const os::Error& error) {
  throw SandboxError(ErrorCode::removal_failed, "the workspace " + quote(store.workspace_path(key), 300) +
                                                    " cannot be removed: " + error.message() +
                                                    "; take away what stands in the way, it is tried again");
}

os::Result<bool> has_wish(const WorkspaceStore& store, const std::string& key) {
  return os::exists_at(store.keys, wish_name(key));
}

// The lock of `key` held alone, or nothing while somebody uses it.
std::optional<os::Fd> take_alone(const WorkspaceStore& store, const std::string& key) {
  if (const auto fault = os::fault_point("workspace.alone"); !fault) fail_removal(store, key, fault.error());
  auto alone = os::try_lock(store.keys, lock_name(key), os::LockKind::exclusive);
  if (!alone) fail_removal(store, key, alone.error());
  return std::move(*alone);
}

// With the lock held alone.
void close_workspace(const WorkspaceStore& store, const std::string& key) {
  const auto closed = store.parts ? store.parts->close(key) : os::Result<void>();
  if (!closed) fail_removal(store, key, closed.error());
}

// With the lock held alone, of what is closed. The wish goes last, so that a removal cut short is taken up
// again.
void remove_workspace(const WorkspaceStore& store, const std::string& key) {
  os::Result<void> done = os::fault_point("workspace.remove");
  if (done && store.parts) done = store.parts->remove(key);
  if (done) done = os::remove_tree(store.workspaces, key);
  if (done) done = os::fault_point("workspace.sidecar");
  if (done) done = os::unlink_at(store.records, record_name(key));
  if (done) done = os::fault_point("wish.remove");
  if (done) done = os::unlink_at(store.keys, wish_name(key));
  if (!done) fail_removal(store, key, done.error());
}

// With the lock held alone: whoever has just opened it finds it unlinked, and makes a new one.
void drop_lock_file(const WorkspaceStore& store, const std::string& key) {
  os::kill_point("workspace.unlock");
  static_cast<void>(os::unlink_at(store.keys, lock_name(key)));
}

}  // namespace

WorkspaceLock WorkspaceLock::take(const WorkspaceStore& store, const std::string& key) {
  const auto begin = std::chrono::steady_clock::now();
  for (;;) {
    const auto fault = os::fault_point("create.share");
    auto shared = fault ? os::try_lock(store.keys, lock_name(key), os::LockKind::shared)
                        : os::Result<std::optional<os::Fd>>(fault.error());
    if (!shared) store.fail(store.path, "locking workspace " + quote(key), shared.error());
    if (*shared) {
      WorkspaceLock share(key, std::move(**shared));
      const auto wished = has_wish(store, key);
      if (wished && !*wished) return share;
      if (!wished) {
        share.abandon(store, false, false);
        store.fail(store.path, "looking at workspace " + quote(key), wished.error());
      }
      os::unlock(std::move(share.shared_));
      try {
        if (fulfil_wish(store, key)) continue;
      } catch (const SandboxError& error) {
        fail_conflict(key, "to be removed, and " + std::string(error.what()));
      }
    }
    // Another create may be looking at the same time as this one, so a lock that is held is looked at again.
    const auto waited = std::chrono::steady_clock::now() - begin;
    if (waited >= most_wait) {
      const auto wished = has_wish(store, key);
      if (!wished || *wished) fail_conflict(key, "to be removed, and sessions still use it");
    }
    if (waited >= most_wait_for_closing)
      fail_conflict(key, "being closed by its last session, which takes long");
    std::this_thread::sleep_for(wait_step);
  }
}

void WorkspaceLock::give_up(const WorkspaceStore& store, bool remove) {
  os::Error no_wish;
  if (remove && !wished_) {
    const auto fault = os::fault_point("wish.write");
    const auto wish = fault ? os::open_at(store.keys, wish_name(key_), O_WRONLY | O_CREAT, 0600)
                            : os::Result<os::Fd>(fault.error());
    os::kill_point("wish.written");
    if (wish) wished_ = true;
    if (!wish) no_wish = wish.error();
  }
  os::unlock(std::move(shared_));
  if (!no_wish) {
    fulfil_wish(store, key_);
    return;
  }
  // A disk without room for the wish needs the removal all the more.
  const auto alone = take_alone(store, key_);
  if (!alone) fail_removal(store, key_, no_wish);
  close_workspace(store, key_);
  remove_workspace(store, key_);
  drop_lock_file(store, key_);
  wished_ = true;
}

void WorkspaceLock::abandon(const WorkspaceStore& store, bool made_directory, bool made_sidecar) noexcept {
  os::unlock(std::move(shared_));
  os::kill_point("abandon.share");
  try {
    const auto alone = take_alone(store, key_);
    if (!alone) return;
    // Another session may have come, filled it, and gone.
    const bool empty = made_directory && (!store.parts || store.parts->is_empty(key_));
    close_workspace(store, key_);
    const bool removed = empty && (!store.parts || store.parts->remove(key_)) &&
                         os::remove_directory_at(store.workspaces, key_);
    if (made_sidecar && (removed || !made_directory))
      static_cast<void>(os::unlink_at(store.records, record_name(key_)));
    const auto wished = has_wish(store, key_);
    if (wished && *wished) remove_workspace(store, key_);
    drop_lock_file(store, key_);
  } catch (const std::exception&) {
    // A wish that is left waits for the next to look.
  }
}

void WorkspaceLock::remove_when_unused(const WorkspaceStore& store, const std::string& key) {
  WorkspaceLock none(key, os::Fd());
  none.give_up(store, true);
}

bool fulfil_wish(const WorkspaceStore& store, const std::string& key) {
  auto alone = take_alone(store, key);
  if (!alone) return false;  // Somebody uses it, who will look when he leaves.
  close_workspace(store, key);
  const auto wished = has_wish(store, key);
  if (!wished) fail_removal(store, key, wished.error());
  if (*wished) remove_workspace(store, key);
  drop_lock_file(store, key);
  os::unlock(std::move(*alone));
  return *wished;
}

}  // namespace caisson::kit
