// WorkspaceBounds: what keeps persistent workspaces from filling the disk (S-101).
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "kit/workspace_lock.h"
#include "os/explained.h"
#include "providers/container/layout.h"
#include "providers/container/volume_record.h"
#include "providers/container/workspace_image.h"

namespace caisson::container {

/// Bounds each persistent workspace by a project quota where the file system has them, else by an image of
/// that size, as root, else not at all, which only an operator's setting permits. A workspace keeps the bound
/// that it was made with. Calls block; thread-safe, for one key as WorkspaceImages.
///
/// Writes past a bound fail with EDQUOT or ENOSPC, a host process's too, if it is os::HeldToQuotas.
class WorkspaceBounds final : public kit::WorkspaceParts {
 public:
  /// `bytes` of each new workspace; `permit_none`: CAISSON_CONTAINER_UNBOUNDED_DISK.
  WorkspaceBounds(std::shared_ptr<const Layout> layout, std::uint64_t bytes, bool permit_none);

  /// The bound of a new workspace, found by trying. Throws SandboxSpecRejectedError (not_enforceable) where
  /// there is none and none is not permitted (S-16): it says what is missing, and the setting.
  WorkspaceBound choose() const;
  /// Whether what a recorded workspace is made of is there; false while it was never made to its end.
  os::Result<bool> is_made(const std::string& key, const WorkspaceBound& bound) const;
  /// Makes the workspace of that record what it lacks, directory and owner included, and opens it for use. To
  /// be repeated after a death or failure half way. Throws workspace_conflict, root_unusable, or as choose()
  /// where the bound cannot be had any more.
  void open(const std::string& key, const VolumeRecord& record) const;
  /// Whether new workspaces have a bound here.
  bool can_bound() const { return try_quota() || try_image(); }
  /// For doctor: how persistent workspaces are bounded here, or why they cannot be.
  std::string description() const;

  bool is_empty(const std::string& key) const override;
  os::Result<void> close(const std::string& key) const override;
  os::Result<void> remove(const std::string& key) const override;

  const WorkspaceImages& images() const noexcept { return images_; }

 private:
  os::ExplainedResult<void> try_quota() const;
  os::ExplainedResult<void> try_image() const;
  void make_directory(const std::string& key) const;
  void give_owner(const std::string& key, const UidSlot& slot) const;
  os::ExplainedResult<void> as_root_of(const UidSlot& slot, std::vector<std::string> argv) const;
  os::Result<void> remove_files_of_others(const std::string& key) const;
  void open_quota(const std::string& key, const WorkspaceBound& bound) const;
  void open_image(const std::string& key, const VolumeRecord& record) const;
  os::Result<std::uint32_t> unused_project() const;
  void release_quota(const std::string& key) const noexcept;

  const std::shared_ptr<const Layout> layout_;
  const std::uint64_t bytes_;
  const bool permit_none_;
  const WorkspaceImages images_;
  mutable std::mutex mutex_;
  mutable bool quota_works_ = false;  // What was seen to work is not tried again.
  mutable bool image_works_ = false;
};

}  // namespace caisson::container
