// WorkspaceLock: who uses a persistent workspace, across processes, and whose duty it is to remove it (S-25).
#pragma once

#include <string>

#include "os/fd.h"
#include "os/result.h"

namespace caisson::kit {

/// What a provider's workspaces are made of beside a directory and a record: a file system of their own, a
/// quota. Calls block, and come with the key's lock held alone.
class WorkspaceParts {
 public:
  virtual ~WorkspaceParts() = default;
  /// Whether the workspace holds nothing; false where that cannot be told.
  virtual bool is_empty(const std::string& key) const = 0;
  /// Lets go of what its users alone need, for it has none any more.
  virtual os::Result<void> close(const std::string& key) const = 0;
  /// Removes what it is made of, once it is closed and before its directory is removed.
  virtual os::Result<void> remove(const std::string& key) const = 0;
};

/// Where a provider keeps persistent workspaces, each a directory by its key. The descriptors are borrowed.
struct WorkspaceStore {
  std::string path;      ///< Absolute, of `workspaces`.
  os::FdRef workspaces;  ///< `<key>`.
  os::FdRef records;     ///< `<key>.json`, removed with the workspace.
  os::FdRef keys;        ///< `<key>.lock` and `<key>.remove`, for nobody else to use.
  /// Throws root_unusable: `what` failed with `error`.
  void (*fail)(const std::string& path, const std::string& what, const os::Error& error);
  const WorkspaceParts* parts = nullptr;  ///< Borrowed too; none: directories are all there is.

  std::string workspace_path(const std::string& key) const { return path + "/" + key; }
};

inline std::string record_name(const std::string& id_or_key) { return id_or_key + ".json"; }
inline std::string lock_name(const std::string& id_or_key) { return id_or_key + ".lock"; }
inline std::string wish_name(const std::string& key) { return key + ".remove"; }

/// A share in a persistent workspace. Every session on a key holds `<key>.lock` shared; one that is to remove
/// the workspace leaves the wish `<key>.remove`. Whoever lets go of the lock looks for a wish and tries to
/// take the lock alone: of those who do, the last succeeds, and removes it. Blocking calls, one at a time.
/// Destroying a share without give_up() drops the lock and nothing else, as the death of its process does.
class WorkspaceLock {
 public:
  /// Throws workspace_conflict while a wish to remove the workspace waits for its last session, or cannot be
  /// fulfilled.
  static WorkspaceLock take(const WorkspaceStore& store, const std::string& key);

  /// Leaves the workspace, with a wish to remove it when `remove`. Throws removal_failed when this is the
  /// last session and the workspace cannot be removed; then call it again. May be called again with `remove`
  /// after it was left without.
  void give_up(const WorkspaceStore& store, bool remove);
  /// The wish of a session that has left already.
  static void remove_when_unused(const WorkspaceStore& store, const std::string& key);
  /// Leaves a workspace whose session could not be made: removes what that made of it, if nobody else has
  /// come to use it.
  void abandon(const WorkspaceStore& store, bool made_directory, bool made_sidecar) noexcept;

 private:
  WorkspaceLock(std::string key, os::Fd shared) noexcept : key_(std::move(key)), shared_(std::move(shared)) {}
  std::string key_;
  os::Fd shared_;
  bool wished_ = false;  // A wish is made once: later the workspace of that key may be another.
};

/// Fulfils the wish to remove `key`'s workspace if there is one and nobody uses it; whether it was removed.
/// Throws removal_failed.
bool fulfil_wish(const WorkspaceStore& store, const std::string& key);

}  // namespace caisson::kit
