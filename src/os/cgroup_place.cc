// Where Caisson may make cgroups: found by looking, proved by doing.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <optional>

#include "os/cgroup.h"
#include "os/cgroup_files.h"
#include "os/clock.h"
#include "os/clone_child.h"
#include "os/process.h"
#include "os/raw_syscall.h"

namespace caisson::os {

namespace {

constexpr std::chrono::milliseconds probe_patience{1000};

// systemd's mark on a subtree that a unit may do with as it likes (systemd.resource-control(5), Delegate=).
bool is_delegated(const std::string& directory) noexcept {
  for (const char* name : {"user.delegate", "trusted.delegate"}) {
    char value = '\0';
    if (::getxattr(directory.c_str(), name, &value, 1) == 1 && value == '1') return true;
  }
  return false;
}

bool is_writable(const std::string& path) noexcept {
  return ::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) == 0;
}

// Whether a process in a cgroup beneath `directory` may be moved to another one there (cgroups(7),
// delegation).
bool is_common_ground(const std::string& directory) {
  return is_writable(directory) && is_writable(directory + "/cgroup.procs");
}

// Whether no process is in it itself, so that controllers may be enabled beneath it (cgroups(7), "no internal
// processes").
bool is_processless(const std::string& directory) noexcept {
  const Fd procs = Fd::adopt(::open((directory + "/cgroup.procs").c_str(), O_RDONLY | O_CLOEXEC));
  char byte = 0;
  const auto read = procs ? read_some(procs, &byte, 1) : Result<std::size_t>(last_error());
  return read && *read == 0;
}

// Whether it is one that systemd made for a unit, which above it does as it likes.
bool is_unit(const std::string& directory) noexcept {
  return directory.ends_with(".scope") || directory.ends_with(".service");
}

struct Candidate {
  std::string parent;
  std::string how;
};

// Where we are in a leaf of what was delegated, the place is beside it and not within: nothing could be
// capped there.
void prefer_processless(std::vector<Candidate>& candidates) {
  for (auto at = candidates.begin(); at != candidates.end(); ++at) {
    if (is_processless(at->parent)) {
      std::rotate(candidates.begin(), at, at + 1);
      return;
    }
    if (is_unit(at->parent)) return;
  }
}

// From our own cgroup up, and then as root.
std::vector<Candidate> candidates_of(const CgroupPosition& position) {
  const bool root = ::geteuid() == 0;
  std::vector<Candidate> candidates;
  std::string directory = position.own;
  while (!directory.empty()) {
    if (is_delegated(directory) && is_common_ground(directory)) {
      candidates.push_back({directory, "a subtree delegated to this process"});
    } else if (!root && is_common_ground(directory)) {
      candidates.push_back({directory, "a subtree that this user may change"});
    }
    if (directory == position.mount) break;
    directory.resize(directory.rfind('/'));
  }
  prefer_processless(candidates);
  // As root in a cgroup that Caisson made for a command: inside it, so that the end of that command ends ours
  // too.
  const std::string ours = position.mount + shared_name + "/";
  if (root && position.own.starts_with(ours)) {
    candidates.push_back({position.own, "inside a command of another Caisson"});
  }
  if (root) candidates.push_back({position.mount, "as root, beside the other cgroups"});
  return candidates;
}

// Runs in a CLONE_VM child, in the probed cgroup: kills that, itself with it.
struct Probe {
  int killer;
  volatile bool ran = false;
  volatile bool survived = false;
};
CAISSON_CHILD_CODE void kill_own_cgroup(void* argument) noexcept {
  auto* probe = static_cast<Probe*>(argument);
  const char one = '1';
  probe->ran = true;
  raw_syscall(SYS_write, raw(probe->killer), raw(&one), 1);
  probe->survived = true;
  for (;;) raw_syscall(SYS_exit_group, 0);
}

std::string problem(std::string what, const std::string& path, const Error& error) {
  return std::move(what) + " " + path + ": " + error.message();
}

// What fails there, or nothing.
std::optional<std::string> try_place(const std::string& directory) {
  // Named as pools are: one whose process died while it tried is removed with theirs.
  const std::string leaf = directory + "/" + new_cgroup_name();
  const auto made = make_cgroup(leaf, 1);
  if (!made) return problem("making", leaf, made.error());
  const Fd cgroup = Fd::adopt(::open(leaf.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // As a pool is, so that nobody takes it for a dead process's meanwhile.
  if (cgroup) static_cast<void>(::flock(cgroup.number(), LOCK_EX | LOCK_NB));
  const Fd killer = Fd::adopt(::open((leaf + "/cgroup.kill").c_str(), O_WRONLY | O_CLOEXEC));
  std::optional<std::string> failure;
  if (!cgroup || !killer) {
    failure = problem("opening", leaf + "/cgroup.kill", last_error());
  } else {
    Probe probe{killer.number()};
    auto child = clone_child(&kill_own_cgroup, &probe, cgroup);
    if (child) {
      Process(std::move(child->pidfd), child->pid).reap();
      if (!probe.ran) {
        // The kernel compares how often the cloner's cgroup was killed with how often the leaf was.
        failure =
            "a process is killed at birth in " + leaf + ", as after cgroup.kill in the caller's own cgroup";
      } else if (probe.survived) {
        failure = "a process survives cgroup.kill in " + leaf;
      }
    } else {
      failure = problem("starting a process in", leaf, child.error());
    }
  }
  const auto removed = remove_cgroup_tree(leaf, probe_patience);
  if (!removed && !failure) failure = problem("removing", leaf, removed.error());
  ::rmdir(directory.c_str());
  return failure;
}

boost::system::result<CgroupPlace, std::string> look_for_place(const CgroupPosition& position) {
  if (position.mount.empty()) {
    return {boost::system::in_place_error, "no cgroup v2 hierarchy is mounted here"};
  }
  std::string failures;
  for (Candidate& candidate : candidates_of(position)) {
    std::string directory = candidate.parent + shared_name;
    const auto failure = try_place(directory);
    if (!failure) return CgroupPlace{std::move(directory), std::move(candidate.how)};
    failures += (failures.empty() ? "" : "; ") + *failure;
  }
  if (!failures.empty()) return {boost::system::in_place_error, std::move(failures)};
  return {boost::system::in_place_error,
          "this user may change no cgroup from " + (position.own.empty() ? position.mount : position.own) +
              " upward (systemd-run --user --scope -p Delegate=yes COMMAND runs a command where it may)"};
}

}  // namespace

boost::system::result<CgroupPlace, std::string> find_cgroup_place() {
  struct Found {
    CgroupPosition position;
    uid_t user;
    CgroupPlace place;
  };
  static std::mutex mutex;
  static std::optional<Found> found;
  const std::lock_guard lock(mutex);
  CgroupPosition position = own_cgroup_position();
  const uid_t user = ::geteuid();
  if (found && found->position == position && found->user == user) return found->place;
  auto place = look_for_place(position);
  if (place) found = Found{std::move(position), user, *place};
  return place;
}

Result<bool> enter_leaf_of_delegated_cgroup() {
  const std::string own = own_cgroup_position().own;
  if (own.empty() || !is_common_ground(own)) return false;
  // systemd before 254 does not mark what it delegates to an ordinary user's units.
  if (!is_delegated(own) && (::geteuid() == 0 || !is_unit(own))) return false;
  const Fd procs = Fd::adopt(::open((own + "/cgroup.procs").c_str(), O_RDONLY | O_CLOEXEC));
  if (!procs) return {boost::system::in_place_error, last_error()};
  const auto inside = read_all(procs, 4096);
  if (!inside) return {boost::system::in_place_error, inside.error()};
  if (*inside != std::to_string(::getpid()) + "\n") return false;
  const std::string leaf = own + "/" + own_leaf_name;
  const auto made = make_cgroup(leaf, 0);
  if (!made && made.error() != error_of(EEXIST)) return {boost::system::in_place_error, made.error()};
  const Fd door = Fd::adopt(::open((leaf + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC));
  if (!door) return {boost::system::in_place_error, last_error()};
  const auto entered = write_some(door, "0", 1);
  if (!entered) return {boost::system::in_place_error, entered.error()};
  return true;
}

}  // namespace caisson::os
