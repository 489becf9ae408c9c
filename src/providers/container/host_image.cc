// What stands in a box's root, and what a box may not reach of it.
#include "providers/container/host_image.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sys/resource.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "contract/quote.h"
#include "os/beneath.h"
#include "os/capabilities.h"
#include "os/files.h"
#include "os/host_file.h"
#include "os/mount.h"
#include "os/mount_within.h"
#include "os/probe.h"
#include "os/rlimits.h"
#include "os/seccomp_policy.h"
#include "os/self.h"
#include "os/user_namespace.h"

namespace caisson::container {
namespace {

using init::MountFlags;

constexpr std::size_t largest_file = std::size_t{4} << 20U;
constexpr std::uint64_t page = 4096;
constexpr std::uint64_t fewest_inodes = 1024;
constexpr std::uint64_t dev_bytes = 65536;
constexpr std::uint64_t dev_inodes = 64;
constexpr std::uint64_t most_pending_signals = 4096;
constexpr std::uint64_t most_message_queue_bytes = std::uint64_t{200} << 10U;
constexpr os::KernelVersion idmapped_overlay_layers{5, 19};
constexpr os::KernelVersion tmpfs_user_attributes{6, 6};
constexpr const char* box_path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

// Files of this machine that a box of image `host` gets copies of.
constexpr const char* host_texts[] = {"/etc/ld.so.cache", "/etc/localtime"};

// runc's defaults (libcontainer/SPEC.md, and those that Docker and containerd give it), but for those of
// /sys, which a box has none of; and how init is scheduled, which in a box of one id a command could lower.
constexpr const char* masked_paths[] = {"/proc/1/autogroup",   "/proc/acpi",        "/proc/asound",
                                        "/proc/interrupts",    "/proc/kcore",       "/proc/keys",
                                        "/proc/latency_stats", "/proc/sched_debug", "/proc/scsi",
                                        "/proc/timer_list",    "/proc/timer_stats"};
constexpr const char* read_only_paths[] = {"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys",
                                           "/proc/sysrq-trigger"};

// What package managers need (S-103).
constexpr os::CapabilityMask default_capabilities =
    os::capability(CAP_CHOWN) | os::capability(CAP_DAC_OVERRIDE) | os::capability(CAP_FOWNER) |
    os::capability(CAP_FSETID) | os::capability(CAP_SETUID) | os::capability(CAP_SETGID) |
    os::capability(CAP_KILL);

constexpr const char* host_passwd =
    "root:x:0:0:root:/root:/bin/sh\n"
    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";
constexpr const char* host_group = "root:x:0:\ntty:x:5:\nnogroup:x:65534:\n";
constexpr const char* host_nsswitch =
    "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nservices: files\nprotocols: files\n";

PlanFailure reject(const std::string& image, const std::string& why) {
  return {ErrorCode::invalid_argument, "image " + quote(image) + " " + why, "image"};
}
PlanFailure lacking(const std::string& what) { return {ErrorCode::unavailable, what, {}}; }

MountFlags sealed() noexcept { return {true, true, true, false}; }

// A file of a page at most for each, so that small ones do not run out of inodes before the bytes are used.
init::Tmpfs tmpfs(const char* target, std::uint64_t bytes, std::uint32_t mode) {
  return {target, bytes, std::max(fewest_inodes, bytes / page), mode, {}};
}

// Empty where there is none to be read.
std::string text_of(const std::string& path) {
  const auto file = os::open_for_reading(path);
  if (!file || file->kind != os::FileKind::regular) return {};
  auto text = os::read_all(file->fd, largest_file);
  return text ? std::move(*text) : std::string();
}

std::string resolved_path(os::FdRef directory) {
  const auto links = os::open_directory("/proc/self/fd");
  const auto path = links ? os::read_link_at(*links, std::to_string(directory.number)) : links.error();
  return path ? *path : std::string();
}

bool is_at_or_beneath(const std::string& path, const std::string& directory) {
  return path == directory || directory == "/" ||
         (path.starts_with(directory) && path[directory.size()] == '/');
}

// Whether a box of this directory would have the provider's own files, or the provider's root the box's.
bool shares_files(const std::string& image, const std::string& own) {
  const auto directory = os::open_directory(own);
  if (!directory) return false;
  const std::string path = resolved_path(*directory);
  return is_at_or_beneath(image, path) || is_at_or_beneath(path, image);
}

bool is_same_file(os::FdRef one, os::FdRef other) {
  const auto a = os::status(one);
  const auto b = os::status(other);
  return a && b && a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

// Whether a box with the slot has an id for the owner of a directory's files.
bool is_mapped(const os::FileStatus& is, const UidSlot& slot) {
  if (os::is_root()) return is.st_uid < slot.count && is.st_gid < slot.count;
  return is.st_uid == os::own_user() && is.st_uid - slot.first_user < slot.count &&
         is.st_gid - slot.first_group < slot.count;
}

const std::string& seccomp_program() {
  static const std::string program = os::compile_seccomp_policy();
  return program;
}

class Planner {
 public:
  Planner(const ContainerSettings& settings, const Image& image, const BoxShape& shape)
      : settings_(settings), image_(image), shape_(shape) {}

  PlanResult<PlannedBox> make(os::FdRef box_user_namespace) {
    plan().seccomp = seccomp_program();
    plan().hostname = shape_.hostname;
    plan().environment = {box_path};
    const auto root = image_.directory ? begin_directory(box_user_namespace) : begin_host();
    if (!root) return root.error();
    add_system_mounts();
    if (const auto workspace = add_workspace(); !workspace) return workspace.error();
    if (!image_.directory) add_host_etc();
    add_network_names();
    add_devices();
    plan().masked.assign(std::begin(masked_paths), std::end(masked_paths));
    plan().read_only.assign(std::begin(read_only_paths), std::end(read_only_paths));
    add_limits();
    // Not to be reached by the signals of the box's user.
    if (shape_.slot.count > 1) plan().ids = {shape_.slot.count - 1, shape_.slot.count - 1};
    return std::move(planned_);
  }

 private:
  init::BoxPlan& plan() noexcept { return planned_.plan; }
  void mount(init::Mount mount) { plan().mounts.push_back(std::move(mount)); }
  void file(const char* path, std::string contents) {
    plan().files.push_back({path, 0644, std::move(contents)});
  }

  // This machine's /usr, on a root that only the plan writes.
  PlanResult<void> begin_host() {
    init::Tmpfs root = tmpfs("/", largest_file, 0755);
    root.flags.read_only = true;
    mount(root);
    mount(init::Bind{"/usr", "/usr", true, sealed()});
    const auto top = os::open_directory("/");
    if (!top) return lacking("the root of this machine cannot be opened: " + top.error().message());
    for (const char* name : {"bin", "lib", "lib32", "lib64", "libx32", "sbin"}) {
      const std::string path = std::string("/") + name;
      if (auto target = os::read_link_at(*top, name)) {
        plan().symlinks.push_back({std::move(*target), path});
      } else if (const auto is = os::status_at(*top, name); is && S_ISDIR(is->st_mode)) {
        mount(init::Bind{path, path, true, sealed()});
      }
    }
    for (const char* path : {"/etc/alternatives", "/etc/ssl/certs"}) {
      if (os::open_directory(path)) mount(init::Bind{path, path, true, sealed()});
    }
    mount(tmpfs("/root", settings_.upper_bytes, 0700));
    mount(tmpfs("/run", settings_.tmp_bytes, 0755));
    mount(tmpfs("/var/tmp", settings_.tmp_bytes, 01777));
    plan().user.home = "/root";
    plan().user.name = "root";
    return {};
  }

  // The directory, read-only, beneath a layer that is thrown away.
  PlanResult<void> begin_directory(os::FdRef box_user_namespace) {
    const os::KernelVersion kernel = os::parse_kernel_version(os::kernel_release());
    if (kernel < tmpfs_user_attributes || (os::is_root() && kernel < idmapped_overlay_layers)) {
      return lacking(
          "a box of a directory takes Linux 6.6 or newer, whose tmpfs an overlay can write to; "
          "this is " +
          os::kernel_release() + "; use the image host");
    }
    const auto lower = os::is_root() ? add_mapped_directory(box_user_namespace) : add_own_directory();
    if (!lower) return lower;
    mount(tmpfs("/layer", settings_.upper_bytes, 0755));
    mount(init::Overlay{"/", {"/lower"}, "/layer/upper", "/layer/work"});
    plan().user = root_of(passwd_of_image());
    if (settings_.capabilities && shape_.slot.count > 1) plan().capabilities = default_capabilities;
    return {};
  }

  PlanResult<void> add_mapped_directory(os::FdRef box_user_namespace) {
    // By the descriptor that was looked at, whatever stands at the path by now.
    auto tree = os::clone_tree("/proc/self/fd/" + std::to_string(image_.directory.number()), false);
    if (!tree) return unusable(tree.error());
    const auto set = os::set_attributes(*tree, {.read_only = true, .nosuid = true, .nodev = true}, false);
    if (!set) return unusable(set.error());
    const auto mapped = os::map_ids(*tree, box_user_namespace, false);
    if (!mapped) return unusable(mapped.error());
    attach(std::move(*tree), "/lower");
    return {};
  }
  PlanResult<void> add_own_directory() {
    mount(init::Bind{image_.path, "/lower", false, sealed()});
    return {};
  }
  PlanFailure unusable(const os::ExplainedError& error) const {
    return reject(image_.path, "cannot be mounted for a box: " + error.text +
                                   "; its file system must know idmapped mounts (mount_setattr(2)): ext4, "
                                   "xfs, btrfs and tmpfs do");
  }

  void attach(os::Fd tree, const char* target) {
    mount(init::Attached{static_cast<std::uint8_t>(planned_.attached.size()), target});
    planned_.attached.push_back(std::move(tree));
  }

  std::string passwd_of_image() const {
    auto copy = os::duplicate(image_.directory);
    if (!copy) return {};
    const os::Beneath image(std::move(*copy), image_.path);
    const auto file = image.open("etc/passwd", O_RDONLY);
    if (!file) return {};
    const auto is = os::status(*file);
    if (!is || !S_ISREG(is->st_mode)) return {};
    auto text = os::read_all(*file, largest_file);
    return text ? std::move(*text) : std::string();
  }

  void add_system_mounts() {
    mount(init::Proc{"/proc"});
    mount(init::Tmpfs{"/dev", dev_bytes, dev_inodes, 0755, {true, true, true, true}});
    mount(init::Devpts{"/dev/pts"});
    mount(tmpfs("/dev/shm", settings_.shm_bytes, 01777));
    mount(tmpfs("/tmp", settings_.tmp_bytes, 01777));
  }

  PlanResult<void> add_workspace() {
    plan().workspace = box_workspace;
    if (shape_.volume.empty()) {
      mount(tmpfs(box_workspace, settings_.workspace_bytes, 0755));
    } else if (!os::is_root() && shape_.slot.count == 1) {
      mount(init::Bind{shape_.volume, box_workspace, false, MountFlags()});
    } else if (!os::is_root()) {
      // The box's ids do not reach beneath this user's own directories.
      const auto ids = os::make_user_namespace(maps_with_own(shape_.slot));
      if (!ids) return lacking("the workspace cannot be mounted: " + ids.error().text);
      auto tree = os::clone_tree_within(*ids, shape_.volume);
      if (!tree) return lacking("the workspace cannot be mounted: " + tree.error().text);
      attach(std::move(*tree), box_workspace);
    } else {
      auto tree = os::clone_tree(shape_.volume, false);
      if (!tree) return lacking("the workspace cannot be mounted: " + tree.error().text);
      const auto set = os::set_attributes(*tree, {.nosuid = true, .nodev = true}, false);
      if (!set) return lacking("the workspace cannot be mounted: " + set.error().text);
      attach(std::move(*tree), box_workspace);
    }
    return {};
  }

  void add_host_etc() {
    file("/etc/passwd", host_passwd);
    file("/etc/group", host_group);
    file("/etc/nsswitch.conf", host_nsswitch);
    for (const char* path : host_texts) {
      if (std::string text = text_of(path); !text.empty()) file(path, std::move(text));
    }
  }

  void add_network_names() {
    file("/etc/hostname", shape_.hostname + "\n");
    file("/etc/hosts", "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n127.0.1.1\t" +
                           shape_.hostname + "\n");
    file("/etc/resolv.conf", {});
  }

  void add_devices() {
    using init::Device;
    plan().devices = {Device::null, Device::zero, Device::full, Device::random, Device::urandom, Device::tty};
    plan().symlinks.push_back({"pts/ptmx", "/dev/ptmx"});
    plan().symlinks.push_back({"/proc/self/fd", "/dev/fd"});
    plan().symlinks.push_back({"/proc/self/fd/0", "/dev/stdin"});
    plan().symlinks.push_back({"/proc/self/fd/1", "/dev/stdout"});
    plan().symlinks.push_back({"/proc/self/fd/2", "/dev/stderr"});
  }

  void limit(int resource, std::uint64_t value) {
    const std::uint64_t most = std::min(value, os::hard_limit(resource));
    plan().rlimits.push_back({static_cast<std::uint32_t>(resource), most, most});
  }
  void add_limits() {
    // A limit of 0 would not stop a core_pattern that is a pipe (core(5)).
    limit(RLIMIT_CORE, 1);
    // These are counted for the user outside of the box, whom sessions of one id share.
    limit(RLIMIT_SIGPENDING, most_pending_signals);
    limit(RLIMIT_MSGQUEUE, most_message_queue_bytes);
    if (!shape_.pids_capped) limit(RLIMIT_NPROC, settings_.pids);
  }

  const ContainerSettings& settings_;
  const Image& image_;
  const BoxShape& shape_;
  PlannedBox planned_;
};

std::string_view take_field(std::string_view& line) noexcept {
  const std::size_t end = std::min(line.find(':'), line.size());
  const std::string_view field = line.substr(0, end);
  line.remove_prefix(std::min(end + 1, line.size()));
  return field;
}

bool is_usable_home(std::string_view home) {
  return home.starts_with('/') && home.size() <= init::max_path &&
         home.find('\0') == std::string_view::npos &&
         (std::string(home) + "/").find("/../") == std::string::npos;
}

}  // namespace

void throw_exception_from_error(const PlanFailure& failure, const boost::source_location&) {
  if (!failure.field.empty()) throw SandboxSpecRejectedError(failure.code, failure.message, failure.field);
  throw SandboxError(failure.code, failure.message);
}

PlanResult<Image> find_image(const std::string& name, const ContainerSettings& settings,
                             const UidSlot& slot) {
  if (name == host_image) return Image();
  if (!name.starts_with('/')) {
    return reject(name,
                  "is none: name host, for this machine's own programs, or the absolute path of a "
                  "directory that holds a root file system");
  }
  auto directory = os::open_directory(name);
  if (!directory) return reject(name, "cannot be used: " + directory.error().message());
  Image image{std::move(*directory), {}};
  image.path = resolved_path(image.directory);
  const auto is = os::status(image.directory);
  const auto top = os::open_directory("/");
  if (!is || !top || image.path.empty()) return reject(name, "cannot be looked at");
  if (is_same_file(image.directory, *top)) {
    return reject(name,
                  "is this machine's own root, where a box would read what only its root may; use the "
                  "image host");
  }
  if (shares_files(image.path, settings.root) || shares_files(image.path, settings.runtime_directory)) {
    return reject(name,
                  "shares files with CAISSON_ROOT or CAISSON_RUNTIME_DIR, where other sessions' are; "
                  "put it elsewhere");
  }
  if (!is_mapped(*is, slot)) {
    return reject(name, "belongs to user " + std::to_string(is->st_uid) + " and group " +
                            std::to_string(is->st_gid) + ", which the box has no ids for; give it to " +
                            (os::is_root() ? "root (chown -R 0:0)" : "the user who runs this") +
                            ", as the files in it");
  }
  return image;
}

PlanResult<PlannedBox> plan_box(const ContainerSettings& settings, const Image& image, const BoxShape& shape,
                                os::FdRef box_user_namespace) {
  return Planner(settings, image, shape).make(box_user_namespace);
}

std::string host_image_version() {
  std::string version;
  for (const char* path : host_texts) {
    const auto file = os::open_for_reading(path);
    const auto is = file ? os::status(file->fd) : os::Result<os::FileStatus>(file.error());
    if (is) {
      version += std::to_string(is->st_ino) + "," + std::to_string(is->st_size) + "," +
                 std::to_string(is->st_mtim.tv_sec) + "," + std::to_string(is->st_mtim.tv_nsec);
    }
    version += ";";
  }
  return version;
}

init::BoxUser root_of(std::string_view passwd) {
  init::BoxUser user;
  user.home = "/root";
  user.name = "root";
  while (!passwd.empty()) {
    const std::size_t end = std::min(passwd.find('\n'), passwd.size());
    std::string_view line = passwd.substr(0, end);
    passwd.remove_prefix(std::min(end + 1, passwd.size()));
    const std::string_view name = take_field(line);
    take_field(line);
    if (take_field(line) != "0") continue;
    take_field(line);
    take_field(line);
    const std::string_view home = take_field(line);
    if (!name.empty() && name.size() <= init::max_name && name.find('\0') == std::string_view::npos) {
      user.name = name;
    }
    if (is_usable_home(home)) user.home = home;
    break;
  }
  return user;
}

}  // namespace caisson::container
