// The mount calls that work on descriptors, and what the kernel says when they fail.
#include "os/mount.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <string_view>

namespace caisson::os {
namespace {

// fsconfig(2) takes strings of fewer than 256 bytes.
constexpr std::size_t longest_option = 255;
// Another process renaming anything makes some resolutions with ".." fail with EAGAIN (openat2(2)).
constexpr int most_tries = 256;

ExplainedResult<void> done_if(long result, const std::string& step) {
  if (result < 0) return explained(errno, step);
  return {};
}

ExplainedResult<Fd> adopt_if(int number, const std::string& step) {
  if (number < 0) return explained(errno, step);
  auto clear = clear_of_standard_streams(Fd::adopt(number));
  if (!clear) return explained(clear.error(), step);
  return std::move(*clear);
}

// A file system being configured (fsopen(2)).
class Context {
 public:
  explicit Context(const char* type)
      : step_(std::string("creating ") + type), fd_(Fd::adopt(::fsopen(type, FSOPEN_CLOEXEC))) {
    if (!fd_) failure_ = explained(errno, step_);
  }

  void set(const char* key, const std::string& value) {
    if (value.size() > longest_option) {
      if (failure_.number == 0) failure_ = explained(ENAMETOOLONG, step_ + ": " + key);
      return;
    }
    configure(FSCONFIG_SET_STRING, key, value.c_str());
  }
  void set(const char* key) { configure(FSCONFIG_SET_FLAG, key, nullptr); }

  /// The mount, or the first thing that failed.
  ExplainedResult<Fd> mount(unsigned attributes) {
    configure(FSCONFIG_CMD_CREATE, nullptr, nullptr);
    if (failure_.number != 0) return failure_;
    const int number = ::fsmount(fd_.number(), FSMOUNT_CLOEXEC, attributes);
    if (number < 0) fail(errno);
    if (failure_.number != 0) return failure_;
    return adopt_if(number, step_);
  }

 private:
  void configure(unsigned command, const char* key, const char* value) {
    if (failure_.number != 0 || ::fsconfig(fd_.number(), command, key, value, 0) == 0) return;
    const int number = errno;
    // Not every file system says which option it was.
    if (key != nullptr) step_ += std::string(" with ") + key;
    if (value != nullptr) step_ += std::string("=") + value;
    fail(number);
  }
  void fail(int number) { failure_ = explained(number, step_, messages()); }

  // One message a read, each with its level before it: "e overlay: ...".
  std::string messages() const {
    std::string all;
    std::array<char, 1024> buffer;
    for (;;) {
      const ssize_t count = ::read(fd_.number(), buffer.data(), buffer.size());
      if (count <= 0) return all;
      std::string_view message(buffer.data(), static_cast<std::size_t>(count));
      if (message.size() > 2 && message[1] == ' ') message.remove_prefix(2);
      while (!message.empty() && message.back() == '\n') message.remove_suffix(1);
      if (!all.empty()) all += "; ";
      all += message;
    }
  }

  std::string step_;
  Fd fd_;
  ExplainedError failure_{0, {}};
};

// A path where a mount is to go, as an O_PATH descriptor.
Result<Fd> open_place(FdRef root, const std::string& path) noexcept {
  open_how how{};
  how.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC;
  how.resolve = root.number < 0 ? 0 : RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  long number = -1;
  for (int tries = 0; number < 0 && tries < most_tries; ++tries) {
    number = ::syscall(SYS_openat2, root.number < 0 ? AT_FDCWD : root.number, path.c_str(), &how, sizeof how);
    if (number < 0 && errno != EAGAIN && errno != EINTR) break;
  }
  if (number < 0) return last_error();
  Fd place = Fd::adopt(static_cast<int>(number));
  struct stat is{};
  if (::fstat(place.number(), &is) != 0) return last_error();
  if (S_ISLNK(is.st_mode)) return error_of(ELOOP);
  return place;
}

bool is_plain(std::string_view path) noexcept { return path.find_first_of(",:\\") == std::string_view::npos; }

}  // namespace

ExplainedResult<Fd> clone_tree(const std::string& path, bool recursive) {
  const unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | (recursive ? AT_RECURSIVE : 0U);
  return adopt_if(::open_tree(AT_FDCWD, path.c_str(), flags), "copying the mount of " + path);
}

ExplainedResult<void> set_attributes(FdRef mount, const MountAttributes& attributes, bool recursive) {
  mount_attr change{};
  if (attributes.read_only) change.attr_set |= MOUNT_ATTR_RDONLY;
  if (attributes.nosuid) change.attr_set |= MOUNT_ATTR_NOSUID;
  if (attributes.nodev) change.attr_set |= MOUNT_ATTR_NODEV;
  if (attributes.noexec) change.attr_set |= MOUNT_ATTR_NOEXEC;
  if (attributes.private_propagation) change.propagation = MS_PRIVATE;
  const unsigned flags = AT_EMPTY_PATH | (recursive ? AT_RECURSIVE : 0U);
  return done_if(::mount_setattr(mount.number, "", flags, &change, sizeof change),
                 "setting a mount's attributes");
}

ExplainedResult<void> map_ids(FdRef mount, FdRef user_namespace, bool recursive) {
  // A negative number would be taken for a huge one, and its error for the mount's.
  if (user_namespace.number < 0) return explained(EBADF, "mapping a mount's owners");
  mount_attr change{};
  change.attr_set = MOUNT_ATTR_IDMAP;
  change.userns_fd = static_cast<unsigned>(user_namespace.number);
  const unsigned flags = AT_EMPTY_PATH | (recursive ? AT_RECURSIVE : 0U);
  return done_if(::mount_setattr(mount.number, "", flags, &change, sizeof change),
                 "mapping a mount's owners");
}

ExplainedResult<Fd> new_tmpfs(std::uint64_t size, std::uint64_t inodes, mode_t mode) {
  if (size == 0 || inodes == 0) return explained(EINVAL, "creating tmpfs without a limit");
  std::array<char, 16> octal{};
  std::snprintf(octal.data(), octal.size(), "%o", mode & 07777U);
  Context context("tmpfs");
  context.set("size", std::to_string(size));
  context.set("nr_inodes", std::to_string(inodes));
  context.set("mode", octal.data());
  return context.mount(MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
}

ExplainedResult<Fd> new_proc() {
  return Context("proc").mount(MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
}

ExplainedResult<Fd> new_sysfs() {
  return Context("sysfs").mount(MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
}

ExplainedResult<Fd> new_devpts(std::optional<gid_t> group) {
  Context context("devpts");
  context.set("ptmxmode", "0666");
  context.set("mode", "0620");
  context.set("max", std::to_string(most_terminals));
  if (group) context.set("gid", std::to_string(*group));
  return context.mount(MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
}

ExplainedResult<Fd> new_ext4(const std::string& device) {
  Context context("ext4");
  context.set("source", device);
  context.set("discard");
  context.set("errors", "remount-ro");
  return context.mount(MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
}

ExplainedResult<Fd> new_overlay(const OverlayLayers& layers) {
  std::string joined;
  bool plain = is_plain(layers.upper) && is_plain(layers.work);
  for (const std::string& lower : layers.lowers) {
    plain = plain && is_plain(lower);
    if (!joined.empty()) joined += ':';
    joined += lower;
  }
  if (!plain) return explained(EINVAL, "creating overlay of a path with a comma, colon or backslash");
  Context context("overlay");
  if (joined.size() <= longest_option) {
    context.set("lowerdir", joined);
  } else {
    for (const std::string& lower : layers.lowers) context.set("lowerdir+", lower);
  }
  if (!layers.upper.empty()) context.set("upperdir", layers.upper);
  if (!layers.work.empty()) context.set("workdir", layers.work);
  if (layers.userxattr) context.set("userxattr");
  return context.mount(MOUNT_ATTR_NODEV);
}

ExplainedResult<void> attach(FdRef mount, FdRef root, const std::string& path) {
  const auto step = [&] { return "mounting at " + (path.empty() ? "a descriptor" : path); };
  Fd place;
  if (!path.empty()) {
    auto opened = open_place(root, path);
    if (!opened) return explained(opened.error(), step());
    place = std::move(*opened);
  }
  return done_if(::move_mount(mount.number, "", path.empty() ? root.number : place.number(), "",
                              MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH),
                 step());
}

ExplainedResult<void> detach(const std::string& path) {
  return done_if(::umount2(path.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW), "detaching the mount at " + path);
}

ExplainedResult<void> detach_at(FdRef directory, const std::string& name) {
  return detach("/proc/self/fd/" + std::to_string(directory.number) + "/" + name);
}

Result<bool> is_mount_at(FdRef directory, const std::string& name) noexcept {
  struct statx is{};
  if (::statx(directory.number, name.c_str(), AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, STATX_TYPE, &is) != 0)
    return {boost::system::in_place_error, last_error()};
  return (is.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

ExplainedResult<void> pivot_into(FdRef new_root) {
  // Or what is detached here could go elsewhere too, and pivot_root refuses shared mounts.
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    return explained(errno, "making the mounts private");
  }
  if (::fchdir(new_root.number) != 0) return explained(errno, "entering the new root");
  // The old root comes to lie over the new one, at the same place, which spares a directory for it.
  if (::syscall(SYS_pivot_root, ".", ".") != 0) return explained(errno, "changing the root");
  if (::umount2(".", MNT_DETACH) != 0) return explained(errno, "detaching the old root");
  return done_if(::chdir("/"), "entering the new root");
}

}  // namespace caisson::os
