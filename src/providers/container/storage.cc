// Opening what is on disk.
#include "providers/container/storage.h"

#include "caisson/contract/validate.h"
#include "os/fd.h"
#include "providers/container/volume_record.h"

namespace caisson::container {
namespace {

struct IsRecorded {
  bool operator()(const std::string& key, const os::IdRange& users) const {
    if (!is_workspace_key(key)) return false;
    const auto record = read_volume_record(*layout, key);
    if (record) return record->slot.first_user == users.first && record->slot.count == users.count;
    return record.error() != os::error_of(ENOENT);
  }
  std::shared_ptr<const Layout> layout;
};

}  // namespace

std::shared_ptr<const Storage> Storage::open(const ContainerSettings& settings) {
  auto layout = std::make_shared<const Layout>(Layout::open(settings.root, settings.runtime_directory));
  return open(std::move(layout),
              UidRanges(UidSources::of_this_machine(), settings.uid_base, settings.uids_per_box),
              settings.workspace_bytes, settings.unbounded_disk);
}

std::shared_ptr<const Storage> Storage::open(std::shared_ptr<const Layout> layout, UidRanges ranges,
                                             std::uint64_t workspace_bytes, bool unbounded_disk) {
  auto ids = os::duplicate(layout->ids);
  if (!ids) fail_root(layout->root, "opening ids", ids.error());
  auto storage = std::make_shared<Storage>();
  storage->slots = std::make_shared<UidSlots>(std::move(ranges), std::move(*ids), IsRecorded{layout});
  storage->bounds = std::make_shared<const WorkspaceBounds>(layout, workspace_bytes, unbounded_disk);
  storage->layout = std::move(layout);
  return storage;
}

kit::WorkspaceStore Storage::store() const {
  kit::WorkspaceStore store = layout->store();
  store.parts = bounds.get();
  return store;
}

}  // namespace caisson::container
