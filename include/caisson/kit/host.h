// Host: commands as plain processes of this machine, and directories of it as workspaces. What the local
// provider is made of, and any provider that runs its commands as host processes.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "caisson/kit/log.h"
#include "caisson/kit/provider.h"
#include "caisson/kit/workers.h"

namespace caisson::kit {

/// How the processes of an exec are found again and killed (S-94).
enum class TreeKill {
  automatic,  ///< cgroup where one can be had, else shim.
  cgroup,     ///< A cgroup for each exec; unavailable where none can be had.
  shim,       ///< A subreaper process for each exec.
};
std::string_view to_string(TreeKill value) noexcept;

struct HostOptions {
  TreeKill tree_kill = TreeKill::automatic;
  Log log = {};
};

struct HostBoxOptions {
  std::string workspace_path;       ///< Absolute path of an existing directory.
  std::string temporary_directory;  ///< Absolute path on the same file system and outside the workspace, for
                                    ///< files that put_file has not committed. Its parent exists; the first
                                    ///< file makes it (0700), and its owner removes it.
  std::string base_path;            ///< The PATH of an exec that sets none (S-41).
};

/// What a provider of host processes shares between its sessions: threads (for spawns one for each core and
/// at least two, for files two, for the provider's own calls two, and one that clears up), and the way that
/// trees are killed. Opening one raises the process's soft descriptor limit to the hard one (S-44).
/// Thread-safe.
class Host {
 public:
  /// Throws SandboxError (unavailable) where the kernel lacks a call that Caisson cannot do without, or the
  /// way asked for cannot be had, saying what stands in the way.
  static std::shared_ptr<Host> open(HostOptions options);
  virtual ~Host();

  /// The way in use: cgroup or shim.
  virtual TreeKill tree_kill() const noexcept = 0;
  /// The cgroup directory that holds every exec's, for a recovery to kill; empty with shims, whose trees die
  /// with us.
  virtual std::string cgroup_path() const = 0;
  /// For a provider's own blocking calls: making and removing sessions.
  virtual Workers& workers() noexcept = 0;
  /// A box over an existing directory; throws root_unusable when it is none. Dropping it removes nothing.
  virtual std::shared_ptr<SessionBox> make_box(HostBoxOptions options) = 0;
};

}  // namespace caisson::kit
