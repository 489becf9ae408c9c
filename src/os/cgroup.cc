// Cgroup leaves: made, killed, given back and removed.
#include "os/cgroup.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <sstream>
#include <thread>

#include "os/cgroup_files.h"
#include "os/clock.h"
#include "os/fault_point.h"
#include "os/files.h"

namespace caisson::os {

namespace {

using Deadline = std::chrono::steady_clock::time_point;

// Until the kernel has let go of a killed process its cgroup is busy; waiting on cgroup.events is far slower,
// for its notifications are rate-limited.
constexpr std::chrono::microseconds busy_pause{50};
constexpr std::chrono::milliseconds tidy_patience{10};
constexpr std::chrono::milliseconds end_patience{2000};

struct CloseDirectory {
  void operator()(DIR* directory) const noexcept { ::closedir(directory); }
};

using Entries = std::unique_ptr<DIR, CloseDirectory>;

// What stands in a directory; nothing where it was not opened, with the reason in errno.
Entries entries_of(Result<Fd> directory) noexcept {
  Entries entries(directory && *directory ? ::fdopendir(directory->number()) : nullptr);
  if (entries) static_cast<void>(std::move(*directory).release());  // `entries` closes it now.
  return entries;
}

bool is_cgroup(const dirent& entry) noexcept { return entry.d_type == DT_DIR && entry.d_name[0] != '.'; }

// One pass over a cgroup and those beneath it, deepest first.
Result<void> remove_once(FdRef parent, const char* name) noexcept {
  if (::unlinkat(parent.number, name, AT_REMOVEDIR) == 0 || errno == ENOENT) return {};
  const Error error = last_error();
  if (!is_busy(error)) return error;
  const auto entries =
      entries_of(Fd::adopt(::openat(parent.number, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)));
  if (!entries) return last_error();
  while (const dirent* entry = ::readdir(entries.get())) {
    if (!is_cgroup(*entry)) continue;
    const auto removed = remove_once(FdRef{::dirfd(entries.get())}, entry->d_name);
    if (!removed) return removed.error();
  }
  if (::unlinkat(parent.number, name, AT_REMOVEDIR) == 0 || errno == ENOENT) return {};
  return last_error();
}

Result<void> remove_until(const std::string& path, Deadline deadline) noexcept {
  for (;;) {
    const auto removed = remove_once(FdRef{AT_FDCWD}, path.c_str());
    if (removed || !is_busy(removed.error())) return removed;
    if (std::chrono::steady_clock::now() >= deadline) return error_of(EBUSY);
    std::this_thread::sleep_for(busy_pause);
  }
}

constexpr int deepest = 64;
constexpr std::size_t largest_list = 1U << 20U;

// cgroup.kill signals the first thread of each process, which is in vain where that has ended and others have
// not. Best effort: whoever is overlooked is found to be there still.
void kill_by_pidfd(FdRef cgroup, int depth) {
  if (depth > deepest) return;
  const auto text = read_file_at(cgroup, "cgroup.procs", largest_list);
  std::istringstream pids(text ? *text : std::string());
  for (pid_t pid = 0; pids >> pid;) {
    // 0: one that has no number here.
    const Fd process = pid > 0 ? Fd::adopt(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))) : Fd();
    if (process) ::syscall(SYS_pidfd_send_signal, process.number(), SIGKILL, nullptr, 0);
  }
  const auto entries = entries_of(open_at(cgroup, ".", O_RDONLY | O_DIRECTORY));
  while (const dirent* entry = entries ? ::readdir(entries.get()) : nullptr) {
    if (!is_cgroup(*entry)) continue;
    const auto child = open_at(cgroup, entry->d_name, O_PATH | O_DIRECTORY);
    if (child) kill_by_pidfd(*child, depth + 1);
  }
}

Result<void> kill_cgroup(FdRef killer, FdRef directory) noexcept {
  const auto killed = write_all(killer, "1");
  if (!killed) return killed;
  try {
    kill_by_pidfd(directory, 0);
  } catch (const std::exception&) {
    // Without memory the kernel's own kill has to do.
  }
  return {};
}

Result<void> kill_cgroup(const std::string& path) {
  const Fd killer = Fd::adopt(::open((path + "/cgroup.kill").c_str(), O_WRONLY | O_CLOEXEC));
  if (!killer) return last_error();
  const Fd directory = Fd::adopt(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!directory) return last_error();
  return kill_cgroup(killer, directory);
}

std::string_view parent_of(std::string_view path) noexcept { return path.substr(0, path.rfind('/')); }

}  // namespace

Result<void> make_cgroup(const std::string& path, int parents) noexcept {
  // Other processes remove a shared parent when they find it empty.
  for (int attempt = 0; attempt < 1000; ++attempt) {
    if (::mkdir(path.c_str(), 0755) == 0) return {};
    if (errno != ENOENT || parents == 0) return last_error();
    const auto above = make_cgroup(std::string(parent_of(path)), parents - 1);
    if (!above && above.error() != error_of(EEXIST)) return above.error();
  }
  return error_of(ENOENT);
}

Result<void> remove_cgroup_tree(const std::string& path, std::chrono::milliseconds patience) noexcept {
  const Deadline deadline = std::chrono::steady_clock::now() + patience;
  const auto killed = kill_cgroup(path);
  if (!killed && killed.error() == error_of(ENOENT)) return {};
  return remove_until(path, deadline);
}

Result<void> remove_empty_cgroup(const std::string& path) noexcept {
  if (::rmdir(path.c_str()) == 0 || errno == ENOENT) return {};
  return last_error();
}

Result<void> remove_cgroup_directories(const std::string& path, std::chrono::milliseconds patience) noexcept {
  return remove_until(path, std::chrono::steady_clock::now() + patience);
}

Result<CgroupLeaf> CgroupLeaf::open(std::string path) {
  const auto open_spare = [&path](const char* file, int flags) {
    return spare_descriptor(Fd::adopt(::open((path + file).c_str(), flags | O_CLOEXEC)));
  };
  const auto fault = fault_point("cgroup.leaf_open");
  auto directory = fault ? open_spare("", O_PATH | O_DIRECTORY) : Result<Fd>(fault.error());
  if (!directory) return directory.error();
  auto events = open_spare("/cgroup.events", O_RDONLY);
  if (!events) return events.error();
  auto killer = open_spare("/cgroup.kill", O_WRONLY);
  if (!killer) return killer.error();
  return CgroupLeaf(std::move(path), std::move(*directory), std::move(*events), std::move(*killer));
}

CgroupLeaf::CgroupLeaf(std::string path, Fd directory, Fd events, Fd killer) noexcept
    : path_(std::move(path)),
      directory_(std::move(directory)),
      events_(std::move(events)),
      killer_(std::move(killer)) {}

Result<void> CgroupLeaf::kill() noexcept {
  killed_ = true;
  if (const auto fault = fault_point("cgroup.kill"); !fault) return fault.error();
  return kill_cgroup(killer_, directory_);
}

Result<bool> CgroupLeaf::populated() const noexcept {
  std::array<char, 128> text;
  const ssize_t count = ::pread(events_.number(), text.data(), text.size(), 0);
  if (count < 0) return {boost::system::in_place_error, last_error()};
  const std::string_view events(text.data(), static_cast<std::size_t>(count));
  return events.find("populated 1") != std::string_view::npos;
}

bool CgroupLeaf::reusable() const noexcept {
  if (killed_) return false;
  const auto busy = populated();
  if (!busy || *busy) return false;
  // A cgroup that somebody made beneath it shows in the link count.
  struct stat status{};
  return ::fstat(directory_.number(), &status) == 0 && status.st_nlink == 2;
}

namespace {

// Held alone as long as its pool lives, whatever process number an observer knows the owner by.
Result<Fd> lock_directory(const std::string& path, int operation) noexcept {
  Fd directory = Fd::adopt(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!directory || ::flock(directory.number(), operation | LOCK_NB) != 0) return last_error();
  return directory;
}

// Both are needed: a pool in the making has no lock yet, and a process of another pid namespace has no number
// here.
bool is_abandoned(const std::string& place, const std::string& name) noexcept {
  const std::size_t dash = name.find('-');
  if (dash == 0 || dash == std::string::npos || name.find_first_not_of("0123456789") != dash) return false;
  const std::string process = "/proc/" + name.substr(0, dash);
  if (::access("/proc/self", F_OK) != 0 || ::access(process.c_str(), F_OK) == 0) return false;
  return lock_directory(place + "/" + name, LOCK_EX).has_value();
}

void remove_abandoned_pools(const std::string& place) noexcept {
  const Entries entries(::opendir(place.c_str()));
  while (const dirent* entry = entries ? ::readdir(entries.get()) : nullptr) {
    if (is_cgroup(*entry) && is_abandoned(place, entry->d_name)) {
      static_cast<void>(remove_cgroup_tree(place + "/" + entry->d_name, tidy_patience));
    }
  }
}

}  // namespace

std::string new_cgroup_name() { return std::to_string(::getpid()) + "-" + random_hex_id(); }

bool is_in_cgroup_hierarchy(std::string path) noexcept {
  struct statfs is = {};
  while (!path.empty()) {
    if (::statfs(path.c_str(), &is) == 0) return is.f_type == CGROUP2_SUPER_MAGIC;
    path.resize(parent_of(path).size());
  }
  return false;
}

Result<bool> cgroup_in_use(const std::string& path) noexcept {
  const auto lock = lock_directory(path, LOCK_SH);
  if (lock || lock.error() == error_of(ENOENT)) return false;
  if (lock.error() == error_of(EWOULDBLOCK)) return true;
  return {boost::system::in_place_error, lock.error()};
}

Result<std::unique_ptr<CgroupLeafPool>> CgroupLeafPool::create(const CgroupPlace& place,
                                                               std::string_view name, std::size_t ahead) {
  if (name.empty() || name.front() == '.' || name.find('/') != std::string_view::npos)
    return error_of(EINVAL);
  std::string path = place.directory + "/" + std::string(name);
  if (const auto fault = fault_point("cgroup.pool"); !fault) return fault.error();
  const auto made = make_cgroup(path, 1);
  if (!made) return made.error();
  std::unique_ptr<CgroupLeafPool> pool(new CgroupLeafPool(std::move(path), ahead));
  const auto fault = fault_point("cgroup.pool_lock");
  auto lock = fault ? lock_directory(pool->path_, LOCK_EX) : Result<Fd>(fault.error());
  // Without it others would take the pool for a dead one's.
  if (!lock) return lock.error();
  pool->lock_ = std::move(*lock);
  remove_abandoned_pools(place.directory);
  return pool;
}

CgroupLeafPool::CgroupLeafPool(std::string path, std::size_t ahead)
    : path_(std::move(path)), owner_(::getpid()), leaves_(ahead) {}

CgroupLeafPool::~CgroupLeafPool() {
  if (::getpid() != owner_) return;
  kill_point("cgroup.pool_end");
  // What stays busy past that is for a recovery to remove.
  static_cast<void>(remove_cgroup_tree(path_, end_patience));
  ::rmdir(std::string(parent_of(path_)).c_str());  // Fails while other processes have theirs in it.
}

Result<CgroupLeaf> CgroupLeafPool::make_leaf() {
  for (;;) {
    std::string path = path_ + "/" + std::to_string(next_++);
    if (const auto fault = fault_point("cgroup.leaf"); !fault) return fault.error();
    const auto made = make_cgroup(path, 1);
    if (made) {
      auto leaf = CgroupLeaf::open(path);
      if (!leaf) ::rmdir(path.c_str());
      return leaf;
    }
    if (made.error() == error_of(ENOENT)) {
      // Our own directory and the shared one above it were removed by somebody.
      const auto again = make_cgroup(path_, 1);
      if (!again && again.error() != error_of(EEXIST)) return again.error();
      continue;
    }
    if (made.error() != error_of(EEXIST)) return made.error();
  }
}

Result<CgroupLeaf> CgroupLeafPool::acquire() {
  auto ready = leaves_.take();
  if (ready) return std::move(*ready);
  return make_leaf();
}

void CgroupLeafPool::give_back(CgroupLeaf leaf) noexcept {
  if (leaf.reusable()) {
    leaves_.give_back(std::move(leaf));
  } else {
    leaves_.put_aside(std::move(leaf));
  }
}

void CgroupLeafPool::discard(CgroupLeaf leaf) noexcept { leaves_.put_aside(std::move(leaf)); }

bool CgroupLeafPool::untidy() const noexcept { return leaves_.untidy(); }

bool CgroupLeafPool::tidy() noexcept {
  const Deadline deadline = std::chrono::steady_clock::now() + tidy_patience;
  const auto remove = [deadline](CgroupLeaf& leaf) {
    if (!leaf.killed()) static_cast<void>(leaf.kill());
    const auto removed = remove_until(leaf.path(), deadline);
    return removed || !is_busy(removed.error());
  };
  return leaves_.tidy(remove, [this] { return make_leaf(); });
}

}  // namespace caisson::os
