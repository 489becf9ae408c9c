// Layout: where things are under the local provider's root (S-92).
#pragma once

#include <string>

#include "kit/workspace_lock.h"
#include "os/fd.h"

namespace caisson::local {

/// The directories of a root, opened once: whatever is put in their places later, what is named by them stays
/// in this root. Thread-safe: it never changes.
///
///     <root>/<key>                             a persistent workspace
///     <root>/.tai-sandbox/<key>.json           its sidecar
///     <root>/.ephemeral/<id>                   an ephemeral workspace, 0700
///     <root>/.tai-sandbox/.caisson/<id>.json   a session's marker
///                                  <id>.lock   held by the process whose session it is
///                                  <id>.new    a record of it on its way
///                                  <id>.tmp/   its files that put_file has not committed
///                                  keys/<key>.lock    held, shared, by the sessions on the workspace
///                                  keys/<key>.remove  the wish that the last of them removes it
struct Layout {
  std::string root;   ///< Absolute, symlinks resolved.
  os::Fd workspaces;  ///< `<root>`.
  os::Fd ephemeral;   ///< `<root>/.ephemeral`.
  os::Fd sidecars;    ///< `<root>/.tai-sandbox`.
  os::Fd records;     ///< `<root>/.tai-sandbox/.caisson`.
  os::Fd keys;        ///< `<root>/.tai-sandbox/.caisson/keys`, apart because a key may be spelled like an id.

  /// Opens the root, making what is missing. Throws root_unusable naming the root.
  static Layout open(const std::string& root);

  /// For the locks of persistent workspaces; as long as this lives.
  kit::WorkspaceStore store() const;
  std::string workspace_path(const std::string& key) const { return root + "/" + key; }
  std::string ephemeral_path(const std::string& id) const { return root + "/.ephemeral/" + id; }
  std::string temporary_path(const std::string& id) const {
    return root + "/.tai-sandbox/.caisson/" + id + ".tmp";
  }
};

using kit::lock_name;
using kit::record_name;
using kit::wish_name;
inline std::string new_name(const std::string& id) { return id + ".new"; }
inline std::string temporary_name(const std::string& id) { return id + ".tmp"; }

/// Throws root_unusable: `what` failed with `error`; the message names the root and says what to do.
[[noreturn]] void fail_root(const std::string& root, const std::string& what, const os::Error& error);

/// Replaces a file of `directory` for the session `id`, which holds its lock: a reader sees the old bytes or
/// the new. Throws root_unusable, leaving nothing.
void replace_record(const Layout& layout, const std::string& id, os::FdRef directory, const std::string& name,
                    const std::string& text);

}  // namespace caisson::local
