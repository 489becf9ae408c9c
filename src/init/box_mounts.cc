// The mounts of a box, made in the view of the old root, which stays in sight until the last of them.
#include "init/box_mounts.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "os/beneath.h"
#include "os/files.h"
#include "os/mount.h"

namespace caisson::init {
namespace {

constexpr std::uint64_t scratch_size = 1 << 20;
constexpr std::uint64_t scratch_inodes = 2048;
constexpr gid_t tty_group = 5;  // As in every distribution's /etc/group.

constexpr const char* device_names[] = {"null", "zero", "full", "random", "urandom", "tty"};
static_assert(std::size(device_names) == max_devices);

Failed failed(Step step, const os::ExplainedError& error) { return failure(step, error.number, error.text); }

const std::string& target_of(const Mount& mount) {
  return std::visit([](const auto& each) -> const std::string& { return each.target; }, mount);
}

Step step_of(const Mount& mount) noexcept {
  if (std::holds_alternative<Proc>(mount)) return Step::proc;
  return std::holds_alternative<Devpts>(mount) ? Step::tty : Step::mount;
}

bool is_root(std::string_view path) noexcept { return path.find_first_not_of('/') == std::string_view::npos; }

// The kernel's own defaults are half of the memory.
std::uint64_t half_of_memory(std::uint64_t unit) noexcept {
  struct sysinfo info{};
  ::sysinfo(&info);
  return std::max<std::uint64_t>(1, info.totalram * info.mem_unit / 2 / unit);
}

class Builder {
 public:
  Builder(const BoxPlan& plan, std::vector<os::Fd> attached) : plan_(plan), attached_(std::move(attached)) {}

  BoxResult<BoxMounts> build() {
    auto done = check();
    if (done) done = make_private();
    for (const Mount& mount : plan_.mounts) {
      if (done) done = put(mount);
    }
    if (done) done = fill();
    if (done) done = mask_all();
    if (done) done = close_writable();
    if (done) done = pivot();
    for (const std::string& path : plan_.read_only) {
      if (done) done = make_read_only(path);
    }
    if (done) done = open_handles();
    if (!done) return done.error();
    return std::move(result_);
  }

 private:
  BoxResult<void> check() const {
    const auto at_root = [](const Mount& mount) { return is_root(target_of(mount)); };
    if (std::count_if(plan_.mounts.begin(), plan_.mounts.end(), at_root) != 1) {
      return failure(Step::mount, EINVAL, "a plan has one mount at /");
    }
    const auto is_proc = [](const Mount& mount) {
      return std::holds_alternative<Proc>(mount) && target_of(mount) == "/proc";
    };
    if (std::none_of(plan_.mounts.begin(), plan_.mounts.end(), is_proc)) {
      return failure(Step::proc, EINVAL, "a plan mounts /proc");
    }
    return {};
  }

  static BoxResult<void> make_private() {
    const auto root = os::open_directory("/");
    if (!root) return failure(Step::mount, root.error(), "/");
    const auto done = os::set_attributes(*root, {.private_propagation = true}, true);
    if (!done) return failed(Step::mount, done.error());
    return {};
  }

  // What paths of the plan are beneath: the scratch directory until the box has a root. Both are attached on
  // top of "/", where nobody sees them: a path's way begins beneath them. So the old root stays in sight, and
  // no directory of it need be there to mount on.
  BoxResult<void> begin_tree(os::Fd mount) {
    const auto attached = os::attach(mount, {}, "/");
    if (!attached) return failed(Step::mount, attached.error());
    tree_.emplace(std::move(mount), "/");
    return {};
  }

  BoxResult<void> put(const Mount& mount) {
    const Step step = step_of(mount);
    const std::string& target = target_of(mount);
    if (!tree_ && !is_root(target)) {
      auto scratch = os::new_tmpfs(scratch_size, scratch_inodes, 0700);
      if (!scratch) return failed(Step::mount, scratch.error());
      if (const auto begun = begin_tree(std::move(*scratch)); !begun) return begun;
    }
    auto made = std::visit([this](const auto& each) { return make(each); }, mount);
    if (!made) return failure(step, made.error().number, target + ": " + made.error().text);
    if (is_root(target)) return begin_tree(std::move(*made));
    const auto place = place_of(*made, mount);
    if (!place) return failure(step, place.error(), target);
    const auto attached = os::attach(*made, *place, "");
    if (!attached) return failure(step, attached.error().number, target + ": " + attached.error().text);
    return {};
  }

  os::ExplainedResult<os::Fd> make(const Tmpfs& mount) const {
    auto made = os::new_tmpfs(mount.size != 0 ? mount.size : half_of_memory(1),
                              mount.inodes != 0 ? mount.inodes : half_of_memory(4096), mount.mode);
    // It becomes read-only when it has been filled.
    if (!made || !mount.flags.noexec) return made;
    const auto set = os::set_attributes(*made, {.noexec = true}, false);
    if (!set) return set.error();
    return made;
  }
  os::ExplainedResult<os::Fd> make(const Bind& mount) const {
    auto made = os::clone_tree(mount.source, mount.recursive);
    if (!made) return made;
    const os::MountAttributes attributes{.read_only = mount.flags.read_only,
                                         .nosuid = mount.flags.nosuid,
                                         .nodev = mount.flags.nodev,
                                         .noexec = mount.flags.noexec};
    const auto set = os::set_attributes(*made, attributes, mount.recursive);
    if (!set) return set.error();
    return made;
  }
  os::ExplainedResult<os::Fd> make(const Proc&) const { return os::new_proc(); }
  os::ExplainedResult<os::Fd> make(const Devpts&) const {
    auto made = os::new_devpts(tty_group);
    // Where that group has no id in the box, a terminal has its user's.
    if (!made && made.error().number == EINVAL) return os::new_devpts(std::nullopt);
    return made;
  }
  os::ExplainedResult<os::Fd> make(const Attached& mount) { return std::move(attached_[mount.descriptor]); }
  os::ExplainedResult<os::Fd> make(const Overlay& mount) {
    if (!tree_) return os::explained(EINVAL, "an overlay of no layers");
    for (const std::string* path : {&mount.upper, &mount.work}) {
      if (path->empty()) continue;
      if (const auto made = tree_->make_directories(*path); !made) {
        return os::explained(made.error(), *path);
      }
    }
    // Names from the tree's root on: short, as they must be, and not the old root's.
    const auto relative = [](const std::string& path) { return path.empty() ? path : "." + path; };
    std::vector<std::string> lowers;
    for (const std::string& lower : mount.lower) lowers.push_back(relative(lower));
    if (::fchdir(tree_->directory().number) != 0) return os::explained(errno, "entering the layers");
    auto made = os::new_overlay({lowers, relative(mount.upper), relative(mount.work), true});
    if (::chdir("/") != 0) return os::explained(errno, "leaving the layers");
    return made;
  }

  // What a mount is to lie on: made where nothing is.
  os::Result<os::Fd> place_of(os::FdRef made, const Mount& mount) const {
    const bool may_be_file = std::holds_alternative<Bind>(mount) || std::holds_alternative<Attached>(mount);
    const auto is = may_be_file ? os::status(made) : os::Result<os::FileStatus>(os::FileStatus());
    if (!is) return is.error();
    const std::string& target = target_of(mount);
    if (!may_be_file || S_ISDIR(is->st_mode)) return tree_->make_directories(target);
    auto there = tree_->open(target, O_PATH);
    if (there || there.error() != os::error_of(ENOENT)) return there;
    const auto place = tree_->place_for(target);
    if (!place) return place.error();
    return os::open_at(place->directory, place->name, O_CREAT | O_WRONLY, 0644);
  }

  // The directory of a path, which is made if it is missing, and the last component. Kept, for what is made
  // after the mounts comes in groups.
  struct Entry {
    os::FdRef directory;
    std::string name;
  };
  os::Result<Entry> entry_of(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    std::string name = path.substr(slash + 1);
    if (name.empty() || name == "." || name == "..") return os::error_of(EISDIR);
    std::string parent = slash == 0 ? "/" : path.substr(0, slash);
    if (parent != parent_path_) {
      auto opened = tree_->make_directories(parent);
      if (!opened) return opened.error();
      parent_ = std::move(*opened);
      parent_path_ = std::move(parent);
    }
    return Entry{parent_, std::move(name)};
  }

  BoxResult<void> fill() {
    BoxResult<void> done;
    for (const Device device : plan_.devices) {
      if (done) done = bind_device(device_names[static_cast<std::size_t>(device)]);
    }
    for (const Directory& directory : plan_.directories) {
      if (done) done = make_directory(directory);
    }
    for (const File& file : plan_.files) {
      if (done) done = write_file(file);
    }
    for (const Symlink& link : plan_.symlinks) {
      if (done) done = make_link(link);
    }
    return done;
  }

  // Devices cannot be made in a user namespace, only shown again.
  BoxResult<void> bind_device(const std::string& name) {
    const std::string path = "/dev/" + name;
    auto mount = os::clone_tree(path, false);
    if (!mount) return failed(Step::dev, mount.error());
    const auto limited = os::set_attributes(*mount, {.nosuid = true, .noexec = true}, false);
    if (!limited) return failed(Step::dev, limited.error());
    const auto entry = entry_of(path);
    if (!entry) return failure(Step::dev, entry.error(), path);
    auto place = os::open_at(entry->directory, entry->name, O_CREAT | O_EXCL | O_WRONLY, 0644);
    if (!place && place.error() == os::error_of(EEXIST)) place = tree_->open(path, O_PATH);
    if (!place) return failure(Step::dev, place.error(), path);
    const auto attached = os::attach(*mount, *place, "");
    if (!attached) return failed(Step::dev, attached.error());
    return {};
  }

  BoxResult<void> make_directory(const Directory& directory) const {
    const auto fail = [&](const os::Error& error) { return failure(Step::etc, error, directory.path); };
    if (const auto made = tree_->make_directories(directory.path); !made) return fail(made.error());
    const auto opened = tree_->open(directory.path, O_RDONLY | O_DIRECTORY);
    if (!opened) return fail(opened.error());
    // The mode after the owner, whose change takes bits away.
    if (::fchown(opened->number(), directory.uid, directory.gid) != 0) return fail(os::last_error());
    if (const auto set = os::set_mode(*opened, directory.mode); !set) return fail(set.error());
    return {};
  }

  BoxResult<void> write_file(const File& file) {
    const auto fail = [&](const os::Error& error) { return failure(Step::etc, error, file.path); };
    const auto entry = entry_of(file.path);
    if (!entry) return fail(entry.error());
    auto made = os::open_at(entry->directory, entry->name, O_CREAT | O_EXCL | O_WRONLY, 0600);
    if (!made && made.error() == os::error_of(EEXIST)) made = in_place_of(file.path);
    if (!made) return fail(made.error());
    if (const auto written = os::write_all(*made, file.contents); !written) return fail(written.error());
    if (const auto set = os::set_mode(*made, file.mode); !set) return fail(set.error());
    return {};
  }

  // What a layer has of that name, or where its symlink leads, gives way, but for what is mounted there.
  os::Result<os::Fd> in_place_of(const std::string& path) const {
    const auto place = tree_->place_for(path);
    if (!place) return place.error();
    const auto gone = os::unlink_at(place->directory, place->name);
    if (!gone) return gone.error();
    return os::open_at(place->directory, place->name, O_CREAT | O_EXCL | O_WRONLY, 0600);
  }

  BoxResult<void> make_link(const Symlink& link) {
    const auto fail = [&](const os::Error& error) { return failure(Step::etc, error, link.path); };
    const auto entry = entry_of(link.path);
    if (!entry) return fail(entry.error());
    const auto make = [&] {
      return ::symlinkat(link.target.c_str(), entry->directory.number, entry->name.c_str());
    };
    if (make() == 0) return {};
    if (errno != EEXIST) return fail(os::last_error());
    if (const auto gone = os::unlink_at(entry->directory, entry->name); !gone) return fail(gone.error());
    if (make() != 0) return fail(os::last_error());
    return {};
  }

  BoxResult<void> mask_all() const {
    for (const std::string& path : plan_.masked) {
      const auto place = tree_->open(path, O_PATH);
      if (!place && place.error() == os::error_of(ENOENT)) continue;
      if (!place) return failure(Step::mask, place.error(), path);
      const auto is = os::status(*place);
      if (!is) return failure(Step::mask, is.error(), path);
      auto empty = S_ISDIR(is->st_mode) ? os::new_tmpfs(4096, 1, 0555) : os::clone_tree("/dev/null", false);
      if (!empty) return failed(Step::mask, empty.error());
      const os::MountAttributes attributes{.read_only = true, .nosuid = true, .nodev = true, .noexec = true};
      // A masked file is /dev/null, which nodev would close even to readers.
      const auto set = S_ISDIR(is->st_mode) ? os::set_attributes(*empty, attributes, false)
                                            : os::set_attributes(*empty, {.nosuid = true}, false);
      if (!set) return failed(Step::mask, set.error());
      const auto attached = os::attach(*empty, *place, "");
      if (!attached) return failure(Step::mask, attached.error().number, path);
    }
    return {};
  }

  BoxResult<void> close_writable() const {
    for (const Mount& mount : plan_.mounts) {
      const auto* tmpfs = std::get_if<Tmpfs>(&mount);
      if (tmpfs == nullptr || !tmpfs->flags.read_only) continue;
      const auto place = tree_->open(tmpfs->target, O_PATH);
      if (!place) return failure(Step::mount, place.error(), tmpfs->target);
      const auto set = os::set_attributes(*place, {.read_only = true}, false);
      if (!set) return failure(Step::mount, set.error().number, tmpfs->target + ": " + set.error().text);
    }
    return {};
  }

  BoxResult<void> pivot() {
    const auto done = os::pivot_into(tree_->directory());
    if (!done) return failed(Step::pivot, done.error());
    return {};
  }

  // From here on a path is the box's own.
  BoxResult<void> make_read_only(const std::string& path) const {
    auto mount = os::clone_tree(path, true);
    if (!mount && mount.error().number == ENOENT) return {};
    if (!mount) return failed(Step::mask, mount.error());
    const auto set = os::set_attributes(*mount, {.read_only = true}, true);
    if (!set) return failure(Step::mask, set.error().number, path + ": " + set.error().text);
    const auto attached = os::attach(*mount, tree_->directory(), path);
    if (!attached) return failed(Step::mask, attached.error());
    return {};
  }

  BoxResult<void> open_handles() {
    auto root = os::open_directory("/");
    auto proc = os::open_directory("/proc");
    if (!root || !proc) return failure(Step::pivot, root ? proc.error() : root.error(), "/proc");
    for (const Mount& mount : plan_.mounts) {
      const auto* devpts = std::get_if<Devpts>(&mount);
      if (devpts == nullptr) continue;
      auto terminals = os::open_directory(devpts->target);
      if (!terminals) return failure(Step::tty, terminals.error(), devpts->target);
      result_.terminals = std::move(*terminals);
    }
    result_.root = std::move(*root);
    result_.proc = std::move(*proc);
    return {};
  }

  const BoxPlan& plan_;
  std::vector<os::Fd> attached_;
  std::optional<os::Beneath> tree_;
  os::Fd parent_;  // Of what was made last, after the mounts.
  std::string parent_path_;
  BoxMounts result_;
};

}  // namespace

BoxResult<BoxMounts> make_mounts(const BoxPlan& plan, std::vector<os::Fd> attached) {
  return Builder(plan, std::move(attached)).build();
}

}  // namespace caisson::init
