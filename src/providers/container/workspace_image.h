// WorkspaceImages: workspaces that are file systems of their own, in sparse files (S-101).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "os/explained.h"
#include "providers/container/layout.h"
#include "providers/container/uid_slots.h"

namespace caisson::container {

/// A bound on bytes is one on files too: one for each of so many bytes.
constexpr std::uint64_t bytes_per_file = 8192;

/// An image is ext4 in `<key>.img`, mounted on the directory `<key>` for as long as sessions use it, by the
/// mount namespace of the process that opened it. Whatever opens it, in whatever process and mount namespace,
/// mounts it from the one loop device that it is bound to: two would destroy it. Calls block; thread-safe,
/// but for one key with its making_name() locked, or its lock_name() held alone.
class WorkspaceImages {
 public:
  explicit WorkspaceImages(std::shared_ptr<const Layout> layout) : layout_(std::move(layout)) {}

  /// Whether images can be had here, tried with one of 1 MiB. The error says what is missing.
  os::ExplainedResult<void> try_one() const;
  /// Whether the workspace has one.
  os::Result<bool> exists(const std::string& key) const;
  /// A new one, that belongs to the box's root as root. It holds somewhat less than `bytes`.
  os::ExplainedResult<void> make(const std::string& key, std::uint64_t bytes, const UidSlot& slot) const;
  /// Mounts it on the workspace's directory, if it is not. EBUSY: something else is mounted there.
  os::ExplainedResult<void> mount(const std::string& key) const;
  /// Whether it is mounted there.
  os::Result<bool> is_mounted(const std::string& key) const;
  /// Takes it from there; what has files of it open keeps them. What else may be mounted there stays.
  os::ExplainedResult<void> unmount(const std::string& key) const;
  os::Result<void> remove(const std::string& key) const;

 private:
  std::shared_ptr<const Layout> layout_;
};

}  // namespace caisson::container
