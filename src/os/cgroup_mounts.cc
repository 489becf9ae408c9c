// Where cgroup hierarchies are mounted, read from the kernel's lists of mounts and of a process's cgroups.
#include <fcntl.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "os/cgroup.h"
#include "os/cgroup_controllers.h"
#include "os/cgroup_files.h"

namespace caisson::os {

namespace {

// proc(5): space, tab, newline and backslash stand as \ooo in mountinfo.
std::string unescape(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    if (text[i] == '\\' && i + 3 < text.size() &&
        std::from_chars(&text[i + 1], &text[i + 1] + 3, value, 8).ptr == &text[i + 1] + 3) {
      plain += static_cast<char>(value);
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

// What is left of `path` beneath `root`, with its leading slash, or nothing when it is not beneath it.
std::optional<std::string> beneath_root(const std::string& path, const std::string& root) {
  if (root == "/") return path == "/" ? std::string() : path;
  if (path == root) return std::string();
  if (path.starts_with(root) && path[root.size()] == '/') return path.substr(root.size());
  return std::nullopt;
}

// What stands before the next `end`, both of which are cut off `text`.
std::string_view next_part(std::string_view& text, char end) noexcept {
  const std::size_t at = std::min(text.find(end), text.size());
  const std::string_view part = text.substr(0, at);
  text.remove_prefix(std::min(at + 1, text.size()));
  return part;
}

struct Mount {
  std::string_view type;
  std::string root;   // What of the file system is mounted.
  std::string point;  // Where.
  std::string_view options;
};

// The next cgroup mount of a mountinfo (proc(5)).
std::optional<Mount> next_mount(std::string_view& mount_info) {
  while (!mount_info.empty()) {
    std::string_view line = next_part(mount_info, '\n');
    const std::size_t dash = line.find(" - ");
    if (dash == std::string_view::npos) continue;
    std::string_view rest = line.substr(dash + 3);
    Mount mount;
    mount.type = next_part(rest, ' ');
    if (mount.type != "cgroup" && mount.type != "cgroup2") continue;
    next_part(rest, ' ');  // The source.
    mount.options = next_part(rest, ' ');
    for (int field = 0; field < 3; ++field) next_part(line, ' ');
    mount.root = unescape(next_part(line, ' '));
    mount.point = unescape(next_part(line, ' '));
    return mount;
  }
  return std::nullopt;
}

bool has_word(std::string_view list, std::string_view word) noexcept {
  while (!list.empty()) {
    if (next_part(list, ',') == word) return true;
  }
  return false;
}

// Our cgroup of a hierarchy: of one that has the controller, else of v2 (cgroups(7)); empty: there is none.
std::string own_path(std::string_view own, std::string_view controller) {
  while (!own.empty()) {
    std::string_view line = next_part(own, '\n');
    const std::string_view number = next_part(line, ':');
    const std::string_view controllers = next_part(line, ':');
    if (controller.empty() ? number == "0" && controllers.empty() : has_word(controllers, controller)) {
      return std::string(line);
    }
  }
  return {};
}

// The directory of our own cgroup beneath a mount, if it is there.
std::optional<std::string> own_directory(const Mount& mount, const std::string& path) {
  const auto rest = beneath_root(path, mount.root);
  // Our own cgroup is outside of what a cgroup namespace shows when its path climbs.
  if (!rest || path.empty() || path.find("/..") != std::string::npos) return std::nullopt;
  return mount.point + *rest;
}

std::string read_file(const char* path) {
  const Fd file = Fd::adopt(::open(path, O_RDONLY | O_CLOEXEC));
  if (!file) return {};
  auto text = read_all(file, 16 << 20);
  return text ? std::move(*text) : std::string();
}

}  // namespace

CgroupPosition cgroup_position(std::string_view mount_info, std::string_view own) {
  const std::string path = own_path(own, "");
  CgroupPosition position;
  while (auto mount = next_mount(mount_info)) {
    if (mount->type != "cgroup2") continue;
    auto directory = own_directory(*mount, path);
    if (directory) return {std::move(mount->point), std::move(*directory)};
    if (position.mount.empty()) position.mount = std::move(mount->point);
  }
  return position;
}

std::vector<CgroupV1Hierarchy> cgroup_v1_hierarchies(std::string_view mount_info, std::string_view own) {
  std::vector<CgroupV1Hierarchy> hierarchies;
  const auto is_known = [&hierarchies](CgroupController controller) {
    return std::any_of(hierarchies.begin(), hierarchies.end(),
                       [controller](const auto& each) { return each.has(controller); });
  };
  while (auto mount = next_mount(mount_info)) {
    if (mount->type != "cgroup") continue;
    CgroupV1Hierarchy hierarchy;
    for (const CgroupController controller : all_cgroup_controllers) {
      // A second mount of one is as good as the first.
      if (has_word(mount->options, name_of(controller)) && !is_known(controller)) {
        hierarchy.controllers.push_back(controller);
      }
    }
    if (hierarchy.controllers.empty()) continue;
    const std::string path = own_path(own, name_of(hierarchy.controllers.front()));
    hierarchy.position = {mount->point, own_directory(*mount, path).value_or("")};
    hierarchies.push_back(std::move(hierarchy));
  }
  return hierarchies;
}

CgroupPosition own_cgroup_position() {
  return cgroup_position(read_file("/proc/self/mountinfo"), read_file("/proc/self/cgroup"));
}

std::vector<CgroupV1Hierarchy> own_cgroup_v1_hierarchies() {
  return cgroup_v1_hierarchies(read_file("/proc/self/mountinfo"), read_file("/proc/self/cgroup"));
}

}  // namespace caisson::os
