// Beneath: openat2(2) with RESOLVE_BENEATH, and what it cannot do by itself (absolute symlinks, making
// parents).
#include "os/beneath.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <vector>

#include "os/files.h"

namespace caisson::os {
namespace {

// As many as the kernel follows in one path (path_resolution(7)).
constexpr int most_links = 40;
// Another process renaming anything on the machine makes some resolutions with ".." fail with EAGAIN: 2 % of
// them under a constant stream of renames.
constexpr int most_tries = 256;
// A parent made here may be removed by somebody before it is opened.
constexpr int most_makings = 16;

using Parts = std::vector<std::string>;

// The components of a path, "." and empty ones dropped.
Parts parts_of(std::string_view path) {
  Parts parts;
  while (!path.empty()) {
    const std::size_t end = std::min(path.find('/'), path.size());
    const std::string_view part = path.substr(0, end);
    if (!part.empty() && part != ".") parts.emplace_back(part);
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return parts;
}

// The first `count` components as a relative path.
std::string joined(const Parts& parts, std::size_t count) {
  std::string path;
  for (std::size_t i = 0; i < count; ++i) {
    if (i != 0) path += '/';
    path += parts[i];
  }
  return path.empty() ? "." : path;
}

// What makes a path name a directory by its form alone.
bool directory_form(std::string_view path) {
  if (path.empty() || path.back() == '/') return true;
  const std::string_view last = path.substr(path.rfind('/') + 1);
  return last == "." || last == "..";
}

// `path` without the prefix `base`, both absolute; nothing when it does not begin with it. Compared by
// components, for
// "/w//x" is under "/w" and "/w2" is not.
std::optional<Parts> under(std::string_view path, const std::string& base) {
  Parts parts = parts_of(path);
  const Parts prefix = parts_of(base);
  if (parts.size() < prefix.size() || !std::equal(prefix.begin(), prefix.end(), parts.begin()))
    return std::nullopt;
  parts.erase(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(prefix.size()));
  return parts;
}

Result<Fd> open_once(FdRef directory, const std::string& path, int flags,
                     std::uint64_t resolve = RESOLVE_BENEATH) {
  open_how how = {};
  how.flags = static_cast<unsigned>(flags | O_CLOEXEC);
  // Flags that openat2 does not take together with O_PATH.
  if ((flags & O_PATH) == 0) how.flags |= O_NOCTTY | O_NONBLOCK;
  how.resolve = resolve | RESOLVE_NO_MAGICLINKS;
  for (int tries = 0;; ++tries) {
    const long fd = ::syscall(SYS_openat2, directory.number, path.c_str(), &how, sizeof how);
    if (fd >= 0) return Fd::adopt(static_cast<int>(fd));
    if (errno == EINTR) continue;
    if (errno != EAGAIN || tries == most_tries) return last_error();
    ::sched_yield();
  }
}

// One resolution of a path that may meet absolute symlinks into the directory, which RESOLVE_BENEATH refuses:
// each is replaced in the text by where it points, and the kernel resolves the new text from the start. Every
// descriptor comes from one openat2 with RESOLVE_BENEATH, so a tree that changes meanwhile gives a wrong
// answer at worst, never one that lies outside.
class Resolution {
 public:
  Resolution(const Beneath& beneath, Parts parts) : beneath_(beneath), parts_(std::move(parts)) {}

  Result<Fd> open(int flags) {
    for (;;) {
      Result<Fd> fd = open_once(beneath_.directory(), joined(parts_, parts_.size()), flags);
      if (fd || fd.error() != error_of(EXDEV)) return fd;
      if (const Result<void> done = replace_absolute_link(); !done) return done.error();
    }
  }

  // Replaces the component `at`, a symlink, by its target.
  Result<void> replace_link(std::size_t at, const std::string& target) {
    if (++links_ > most_links) return error_of(ELOOP);
    if (target.empty()) return error_of(ENOENT);
    Parts replaced;
    if (target.front() == '/') {
      std::optional<Parts> inside = under(target, beneath_.path());
      if (!inside) return error_of(EXDEV);
      replaced = std::move(*inside);
    } else {
      replaced.assign(parts_.begin(), parts_.begin() + static_cast<std::ptrdiff_t>(at));
      Parts relative = parts_of(target);
      std::move(relative.begin(), relative.end(), std::back_inserter(replaced));
    }
    std::move(parts_.begin() + static_cast<std::ptrdiff_t>(at) + 1, parts_.end(),
              std::back_inserter(replaced));
    parts_ = std::move(replaced);
    // A text longer than one system call takes is refused now, before it grows with every link.
    return joined(parts_, parts_.size()).size() < 4096 ? Result<void>() : error_of(ENAMETOOLONG);
  }

  const Parts& parts() const noexcept { return parts_; }

 private:
  // Finds the component at which the kernel refused, and replaces it if it is a symlink; EXDEV stands
  // otherwise.
  Result<void> replace_absolute_link() {
    for (std::size_t count = 1; count <= parts_.size(); ++count) {
      const Result<Fd> followed = open_once(beneath_.directory(), joined(parts_, count), O_PATH);
      if (followed || followed.error() != error_of(EXDEV)) continue;
      const Result<Fd> link = open_once(beneath_.directory(), joined(parts_, count), O_PATH | O_NOFOLLOW);
      if (!link) return link.error();
      const Result<std::string> target = read_link_at(*link, "");
      // No symlink: a ".." above the directory, or something that was exchanged meanwhile.
      if (!target) return error_of(EXDEV);
      return replace_link(count - 1, *target);
    }
    // Nothing refuses any more: the tree changed between the two looks.
    return ++links_ > most_links ? Result<void>(error_of(EAGAIN)) : Result<void>();
  }

  const Beneath& beneath_;
  Parts parts_;
  int links_ = 0;
};

// The text of a caller's path: relative, or absolute and under the directory.
Result<Parts> relative_parts(std::string_view path, const std::string& base) {
  if (path.empty()) return error_of(ENOENT);
  if (path.find('\0') != std::string_view::npos) return error_of(EINVAL);
  if (path.size() >= 4096) return error_of(ENAMETOOLONG);
  if (path.front() != '/') return parts_of(path);
  std::optional<Parts> inside = under(path, base);
  if (!inside) return error_of(EXDEV);
  return std::move(*inside);
}

// Opens the directory that `resolution` names, making what is missing of it.
Result<Fd> make_all(const Beneath& beneath, Resolution resolution) {
  Result<Fd> whole = resolution.open(O_PATH | O_DIRECTORY);
  if (whole || whole.error() != error_of(ENOENT)) return whole;
  const Parts parts = resolution.parts();
  Fd held;
  FdRef parent = beneath.directory();
  for (std::size_t count = 1; count <= parts.size(); ++count) {
    const Parts so_far(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(count));
    // The whole was looked for already.
    Result<Fd> next = count == parts.size() ? Result<Fd>(whole.error())
                                            : Resolution(beneath, so_far).open(O_PATH | O_DIRECTORY);
    for (int makings = 0; !next && next.error() == error_of(ENOENT) && makings < most_makings; ++makings) {
      const Result<void> made = make_directory_at(parent, parts[count - 1], 0755);
      // EEXIST: somebody else made it, or it is a symlink to nothing, which stays ENOENT.
      if (!made && made.error() != error_of(EEXIST)) return made.error();
      next = Resolution(beneath, so_far).open(O_PATH | O_DIRECTORY);
    }
    if (!next) return next;
    held = std::move(*next);
    parent = held;
  }
  if (!held) return whole;
  return held;
}

}  // namespace

Result<Fd> open_directory(const std::string& path) noexcept {
  if (path.empty() || path.front() != '/') return error_of(ENOENT);
  if (path.find('\0') != std::string::npos) return error_of(EINVAL);
  const int fd = ::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return last_error();
  return Fd::adopt(fd);
}

Result<Fd> open_directory_in(FdRef root, const std::string& path) {
  if (path.find('\0') != std::string::npos) return error_of(EINVAL);
  return open_once(root, path, O_PATH | O_DIRECTORY, RESOLVE_IN_ROOT);
}

Result<Fd> Beneath::open(std::string_view path, int flags) const {
  Result<Parts> parts = relative_parts(path, path_);
  if (!parts) return parts.error();
  // The form "x/" asks for a directory, which the components do not show.
  if (directory_form(path)) flags |= O_DIRECTORY;
  return Resolution(*this, std::move(*parts)).open(flags);
}

Result<Fd> Beneath::make_directories(std::string_view path) const {
  Result<Parts> parts = relative_parts(path, path_);
  if (!parts) return parts.error();
  return make_all(*this, Resolution(*this, std::move(*parts)));
}

Result<Beneath::Place> Beneath::place_for(std::string_view path) const {
  Result<Parts> parts = relative_parts(path, path_);
  if (!parts) return parts.error();
  bool directory = directory_form(path);
  Resolution resolution(*this, std::move(*parts));
  for (;;) {
    const Parts& now = resolution.parts();
    if (directory || now.empty() || now.back() == "..") return error_of(EISDIR);
    Result<Fd> parent = make_all(*this, Resolution(*this, Parts(now.begin(), now.end() - 1)));
    if (!parent) return parent.error();
    const std::string name = now.back();
    const Result<std::string> target = read_link_at(*parent, name);
    // EINVAL: there is something, and it is no symlink.
    if (!target && target.error() != error_of(EINVAL) && target.error() != error_of(ENOENT))
      return target.error();
    if (!target) return Place{std::move(*parent), name};
    directory = directory_form(*target);
    if (const Result<void> done = resolution.replace_link(now.size() - 1, *target); !done)
      return done.error();
  }
}

}  // namespace caisson::os
