// Layout: where things are under CAISSON_ROOT and CAISSON_RUNTIME_DIR.
#pragma once

#include <string>

#include "kit/workspace_lock.h"
#include "os/fd.h"

namespace caisson::container {

/// The provider's directories, opened once: whatever is put in their places later, what is named by them
/// stays in these. Thread-safe: it never changes. Both are this user's; nobody else may look into what is
/// below them (0700).
///
///     <root>/volumes/<key>                a persistent workspace
///     <root>/volumes/<key>.json           its record, with the ids that its files belong to
///     <root>/volumes/.keys/<key>.lock     held, shared, by the sessions on the workspace
///                         /<key>.remove   the wish that the last of them removes it
///                         /<key>.make     held while its record is looked for or made
///                         /<key>.new      its record on its way
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

  /// Makes what is missing. Throws root_unusable naming the directory: also for one that is another user's or
  /// that others may write, and for a runtime directory that is a symlink, for it may stand where anybody
  /// makes entries.
  static Layout open(const std::string& root, const std::string& runtime_directory);

  kit::WorkspaceStore store() const;  ///< For as long as this lives.
  std::string volume_path(const std::string& key) const { return root + "/volumes/" + key; }
};

/// Throws root_unusable: `what` failed with `error`; the message names the directory and says what to do.
[[noreturn]] void fail_root(const std::string& directory, const std::string& what, const os::Error& error);

}  // namespace caisson::container
