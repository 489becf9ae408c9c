// One pass over /proc.
#include "os/directory_users.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <vector>

#include "os/beneath.h"
#include "os/fault_point.h"
#include "os/files.h"
#include "os/process_stat.h"

namespace caisson::os {
namespace {

constexpr unsigned kernel_thread_flag = 0x00200000;  // PF_KTHREAD, include/linux/sched.h.

class Scan {
 public:
  Scan(dev_t device, std::string parent_name, const std::set<std::string>& names)
      : device_(device), parent_name_(std::move(parent_name)), names_(names) {}

  // The process whose /proc directory is `process`; false when it may not be looked into.
  bool look(FdRef process) {
    for (const char* link : {"cwd", "root", "exe"}) {
      if (!follow(process, link)) return false;
    }
    const Result<Fd> descriptors = open_at(process, "fd", O_RDONLY | O_DIRECTORY);
    if (!descriptors) return gone(descriptors.error());
    const Result<std::vector<std::string>> open = names_in(*descriptors);
    if (!open) return gone(open.error());
    return std::all_of(open->begin(), open->end(),
                       [&](const std::string& descriptor) { return follow(*descriptors, descriptor); });
  }

  std::set<std::string> used() && { return std::move(used_); }

 private:
  // Of a process, or a descriptor of it, that ended meanwhile; or a link that it does not have.
  static bool gone(const Error& error) { return error == error_of(ENOENT) || error == error_of(ESRCH); }

  bool follow(FdRef directory, const std::string& link) {
    const Result<std::string> target = read_link_at(directory, link);
    // Too long to be shown is too long to be told by name; elsewhere it is none of these.
    if (!target && target.error() == error_of(ENAMETOOLONG)) return !same_device(directory, link);
    if (!target) return gone(target.error());
    std::string before;
    for (std::string_view rest = *target; !rest.empty();) {
      const std::size_t end = std::min(rest.find('/'), rest.size());
      std::string name(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
      constexpr std::string_view deleted = " (deleted)";
      if (rest.empty() && name.ends_with(deleted) && !names_.contains(name))
        name.resize(name.size() - deleted.size());
      if (names_.contains(name) && (before == parent_name_ || same_device(directory, link)))
        used_.insert(name);
      before = std::move(name);
    }
    return true;
  }

  // Where another mount namespace shows the parent under another name. (Where a file's device is not its
  // directory's, as on overlayfs, the parent's name has to do.)
  bool same_device(FdRef directory, const std::string& link) const {
    struct stat is = {};
    return ::fstatat(directory.number, link.c_str(), &is, 0) == 0 && is.st_dev == device_;
  }

  const dev_t device_;
  const std::string parent_name_;
  const std::set<std::string>& names_;
  std::set<std::string> used_;
};

// Kernel threads and zombies hold no files, and may not be looked into by an ordinary user.
bool holds_nothing(FdRef process) {
  const Result<std::string> stat = read_file_at(process, "stat", 4096);
  if (!stat) return stat.error() == error_of(ENOENT) || stat.error() == error_of(ESRCH);
  const std::string_view state = stat_field(*stat, 3);
  return state == "Z" || state == "X" ||
         (stat_number<unsigned>(*stat, 9).value_or(0) & kernel_thread_flag) != 0;
}

}  // namespace

DirectoryUsers directory_users(FdRef parent, const std::set<std::string>& names) {
  DirectoryUsers users;
  const Result<FileStatus> is = status(parent);
  const Result<Fd> proc = open_directory("/proc");
  const Result<std::vector<std::string>> entries =
      proc ? names_in(*proc) : Result<std::vector<std::string>>(proc.error());
  // A /proc that hides others' processes hides the first of all.
  if (!is || !entries || std::find(entries->begin(), entries->end(), "1") == entries->end()) {
    users.not_inspected = 1;
    return users;
  }
  const Result<std::string> path = read_link_at(*proc, "self/fd/" + std::to_string(parent.number));
  Scan scan(is->st_dev, path ? path->substr(path->rfind('/') + 1) : std::string(), names);
  for (const std::string& entry : *entries) {
    pid_t pid = 0;
    const auto [end, error] = std::from_chars(entry.data(), entry.data() + entry.size(), pid);
    if (error != std::errc() || end != entry.data() + entry.size()) continue;
    const auto fault = fault_point("users.process");
    const Result<Fd> process =
        fault ? open_at(*proc, entry, O_PATH | O_DIRECTORY) : Result<Fd>(fault.error());
    if (!process) {
      const bool ended = process.error() == error_of(ENOENT) || process.error() == error_of(ESRCH);
      if (!ended) users.not_inspected = pid;
      continue;
    }
    // Init is closed to most, and nobody's session; the processes it takes over are looked at for themselves.
    if (!scan.look(*process) && pid != 1 && !holds_nothing(*process)) users.not_inspected = pid;
  }
  users.used = std::move(scan).used();
  return users;
}

}  // namespace caisson::os
