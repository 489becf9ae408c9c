// VolumeRecord: what is recorded of a persistent workspace, for every session on it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "caisson/kit/managed_sandbox.h"
#include "providers/container/layout.h"
#include "providers/container/uid_slots.h"

namespace caisson::container {

/// What keeps a workspace from filling the disk (S-101).
enum class BoundKind : std::uint8_t {
  none,           ///< Nothing does (CAISSON_CONTAINER_UNBOUNDED_DISK).
  project_quota,  ///< A quota of the file system that it is on.
  image           ///< It is a file system of its own, in a file of that size.
};
std::string_view to_string(BoundKind kind) noexcept;

struct WorkspaceBound {
  BoundKind kind = BoundKind::none;
  std::uint64_t bytes = 0;    ///< Of a bound: the most that it holds.
  std::uint32_t project = 0;  ///< Of a project quota: whose.

  bool operator==(const WorkspaceBound&) const = default;
};

struct VolumeRecord {
  UidSlot slot;  ///< Whose its files are.
  WorkspaceBound bound;
};

/// ENOENT: there is none; EBADMSG: it makes no sense.
os::Result<VolumeRecord> read_volume_record(const Layout& layout, const std::string& key);
/// Written whole or not at all, with the workspace's making_name() locked. Never holds `env`.
os::Result<void> write_volume_record(const Layout& layout, const kit::SessionRecord& session,
                                     const VolumeRecord& record);

}  // namespace caisson::container
