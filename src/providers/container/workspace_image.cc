// Images made by mkfs.ext4, bound to loop devices and mounted.
#include "providers/container/workspace_image.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "os/clock.h"
#include "os/fault_point.h"
#include "os/files.h"
#include "os/loop_device.h"
#include "os/mount.h"
#include "os/run_program.h"
#include "os/self.h"

namespace caisson::container {
namespace {

constexpr std::uint64_t trial_bytes = 1ULL << 20U;
constexpr int most_mounts = 16;  // Over one another, which nobody means.

// No blocks are kept for the host's root, whom no quota would stop either. A new sparse file is all zeros, so
// nothing has to be written again.
os::ExplainedResult<void> make_file_system(os::FdRef image, const UidSlot& slot) {
  const std::string owner = os::is_root()
                                ? std::to_string(slot.first_user) + ":" + std::to_string(slot.first_group)
                                : std::to_string(os::own_user()) + ":" + std::to_string(os::own_group());
  os::ProgramRun run{"making the file system of a workspace",
                     "e2fsprogs",
                     "/usr/sbin:/sbin:/usr/bin:/bin",
                     {"mkfs.ext4", "-q", "-F", "-m", "0", "-i", std::to_string(bytes_per_file), "-E"},
                     image};
  run.argv.push_back("assume_storage_prezeroed=1,root_owner=" + owner);
  run.argv.emplace_back("/proc/self/fd/0");
  return os::run_program(run);
}

// Sized, and not bound to anything.
os::ExplainedResult<os::Fd> new_file(os::FdRef directory, const std::string& name, std::uint64_t bytes) {
  const std::string step = "making a workspace's image";
  if (const auto fault = os::fault_point("image.open"); !fault) return os::explained(fault.error(), step);
  // One that a dead process left half made may be of another size.
  const auto gone = os::unlink_at(directory, name);
  if (!gone) return os::explained(gone.error(), step);
  auto file = os::open_at(directory, name, O_RDWR | O_CREAT | O_EXCL, 0600);
  if (!file) return os::explained(file.error(), step);
  const auto sized = os::set_size(*file, bytes);
  if (!sized) return os::explained(sized.error(), step);
  return std::move(*file);
}

os::ExplainedResult<os::LoopDevice> device_of(os::FdRef image, const std::string& name) {
  auto bound = os::find_loop_device(image);
  if (!bound) return bound.error();
  if (*bound) return std::move(**bound);
  return os::make_loop_device(image, name);
}

}  // namespace

os::ExplainedResult<void> WorkspaceImages::try_one() const {
  if (!os::is_root()) return os::explained(EPERM, "mounting a workspace's image", "only root may");
  const std::string name = os::random_hex_id() + ".img";
  const auto file = new_file(layout_->keys, name, trial_bytes);
  os::kill_point("image.trial");
  static_cast<void>(os::unlink_at(layout_->keys, name));
  if (!file) return file.error();
  const auto made = make_file_system(*file, {});
  if (!made) return made.error();
  const auto device = os::make_loop_device(*file, "caisson");
  if (!device) return device.error();
  // Gone with its descriptor, and the device with it.
  const auto mount = os::new_ext4(device->path);
  if (!mount) return mount.error();
  return {};
}

os::Result<bool> WorkspaceImages::exists(const std::string& key) const {
  return os::exists_at(layout_->volumes, image_name(key));
}

os::ExplainedResult<void> WorkspaceImages::make(const std::string& key, std::uint64_t bytes,
                                                const UidSlot& slot) const {
  const std::string name = image_name(key);
  const auto file = new_file(layout_->keys, name, bytes);
  auto made = file ? make_file_system(*file, slot) : os::ExplainedResult<void>(file.error());
  os::kill_point("image.made");
  if (made) {
    const auto fault = os::fault_point("image.name");
    const auto named = fault ? os::rename_at(layout_->keys, name, layout_->volumes, name) : fault;
    if (!named) made = os::explained(named.error(), "naming a workspace's image");
  }
  os::kill_point("image.named");
  if (!made) static_cast<void>(os::unlink_at(layout_->keys, name));
  return made;
}

os::ExplainedResult<void> WorkspaceImages::mount(const std::string& key) const {
  const std::string step = "mounting a workspace's image";
  const auto fault = os::fault_point("image.mount");
  const auto image =
      fault ? os::open_at(layout_->volumes, image_name(key), O_RDWR) : os::Result<os::Fd>(fault.error());
  if (!image) return os::explained(image.error(), step);
  const auto is = os::status(*image);
  if (!is || !S_ISREG(is->st_mode)) return os::explained(EINVAL, step, image_name(key) + " is no file");
  // Open until it is mounted: it goes with its last user.
  const auto device = device_of(*image, image_name(key));
  if (!device) return device.error();
  const auto mounted = os::is_mount_at(layout_->volumes, key);
  if (!mounted) return os::explained(mounted.error(), step);
  if (*mounted) {
    const auto there = os::status_at(layout_->volumes, key);
    if (there && there->st_dev == device->number) return {};
    return os::explained(EBUSY, step, "something else is mounted there");
  }
  const auto file_system = os::new_ext4(device->path);
  if (!file_system) return file_system.error();
  os::kill_point("image.bound");
  const auto attached = os::attach(*file_system, layout_->volumes, key);
  if (!attached) return attached.error();
  os::kill_point("image.mounted");
  // mkfs made it, and a check of the file system makes it again when it needs it; one of the box's is its
  // own.
  const auto directory = os::open_at(layout_->volumes, key, O_PATH | O_DIRECTORY);
  const auto found =
      directory ? os::status_at(*directory, "lost+found") : os::Result<os::FileStatus>(directory.error());
  if (found && found->st_uid == 0) static_cast<void>(os::remove_directory_at(*directory, "lost+found"));
  return {};
}

os::Result<bool> WorkspaceImages::is_mounted(const std::string& key) const {
  const auto failed = [](int number) {
    return os::Result<bool>(boost::system::in_place_error, os::error_of(number));
  };
  const auto mounted = os::is_mount_at(layout_->volumes, key);
  if (!mounted && mounted.error() == os::error_of(ENOENT)) return false;
  if (!mounted || !*mounted) return mounted;
  const auto image = os::open_at(layout_->volumes, image_name(key), O_RDONLY);
  if (!image && image.error() == os::error_of(ENOENT)) return false;
  if (!image) return failed(image.error().value());
  const auto device = os::find_loop_device(*image);
  if (!device) return failed(device.error().number);
  const auto there = os::status_at(layout_->volumes, key);
  if (!there) return failed(there.error().value());
  return *device && there->st_dev == (*device)->number;
}

os::ExplainedResult<void> WorkspaceImages::unmount(const std::string& key) const {
  for (int mounts = 0; mounts < most_mounts; ++mounts) {
    const auto mounted = is_mounted(key);
    if (!mounted) return os::explained(mounted.error(), "unmounting a workspace's image");
    if (!*mounted) return {};
    const auto fault = os::fault_point("image.unmount");
    const auto gone =
        fault ? os::detach_at(layout_->volumes, key)
              : os::ExplainedResult<void>(os::explained(fault.error(), "unmounting a workspace's image"));
    if (!gone) return gone.error();
    os::kill_point("image.unmounted");
  }
  return os::explained(EBUSY, "unmounting a workspace's image");
}

os::Result<void> WorkspaceImages::remove(const std::string& key) const {
  const auto fault = os::fault_point("image.remove");
  return fault ? os::unlink_at(layout_->volumes, image_name(key)) : fault;
}

}  // namespace caisson::container
