// Storage: all that the container provider has on disk, as its sessions use it.
#pragma once

#include <memory>

#include "caisson/providers/container.h"
#include "kit/workspace_lock.h"
#include "providers/container/layout.h"
#include "providers/container/uid_slots.h"
#include "providers/container/workspace_bound.h"

namespace caisson::container {

/// One for each provider that is open; its parts know each other. Thread-safe.
struct Storage {
  std::shared_ptr<const Layout> layout;
  std::shared_ptr<UidSlots> slots;
  std::shared_ptr<const WorkspaceBounds> bounds;

  /// Throws root_unusable, or unavailable where the ids of this machine cannot be told.
  static std::shared_ptr<const Storage> open(const ContainerSettings& settings);
  static std::shared_ptr<const Storage> open(std::shared_ptr<const Layout> layout, UidRanges ranges,
                                             std::uint64_t workspace_bytes, bool unbounded_disk);

  kit::WorkspaceStore store() const;  ///< For as long as this lives.
};

}  // namespace caisson::container
