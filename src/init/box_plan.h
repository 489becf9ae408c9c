// BoxPlan: everything caisson-init needs to build its box, as data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace caisson::init {

// The limits below, and the rules named in the comments, hold for who encodes and who decodes.

inline constexpr std::size_t max_path = 4095;    ///< Bytes: PATH_MAX without its NUL.
inline constexpr std::size_t max_hostname = 64;  ///< Bytes: uts_namespaces(7).
inline constexpr std::size_t max_name = 255;     ///< Bytes of a user's name.
inline constexpr std::size_t max_mounts = 256;
inline constexpr std::size_t max_lower = 500;     ///< As many as overlayfs stacks.
inline constexpr std::size_t max_entries = 1024;  ///< Of files, of links, of directories, of hidden paths.
inline constexpr std::size_t max_groups = 65536;  ///< NGROUPS_MAX.
inline constexpr std::size_t max_rlimits = 16;    ///< RLIM_NLIMITS.
inline constexpr std::uint8_t max_joined = 4;     ///< Cgroups that are joined by a file.
inline constexpr std::size_t max_seccomp = 4096 * 8;  ///< Bytes: BPF_MAXINSNS instructions.
/// Bytes of arguments and environment together, as execve(2) counts them: each string, its NUL, and its
/// pointer.
inline constexpr std::size_t max_arguments = std::size_t{6} << 20U;

// A path "in the box" is absolute and has no ".." component; no path of any kind is empty or holds a NUL.

struct MountFlags {
  bool read_only = false;
  bool nosuid = true;
  bool nodev = true;
  bool noexec = false;

  bool operator==(const MountFlags&) const = default;
};

/// Always nosuid and nodev.
struct Tmpfs {
  std::string target;        ///< In the box, as all targets.
  std::uint64_t size = 0;    ///< Bytes; 0: the kernel's default, half of the memory.
  std::uint64_t inodes = 0;  ///< 0: the kernel's default.
  std::uint32_t mode = 0755;
  MountFlags flags;

  bool operator==(const Tmpfs&) const = default;
};

struct Bind {
  std::string source;  ///< Absolute, in the mount namespace that init starts in.
  std::string target;
  bool recursive = false;
  MountFlags flags;

  bool operator==(const Bind&) const = default;
};

struct Proc {
  std::string target;

  bool operator==(const Proc&) const = default;
};

struct Devpts {
  std::string target;

  bool operator==(const Devpts&) const = default;
};

/// A detached mount (open_tree(2)), left as it is, that rides along with the plan.
struct Attached {
  std::uint8_t descriptor = 0;  ///< Its index among those; each is attached once.
  std::string target;

  bool operator==(const Attached&) const = default;
};

/// Its directories are beneath mounts of the plan that come before the one at "/". `upper` and `work` are
/// made where they are missing. No mount may be beneath any of `lower`, and no path holds a comma, colon or
/// backslash.
struct Overlay {
  std::string target;
  std::vector<std::string> lower;  ///< Absolute, the topmost first; at least one.
  std::string upper;               ///< Absolute, as `work`; both empty: the overlay is read-only.
  std::string work;

  bool operator==(const Overlay&) const = default;
};

using Mount = std::variant<Tmpfs, Bind, Proc, Devpts, Attached, Overlay>;

struct File {
  std::string path;  ///< In the box.
  std::uint32_t mode = 0644;
  std::string contents;

  bool operator==(const File&) const = default;
};

struct Symlink {
  std::string target;  ///< Any text.
  std::string path;    ///< In the box.

  bool operator==(const Symlink&) const = default;
};

struct Directory {
  std::string path;  ///< In the box.
  std::uint32_t mode = 0755;
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;

  bool operator==(const Directory&) const = default;
};

/// Those of the host that are bound into the box's /dev.
enum class Device : std::uint8_t { null, zero, full, random, urandom, tty };
inline constexpr Device last_device = Device::tty;
inline constexpr std::size_t max_devices = 6;

/// Who the box's commands run as. No id here or elsewhere is 2^32 - 1, which setresuid(2) and chown(2) take
/// for "as it is".
struct BoxUser {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::vector<std::uint32_t> groups;
  std::string home;  ///< In the box.
  std::string name;

  bool operator==(const BoxUser&) const = default;
};

struct Ids {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;

  bool operator==(const Ids&) const = default;
};

struct Rlimit {
  std::uint32_t resource = 0;  ///< RLIMIT_*, below RLIM_NLIMITS.
  std::uint64_t soft = 0;      ///< At most `hard`; 2^64 - 1 is RLIM_INFINITY.
  std::uint64_t hard = 0;

  bool operator==(const Rlimit&) const = default;
};

/// Of a box that has a cgroup.
inline constexpr char exec_cgroups[] = "execs";

struct BoxPlan {
  std::string hostname;
  /// Made in this order, each in what those before have made; missing places to mount on are made too. One is
  /// at "/", the box's root; what comes before it is made in a scratch directory, which the box never sees:
  /// the layers of an overlay. One is a Proc at "/proc".
  std::vector<Mount> mounts;
  std::vector<Directory> directories;  ///< Made after the mounts, in this order, then files, then links.
  std::vector<File> files;
  std::vector<Symlink> symlinks;
  std::vector<Device> devices;      ///< Each at most once.
  std::vector<std::string> masked;  ///< In the box; hidden behind something empty. Missing ones are left out.
  std::vector<std::string> read_only;  ///< In the box, with all beneath. Missing ones are left out.
  std::string workspace;               ///< In the box.
  BoxUser user;
  Ids ids;                         ///< What init itself becomes, not to be reached by the user's signals.
  std::uint64_t capabilities = 0;  ///< What commands may keep: a bit for each CAP_*.
  std::vector<Rlimit> rlimits;
  /// BPF instructions, 8 bytes each, in init's byte order. Never none: a box without a filter is one whose
  /// program says so.
  std::string seccomp;
  std::vector<std::string> environment;  ///< "K=V" each: what every command starts from.
  /// A detached mount rides along, whose root is the box's own cgroup (v2). init is in a cgroup in that. The
  /// box's cgroup namespace gets its root there, and the cgroups of commands are in its directory `execs`
  /// (exec_cgroups). init's ids own the `cgroup.procs` of the root and of each of those.
  bool cgroup = false;
  /// How many files ride along by which init joins a cgroup before the namespace is made: each the `tasks` of
  /// one (v1), open for writing. At most max_joined.
  std::uint8_t joined = 0;

  /// How many mounts of `mounts` ride along.
  std::uint8_t attached() const noexcept;
  /// How many descriptors ride along: those mounts, by their indices, then the cgroup, then what is joined.
  std::uint8_t descriptors() const noexcept;

  bool operator==(const BoxPlan&) const = default;
};

}  // namespace caisson::init
