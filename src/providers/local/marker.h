// Marker and sidecar: the records of a session and of a persistent workspace (S-92).
#pragma once

#include <string>

#include "caisson/contract/models.h"
#include "os/identity.h"
#include "providers/local/layout.h"

namespace caisson::local {

/// What a marker says of its session; written before anything of the session is made, removed after the last
/// of it. Whether its owner lives is told by the session's lock alone; the owner's identity is for people,
/// and for naming its cgroup.
struct Marker {
  std::string id;
  std::string workspace_key;
  SandboxDurability durability = SandboxDurability::ephemeral;
  std::string workspace;  ///< Absolute path, for people.
  std::string created_at;
  std::string cgroup;  ///< Holds the processes of the owner's sessions; empty with shims, which die with it.
  os::ProcessIdentity owner = {};
};

/// Throws root_unusable when it cannot be written, whole or not at all.
void write_marker(const Layout& layout, const Marker& marker);
/// ENOENT for a marker that is missing, EBADMSG for one that makes no sense. Fields that it does not know are
/// ignored.
os::Result<Marker> read_marker(const Layout& layout, const std::string& id);

/// Gives a persistent workspace its sidecar, or an existing sidecar the fields that it lacks; what is there
/// stays, fields that are not known here included. Throws root_unusable, or workspace_conflict for one that
/// cannot be read.
void ensure_sidecar(const Layout& layout, const std::string& id, const SandboxSessionSpec& spec,
                    UtcTime created_at);

}  // namespace caisson::local
