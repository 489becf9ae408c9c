// remove_tree: depth first, by descriptors and single names, with an explicit stack.
#include "os/remove_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "os/fault_point.h"
#include "os/files.h"

namespace caisson::os {
namespace {

// Descriptors held for ancestors of the directory at work; those further up are closed, and opened again by
// "..".
constexpr std::size_t open_levels = 24;
// How often directories are read again because something was written into them after they had been emptied.
constexpr int most_rereads = 1000;
// How often the walk begins again because a directory at work was moved elsewhere.
constexpr int most_walks = 16;

// One directory on the way down.
struct Level {
  std::string name;  // In the level above.
  Fd fd;             // Closed when it is too far up.
  dev_t device;
  ino_t inode;
  std::vector<std::string> directories = {};  // Read and not yet entered.
  std::set<std::string> kept = {};            // What could not be removed; not tried again.
};

// Opens a directory, never through a symlink and never on another mount (EXDEV).
Result<Fd> enter(FdRef parent, const std::string& name, int access) noexcept {
  open_how how = {};
  how.flags = static_cast<unsigned>(access | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  how.resolve = RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS;
  for (;;) {
    const long fd = ::syscall(SYS_openat2, parent.number, name.c_str(), &how, sizeof how);
    if (fd >= 0) return Fd::adopt(static_cast<int>(fd));
    if (errno != EINTR && errno != EAGAIN) return last_error();
  }
}

// Gives the owner all rights on a directory, by descriptor: by name the change could go through a symlink.
// Where it fails, so does the call that needed it, and is reported.
void permit(FdRef directory) noexcept { static_cast<void>(::chmod(self_path(directory).data(), 0700)); }

// unlinkat(2), once more with permission where the directory refuses it.
Result<void> unlink_from(FdRef directory, const std::string& name, int flags) noexcept {
  if (::unlinkat(directory.number, name.c_str(), flags) == 0) return {};
  if (errno != EACCES) return last_error();
  permit(directory);
  if (::unlinkat(directory.number, name.c_str(), flags) == 0) return {};
  return last_error();
}

class Removal {
 public:
  Removal(FdRef parent, const std::string& name) : parent_(parent), name_(name) {}

  Result<void> run() {
    for (int walks = 0; walks < most_walks; ++walks) {
      levels_.clear();
      first_error_.clear();
      moved_ = false;
      descend(name_);
      while (!levels_.empty() && !moved_) {
        std::vector<std::string>& pending = levels_.back().directories;
        if (!pending.empty()) {
          const std::string next = std::move(pending.back());
          pending.pop_back();
          descend(next);
        } else if (!read_more()) {
          leave();
        }
      }
      if (!moved_) return first_error_ ? Result<void>(first_error_) : Result<void>();
    }
    return error_of(ENOTEMPTY);
  }

 private:
  FdRef here() const noexcept { return levels_.empty() ? parent_ : FdRef(levels_.back().fd); }

  void keep(const std::string& name, Error error) {
    if (!first_error_) first_error_ = error;
    if (!levels_.empty()) levels_.back().kept.insert(name);
  }

  // Removes `name` from the directory at work if it is no directory.
  void unlink_file(const std::string& name) {
    if (const auto fault = fault_point("tree.unlink"); !fault) return keep(name, fault.error());
    const Result<void> gone = unlink_from(here(), name, 0);
    if (gone || gone.error() == error_of(ENOENT)) return;
    // A directory gives EISDIR, or EPERM as POSIX has it.
    if (gone.error() == error_of(EISDIR) || gone.error() == error_of(EPERM)) {
      const Result<FileStatus> is = status_at(here(), name);
      if (is && S_ISDIR(is->st_mode) && !levels_.empty()) {
        levels_.back().directories.push_back(name);
        return;
      }
    }
    keep(name, gone.error());
  }

  // Enters the directory `name` of the directory at work.
  void descend(const std::string& name) {
    if (const auto fault = fault_point("tree.enter"); !fault) return keep(name, fault.error());
    Result<Fd> fd = enter(here(), name, O_RDONLY);
    if (!fd && fd.error() == error_of(EACCES)) {
      if (const Result<Fd> unreadable = enter(here(), name, O_PATH)) permit(*unreadable);
      fd = enter(here(), name, O_RDONLY);
    }
    if (!fd) {
      const Error error = fd.error();
      if (error == error_of(ENOTDIR) || error == error_of(ELOOP)) return unlink_file(name);
      if (error != error_of(ENOENT)) keep(name, error);
      return;
    }
    const Result<FileStatus> is = status(*fd);
    if (!is) return keep(name, is.error());
    if ((is->st_mode & 0700) != 0700) permit(*fd);
    levels_.push_back({name, std::move(*fd), is->st_dev, is->st_ino});
    if (levels_.size() > open_levels) levels_[levels_.size() - 1 - open_levels].fd.reset();
  }

  // Reads a part of the directory at work and removes its files; false at its end.
  bool read_more() {
    const ssize_t size = ::getdents64(levels_.back().fd.number(), buffer_.data(), buffer_.size());
    if (size < 0) {
      // ENOENT: the directory itself was removed by somebody else.
      if (errno != ENOENT) keep(".", last_error());
      return false;
    }
    for (ssize_t at = 0; at < size;) {
      const void* const start = buffer_.data() + at;
      const auto* const entry = static_cast<const dirent64*>(start);
      at += entry->d_reclen;
      const std::string name = entry->d_name;
      if (name == "." || name == ".." || levels_.back().kept.contains(name)) continue;
      if (entry->d_type == DT_DIR) {
        levels_.back().directories.push_back(name);
      } else {
        unlink_file(name);
      }
    }
    return size > 0;
  }

  // Removes the directory at work, which was emptied, and goes back to the one above.
  void leave() {
    Level done = std::move(levels_.back());
    levels_.pop_back();
    if (!levels_.empty() && !levels_.back().fd && !reopen(levels_.back(), done.fd)) {
      moved_ = true;
      return;
    }
    if (const auto fault = fault_point("tree.leave"); !fault) return keep(done.name, fault.error());
    const Result<void> gone = unlink_from(here(), done.name, AT_REMOVEDIR);
    if (gone || gone.error() == error_of(ENOENT)) return;
    if (gone.error() == error_of(ENOTDIR)) return unlink_file(done.name);
    if (gone.error() != error_of(ENOTEMPTY) && gone.error() != error_of(EEXIST))
      return keep(done.name, gone.error());
    // Its own contents say why it stays; otherwise somebody still writes into it.
    if (!done.kept.empty()) return keep(done.name, first_error_);
    if (++rereads_ > most_rereads) return keep(done.name, error_of(ENOTEMPTY));
    ::lseek(done.fd.number(), 0, SEEK_SET);
    levels_.push_back(std::move(done));
  }

  // Opens a level again from the one below it. False when that one is no longer in it: ".." would lead
  // elsewhere.
  static bool reopen(Level& level, FdRef below) noexcept {
    Result<Fd> above = open_at(below, "..", O_RDONLY | O_DIRECTORY);
    if (!above) return false;
    const Result<FileStatus> is = status(*above);
    if (!is || is->st_dev != level.device || is->st_ino != level.inode) return false;
    level.fd = std::move(*above);
    return true;
  }

  FdRef parent_;
  const std::string& name_;
  std::vector<Level> levels_;
  Error first_error_;
  int rereads_ = 0;
  bool moved_ = false;
  alignas(dirent64) std::array<char, 32768> buffer_;
};

}  // namespace

Result<void> remove_tree(FdRef parent, const std::string& name) {
  // What is empty or not there at all is so often the case that it has a short way.
  if (::unlinkat(parent.number, name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) return {};
  // On the heap: it holds a large buffer.
  return std::make_unique<Removal>(parent, name)->run();
}

}  // namespace caisson::os
