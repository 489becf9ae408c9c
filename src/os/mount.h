// Mounts made, changed and put in place by descriptor: fsopen(2), open_tree(2), mount_setattr(2),
// move_mount(2).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "os/explained.h"
#include "os/fd.h"

namespace caisson::os {

// The descriptors that these return are mounts of no namespace yet: they have no path until attach(), may be
// sent to another process, and are gone with their last descriptor when nobody attached them. All of it needs
// CAP_SYS_ADMIN over the mount namespace one is in, which an own user namespace gives.

/// A copy of what is mounted at `path` (open_tree(2) with OPEN_TREE_CLONE), which need not be the root of a
/// mount, a file included; with the mounts beneath it when `recursive`. EINVAL, in a user namespace of one's
/// own, when a mount from outside has others over parts of it and they would be left out.
ExplainedResult<Fd> clone_tree(const std::string& path, bool recursive);

/// What a mount is to have; what is false stays as it is. A mount from outside one's user namespace never
/// loses any of the first four.
struct MountAttributes {
  bool read_only = false;
  bool nosuid = false;
  bool nodev = false;
  bool noexec = false;
  bool private_propagation = false;  ///< MS_PRIVATE: mounts in it show nowhere else, nor others' in it.
};
/// mount_setattr(2): on one mount, detached or the root of an attached one, or on all of the tree beneath it,
/// or on none when one of them refuses.
ExplainedResult<void> set_attributes(FdRef mount, const MountAttributes& attributes, bool recursive);
/// Shows the owners of files as they are mapped in `user_namespace` (namespaces.h): an id on disk is what the
/// namespace calls it outside. Detached mounts only. EINVAL where the file system cannot (overlay before
/// 6.13, network file systems).
ExplainedResult<void> map_ids(FdRef mount, FdRef user_namespace, bool recursive);

/// A tmpfs of at most `size` bytes and `inodes` files, neither of them 0 (the kernel would take it for no
/// limit); its root has `mode`. nosuid, nodev.
ExplainedResult<Fd> new_tmpfs(std::uint64_t size, std::uint64_t inodes, mode_t mode);
/// proc(5) of the PID namespace that the caller is in. nosuid, nodev, noexec. EPERM, in a user namespace of
/// one's own, when every proc that one sees has something mounted over a part of it.
ExplainedResult<Fd> new_proc();
/// sysfs(5) of the network namespace, which must belong to one's user namespace. Read-only, nosuid, nodev,
/// noexec.
ExplainedResult<Fd> new_sysfs();
/// Terminals that a new devpts has at most: they come out of one number for the whole machine
/// (/proc/sys/kernel/pty/max).
inline constexpr int most_terminals = 256;
/// devpts with terminals of its own, which belong to `group` when given (EINVAL for one that is not mapped)
/// and have mode 0620; everybody may open its ptmx. nosuid, noexec.
ExplainedResult<Fd> new_devpts(std::optional<gid_t> group);

/// The ext4 on a block device, by its path in /dev: blocks that are freed there are discarded, and after an
/// error of the device it is read-only. nosuid, nodev. Mounting it twice gives two mounts of one file system.
ExplainedResult<Fd> new_ext4(const std::string& device);

/// The directories of an overlay, by paths that hold no comma, colon or backslash and are at most 255 bytes
/// long; a relative one is seen from the working directory. Detached mounts do not serve: attach() them
/// first.
struct OverlayLayers {
  std::span<const std::string> lowers;  ///< The topmost first. No mount may be beneath any of them.
  std::string upper;                    ///< Empty, with `work`: a read-only overlay.
  std::string work;                     ///< Empty, and on the file system of `upper`.
  bool userxattr = false;  ///< Always in a user namespace: else a lower directory cannot be removed (EIO).
};
/// overlayfs of these. nodev. Where the lowers with a colon between them are over 255 bytes it takes 6.8;
/// names of one letter serve 127 layers everywhere.
ExplainedResult<Fd> new_overlay(const OverlayLayers& layers);

/// Puts a detached mount over what is at `path` with `root` as the root directory: no symlink in a foreign
/// tree leads out of it (openat2(2), RESOLVE_IN_ROOT). An empty path is `root` itself, which may be a file.
/// `root` not given: any path. A last symlink is refused (ELOOP). Descriptors opened before still see what is
/// beneath.
ExplainedResult<void> attach(FdRef mount, FdRef root, const std::string& path);

/// Takes the topmost mount at a path, and all beneath it, out of the namespace (umount2(2), MNT_DETACH); it
/// ends with its last user.
ExplainedResult<void> detach(const std::string& path);

/// The same at a name in a directory. EINVAL where nothing is mounted.
ExplainedResult<void> detach_at(FdRef directory, const std::string& name);
/// Whether something is mounted at a name in a directory (statx(2), STATX_ATTR_MOUNT_ROOT).
Result<bool> is_mount_at(FdRef directory, const std::string& name) noexcept;

/// Makes `new_root`, the root of an attached mount, the root and working directory of this process's mount
/// namespace, and detaches all that was there before. Every mount of the namespace becomes private first. For
/// a process alone in a mount namespace of its own.
ExplainedResult<void> pivot_into(FdRef new_root);

}  // namespace caisson::os
