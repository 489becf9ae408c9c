// Layout: where things are under CAISSON_ROOT and CAISSON_RUNTIME_DIR.
#pragma once

#include <string>

#include "kit/workspace_lock.h"
#include "os/fd.h"

namespace caisson::container {

/// The provider's directories, opened once. The two that are given are this user's and nobody else may write
/// in them; all below them is this user's alone (0700). Mounts name volumes by their paths: what stands in
/// the way of one that another user could swap is that only this user may. Thread-safe: it never changes.
///
///     <root>/volumes/<key>                a persistent workspace, or where its image is mounted
///     <root>/volumes/<key>.img            its file system, where it has one of its own (workspace_bound.h)
///     <root>/volumes/<key>.json           its record: the ids that its files belong to, how it is bounded
///     <root>/volumes/.keys/<key>.lock     held, shared, by the sessions on the workspace
///                         /<key>.remove   the wish that the last of them removes it
///                         /<key>.make     held while it is looked for, made or mounted
///                         /<key>.new      its record on the way
///                         /<key>.img      its image on the way
///     <root>/ids/                         slots of ids (uid_slots.h)
///     <runtime>/sessions/<id>.lock        held by the process whose session it is
///     <runtime>/sessions/<id>/            a session's state: session.json, its record
struct Layout {
  std::string root;               ///< Absolute, symlinks resolved.
  std::string runtime_directory;  ///< Absolute; only those in its parents are resolved.
  os::Fd volumes;
  os::Fd keys;
  os::Fd ids;
  os::Fd sessions;

  /// Makes what is missing. Throws root_unusable naming the directory: also for a runtime directory that is a
  /// symlink, and for one of the two or of those below that is somebody else's, or that others may write.
  static Layout open(const std::string& root, const std::string& runtime_directory);

  kit::WorkspaceStore store() const;  ///< For as long as this lives.
  std::string volume_path(const std::string& key) const { return root + "/volumes/" + key; }
  std::string state_path(const std::string& id) const { return runtime_directory + "/sessions/" + id; }
};

/// Files of a volume (kit::lock_name and the like have the others).
inline std::string image_name(const std::string& key) { return key + ".img"; }
inline std::string making_name(const std::string& key) { return key + ".make"; }
inline std::string new_name(const std::string& key) { return key + ".new"; }

/// Throws root_unusable: `what` failed with `error`; the message names the directory and says what to do.
[[noreturn]] void fail_root(const std::string& directory, const std::string& what, const os::Error& error);

}  // namespace caisson::container
