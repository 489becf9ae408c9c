// Which bound there is, found by trying, and workspaces opened within theirs.
#include "providers/container/workspace_bound.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "caisson/contract/errors.h"
#include "contract/quote.h"
#include "kit/disk_record.h"
#include "os/clock.h"
#include "os/fault_point.h"
#include "os/files.h"
#include "os/quota.h"
#include "os/run_program.h"
#include "os/self.h"

namespace caisson::container {
namespace {

// The projects that Caisson takes: far from the small numbers that people give theirs (projid(5)).
constexpr std::uint32_t first_project = 1U << 30U;
constexpr std::uint32_t projects = 1U << 30U;
constexpr int most_tries = 16;

constexpr std::size_t trial_fits = 16U << 10U;
constexpr std::size_t trial_bytes = 64U << 10U;
constexpr std::size_t trial_exceeds = 1U << 20U;

bool is_own_project(std::uint32_t project) noexcept { return project - first_project < projects; }

// What a machine lacks, or a user may not: another answer will not come by itself.
bool is_missing(int number) noexcept {
  switch (number) {
    case EPERM:
    case EACCES:
    case ENOENT:
    case ENODEV:
    case ENXIO:
    case ENOTBLK:
    case ENOSYS:
      return true;
    default:
      return false;
  }
}

[[noreturn]] void reject(const std::string& why) {
  throw SandboxSpecRejectedError(
      ErrorCode::not_enforceable,
      "provider cannot enforce: durability 'persistent': nothing would bound how much the workspace holds: " +
          why +
          "; have the file system of CAISSON_ROOT mounted with project quotas (ext4, XFS: prjquota), or run "
          "as "
          "root where there are loop devices and mkfs.ext4, or set CAISSON_CONTAINER_UNBOUNDED_DISK=1 to do "
          "without a bound; an ephemeral workspace has one in any case",
      "durability");
}

[[noreturn]] void fail_conflict(const std::string& key, const std::string& why) {
  throw SandboxError(
      ErrorCode::workspace_conflict,
      "workspace " + quote(key) + " cannot be used: " + why + "; move it away, or use another key",
      "workspace_key");
}

[[noreturn]] void fail(const os::ExplainedError& error, const std::string& which) {
  throw SandboxError(ErrorCode::root_unusable,
                     which + " cannot be opened: " + error.text +
                         "; see that the file system of CAISSON_ROOT has space, and is in order");
}

void require(const os::ExplainedResult<void>& done, const std::string& key) {
  if (done) return;
  const auto& [number, text] = done.error();
  if (number == EBUSY) fail_conflict(key, text);
  if (is_missing(number)) reject(text);
  fail(done.error(), "the workspace " + quote(key));
}

bool holds_nothing(os::FdRef directory) {
  const auto names = os::names_in(directory);
  return names && names->empty();
}

std::string mebibytes(std::uint64_t bytes) { return std::to_string(bytes >> 20U) + " MiB"; }

}  // namespace

WorkspaceBounds::WorkspaceBounds(std::shared_ptr<const Layout> layout, std::uint64_t bytes, bool permit_none)
    : layout_(std::move(layout)), bytes_(bytes), permit_none_(permit_none), images_(layout_) {}

// A limit that is set is not always kept: without the mount option ext4 only counts.
os::ExplainedResult<void> WorkspaceBounds::try_quota() const {
  {
    const std::lock_guard lock(mutex_);
    if (quota_works_) return {};
  }
  const std::string step = "setting a project quota";
  if (const auto fault = os::fault_point("bound.quota"); !fault) return os::explained(fault.error(), step);
  const auto file = os::make_unnamed_file(layout_->volumes, 0600);
  if (!file) return os::explained(file.error(), step);
  const auto project = unused_project();
  if (!project) return os::explained(project.error(), step);
  auto done = os::set_project(*file, *project);
  if (done) done = os::set_project_limit(*file, *project, {trial_bytes, 0});
  if (!done) return os::explained(done.error(), step);
  const os::HeldToQuotas held;
  done = os::write_all(*file, std::string(trial_fits, 'x'));
  const auto beyond = done ? os::write_all(*file, std::string(trial_exceeds, 'x')) : done;
  static_cast<void>(os::set_project_limit(*file, *project, {}));
  if (!done) return os::explained(done.error(), step);
  const bool bounds =
      !beyond && (beyond.error() == os::error_of(EDQUOT) || beyond.error() == os::error_of(ENOSPC));
  if (!bounds) return os::explained(ENOSYS, step, "it is not kept: mount the file system with prjquota");
  const std::lock_guard lock(mutex_);
  quota_works_ = true;
  return {};
}

os::ExplainedResult<void> WorkspaceBounds::try_image() const {
  {
    const std::lock_guard lock(mutex_);
    if (image_works_) return {};
  }
  const auto fault = os::fault_point("bound.image");
  const auto tried =
      fault ? images_.try_one()
            : os::ExplainedResult<void>(os::explained(fault.error(), "mounting a workspace's image"));
  if (!tried) return tried.error();
  const std::lock_guard lock(mutex_);
  image_works_ = true;
  return {};
}

os::Result<std::uint32_t> WorkspaceBounds::unused_project() const {
  const auto directory = os::open_at(layout_->volumes, ".", O_RDONLY | O_DIRECTORY);
  if (!directory) return directory.error();
  for (int tries = 0; tries < most_tries; ++tries) {
    const auto random = static_cast<std::uint32_t>(std::stoul(os::random_hex_id().substr(0, 8), nullptr, 16));
    const std::uint32_t project = first_project + random % projects;
    const auto quota = os::project_quota(*directory, project);
    if (!quota) return quota.error();
    const bool unused = quota->limit.bytes == 0 && quota->limit.files == 0 && quota->used.files == 0;
    if (unused) return project;
  }
  return os::error_of(EBUSY);
}

WorkspaceBound WorkspaceBounds::choose() const {
  const auto quota = try_quota();
  if (quota) {
    const auto project = unused_project();
    if (!project) fail_root(layout_->root, "choosing a project", project.error());
    return {BoundKind::project_quota, bytes_, *project};
  }
  const auto image = try_image();
  if (image) return {BoundKind::image, bytes_, 0};
  // A machine that is short of something for the moment has not come to lack it.
  if (kit::is_of_the_machine(os::error_of(image.error().number))) fail(image.error(), "a new workspace");
  if (permit_none_) return {};
  reject(quota.error().text + "; " + image.error().text);
}

os::Result<bool> WorkspaceBounds::is_made(const std::string& key, const WorkspaceBound& bound) const {
  return bound.kind == BoundKind::image ? images_.exists(key) : os::exists_at(layout_->volumes, key);
}

void WorkspaceBounds::open(const std::string& key, const VolumeRecord& record) const {
  switch (record.bound.kind) {
    case BoundKind::none:
      if (!permit_none_) reject("it was made without a bound, and what it holds is not counted");
      make_directory(key);
      break;
    case BoundKind::project_quota:
      make_directory(key);
      open_quota(key, record.bound);
      break;
    case BoundKind::image:
      open_image(key, record);
      break;
  }
  give_owner(key, record.slot);
}

void WorkspaceBounds::make_directory(const std::string& key) const {
  const auto fault = os::fault_point("volume.directory");
  const auto made = fault ? os::make_directory_at(layout_->volumes, key, 0755) : fault;
  if (!made && made.error() != os::error_of(EEXIST))
    fail_root(layout_->root, "making workspace " + quote(key), made.error());
  os::kill_point("volume.directory_made");
  const auto is = os::status_at(layout_->volumes, key);
  if (!is) fail_root(layout_->root, "looking at workspace " + quote(key), is.error());
  if (!S_ISDIR(is->st_mode)) fail_conflict(key, "it is no directory");
}

// It belongs to the box's root; whoever made it may have died before that.
void WorkspaceBounds::give_owner(const std::string& key, const UidSlot& slot) const {
  const auto fault = os::fault_point("volume.owner");
  const auto directory =
      fault ? os::open_at(layout_->volumes, key, O_PATH | O_DIRECTORY) : os::Result<os::Fd>(fault.error());
  const auto is = directory ? os::status(*directory) : os::Result<os::FileStatus>(directory.error());
  if (!is) fail_root(layout_->root, "opening workspace " + quote(key), is.error());
  if (is->st_uid - slot.first_user < slot.count) return;
  if (!os::is_root()) {
    const auto given = as_root_of(slot, {"chown", "-h", "0:0", "--", key});
    if (!given) fail(given.error(), "the workspace " + quote(key));
    return;
  }
  const auto owned = os::set_owner(*directory, slot.first_user, slot.first_group);
  if (!owned) fail_root(layout_->root, "giving workspace " + quote(key) + " its owner", owned.error());
}

// What root of those ids may do in the directory of workspaces, for an ordinary user.
os::ExplainedResult<void> WorkspaceBounds::as_root_of(const UidSlot& slot,
                                                      std::vector<std::string> argv) const {
  const os::IdMaps ids = maps_with_own(slot);
  os::ProgramRun run;
  run.step = "using the ids of a workspace";
  run.package = "coreutils";
  run.directories = "/usr/bin:/bin";
  run.argv = std::move(argv);
  run.directory = layout_->volumes;
  run.ids = &ids;
  return os::run_program(run);
}

void WorkspaceBounds::open_quota(const std::string& key, const WorkspaceBound& bound) const {
  const auto works = try_quota();
  if (!works && kit::is_of_the_machine(os::error_of(works.error().number)))
    fail(works.error(), "the workspace " + quote(key));
  if (!works && permit_none_) return;
  if (!works) reject(works.error().text);
  const auto directory = os::open_at(layout_->volumes, key, O_RDONLY | O_DIRECTORY);
  if (!directory) fail_root(layout_->root, "opening workspace " + quote(key), directory.error());
  const auto project = os::project_of(*directory);
  if (project && *project != bound.project && !holds_nothing(*directory))
    fail_conflict(key, "its files do not count for the quota that it is recorded with");
  const auto fault = os::fault_point("volume.quota");
  auto done = fault ? os::set_project(*directory, bound.project) : fault;
  if (done)
    done = os::set_project_limit(*directory, bound.project, {bound.bytes, bound.bytes / bytes_per_file});
  if (!done) require(os::explained(done.error(), "setting a project quota"), key);
}

void WorkspaceBounds::open_image(const std::string& key, const VolumeRecord& record) const {
  const auto there = images_.exists(key);
  if (!there) fail_root(layout_->root, "looking for workspace " + quote(key), there.error());
  if (!*there) require(images_.make(key, record.bound.bytes, record.slot), key);
  make_directory(key);
  require(images_.mount(key), key);
}

std::string WorkspaceBounds::description() const {
  const auto quota = try_quota();
  if (quota) return "project quotas of " + mebibytes(bytes_) + " on " + layout_->root;
  const auto image = try_image();
  if (image)
    return "file systems of their own, of " + mebibytes(bytes_) + ", in files under " + layout_->root;
  const std::string why = quota.error().text + "; " + image.error().text;
  if (permit_none_) return "nothing bounds them (CAISSON_CONTAINER_UNBOUNDED_DISK): " + why;
  return "persistent workspaces are refused, for nothing would bound them: " + why;
}

bool WorkspaceBounds::is_empty(const std::string& key) const {
  const auto has_image = images_.exists(key);
  if (!has_image) return false;
  if (*has_image) {
    const auto mounted = images_.is_mounted(key);
    if (!mounted || !*mounted) return false;
  }
  const auto directory = os::open_at(layout_->volumes, key, O_PATH | O_DIRECTORY);
  return directory && holds_nothing(*directory);
}

os::Result<void> WorkspaceBounds::close(const std::string& key) const {
  const auto unmounted = images_.unmount(key);
  if (!unmounted) return os::error_of(unmounted.error().number);
  return {};
}

os::Result<void> WorkspaceBounds::remove(const std::string& key) const {
  release_quota(key);
  if (const auto cleared = remove_files_of_others(key); !cleared) return cleared;
  return images_.remove(key);
}

// An ordinary user's own rights do not reach into directories of the ids of his boxes.
os::Result<void> WorkspaceBounds::remove_files_of_others(const std::string& key) const {
  if (os::is_root()) return {};
  const auto there = os::exists_at(layout_->volumes, key);
  const auto record = read_volume_record(*layout_, key);
  if (!there || !*there || !record || record->slot.count == 1)
    return there ? os::Result<void>() : there.error();
  const auto removed = as_root_of(record->slot, {"rm", "-rf", "--", key});
  if (!removed) return os::error_of(removed.error().number);
  return {};
}

// A record may name a project that is another's: the directory has to count for it too, which nobody in a box
// can make it.
void WorkspaceBounds::release_quota(const std::string& key) const noexcept {
  try {
    const auto record = read_volume_record(*layout_, key);
    if (!record || record->bound.kind != BoundKind::project_quota || !is_own_project(record->bound.project))
      return;
    const auto directory = os::open_at(layout_->volumes, key, O_RDONLY | O_DIRECTORY);
    const auto project =
        directory ? os::project_of(*directory) : os::Result<std::uint32_t>(directory.error());
    if (project && *project == record->bound.project)
      static_cast<void>(os::set_project_limit(*directory, *project, {}));
  } catch (const std::exception&) {
    // A limit of nothing is in nobody's way.
  }
}

}  // namespace caisson::container
