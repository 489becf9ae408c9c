// Reads what the kernel says of this process.
#include "tests/support/traces.h"

#include <dirent.h>
#include <net/if.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>
#include <vector>

#include "tests/support/temporary_directory.h"

namespace caisson::test {
namespace {

namespace fs = std::filesystem;

// Descriptors that a process opens once for good, by what they lead to. Each is allowed once.
struct Allowance {
  std::string_view target;
  std::string_view reason;
};
constexpr std::array allowances{
    Allowance{"/dev/urandom", "std::random_device and libraries without getrandom(2) keep it open"},
    Allowance{"/memfd:caisson-shim", "the shim program is made executable once a process"},
};

bool is_number(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::string read_link(const std::string& path) {
  std::error_code error;
  const fs::path target = fs::read_symlink(path, error);
  return error ? std::string() : target.string();
}

std::string read_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::vector<std::string> entries(const std::string& path) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator at(path, error);
  for (; !error && at != fs::directory_iterator(); at.increment(error)) {
    names.push_back(at->path().filename().string());
  }
  return names;
}

constexpr std::string_view deleted = " (deleted)";
constexpr std::string_view arrow = " -> ";

void add_descriptors(Traces& traces) {
  // Not entries(): the listing's own descriptor must be left out.
  DIR* const directory = ::opendir("/proc/self/fd");
  if (directory == nullptr) {
    return;
  }
  const std::string own = std::to_string(::dirfd(directory));
  while (const dirent* const entry = ::readdir(directory)) {
    const std::string number = entry->d_name;
    if (is_number(number) && number != own) {
      std::string target = read_link("/proc/self/fd/" + number);
      if (target.ends_with(deleted)) {  // A file may lose its name while it is open.
        target.resize(target.size() - deleted.size());
      }
      const std::string trace = "descriptor " + number + std::string(arrow) + target;
      traces.emplace(trace, trace);
    }
  }
  ::closedir(directory);
}

std::string process_name(const std::string& pid) { return read_line("/proc/" + pid + "/comm"); }

void add_threads_and_children(Traces& traces) {
  for (const std::string& thread : entries("/proc/self/task")) {
    const std::string directory = "/proc/self/task/" + thread;
    traces.emplace("thread " + thread, "thread " + thread + " (" + read_line(directory + "/comm") + ")");
    // A child stays listed until it is reaped.
    std::istringstream children(read_line(directory + "/children"));
    for (std::string child; children >> child;) {
      traces.emplace("child " + child, "child process " + child + " (" + process_name(child) + ")");
    }
  }
}

bool is_under(std::string_view path, std::string_view base) {
  return path.starts_with(base) && (path.size() == base.size() || path[base.size()] == '/');
}

void add_stray_processes(Traces& traces) {
  const std::string own = std::to_string(::getpid());
  for (const std::string& pid : entries("/proc")) {
    if (is_number(pid) && pid != own && is_under(read_link("/proc/" + pid + "/cwd"), temporary_base())) {
      traces.emplace("process " + pid,
                     "process " + pid + " (" + process_name(pid) + ") at work in a temporary directory");
    }
  }
}

// Whether `name` holds `number` with no digit beside it.
bool holds_number(std::string_view name, std::string_view number) {
  const auto digit = [&](std::size_t at) { return at < name.size() && name[at] >= '0' && name[at] <= '9'; };
  for (auto at = name.find(number); at != std::string_view::npos; at = name.find(number, at + 1)) {
    if ((at == 0 || !digit(at - 1)) && !digit(at + number.size())) {
      return true;
    }
  }
  return false;
}

struct Mount {
  std::string id;
  std::string point;
  std::string type;
};

std::vector<Mount> mounts() {
  std::vector<Mount> all;
  std::ifstream file("/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    // proc_pid_mountinfo(5): id, parent, device, root, mount point, options, any tags, "-", type, source, ...
    std::istringstream fields(line);
    std::string id, skipped, point, type;
    fields >> id >> skipped >> skipped >> skipped >> point;
    for (std::string field; fields >> field && field != "-";) {
    }
    fields >> type;
    all.push_back({id, point, type});
  }
  return all;
}

void add_cgroups(const std::string& directory, const std::string& pid, int depth, Traces& traces) {
  if (depth == 0) {
    return;
  }
  std::error_code error;
  fs::directory_iterator at(directory, error);
  for (; !error && at != fs::directory_iterator(); at.increment(error)) {
    std::error_code ignored;
    if (!at->is_directory(ignored) || at->is_symlink(ignored)) {
      continue;
    }
    if (holds_number(at->path().filename().string(), pid)) {
      traces.emplace("cgroup " + at->path().string(), "cgroup " + at->path().string());
    }
    add_cgroups(at->path().string(), pid, depth - 1, traces);
  }
}

void add_mounts_and_cgroups(Traces& traces) {
  constexpr int cgroup_depth = 8;
  const std::string pid = std::to_string(::getpid());
  for (const Mount& mount : mounts()) {
    if (::geteuid() == 0) {
      traces.emplace("mount " + mount.id, mount.type + " mount at " + mount.point);
    }
    if (mount.type == "cgroup" || mount.type == "cgroup2") {
      add_cgroups(mount.point, pid, cgroup_depth, traces);
    }
  }
}

void add_interfaces(Traces& traces) {
  struct if_nameindex* const all = ::if_nameindex();
  if (all == nullptr) {
    return;
  }
  for (const struct if_nameindex* at = all; at->if_index != 0; ++at) {
    const std::string trace = std::string("network interface ") + at->if_name;
    traces.emplace(trace + "#" + std::to_string(at->if_index), trace);
  }
  ::if_freenameindex(all);
}

void add_temporary_files(Traces& traces) {
  for (const std::string& name : entries(temporary_base())) {
    const std::string trace = "temporary file " + temporary_base() + "/" + name;
    traces.emplace(trace, trace);
  }
}

bool leads_to(std::string_view trace, std::string_view target) {
  return trace.starts_with("descriptor ") && trace.ends_with(std::string(arrow).append(target));
}

}  // namespace

Traces take_traces() {
  Traces traces;
  add_descriptors(traces);
  add_threads_and_children(traces);
  add_stray_processes(traces);
  add_mounts_and_cgroups(traces);
  add_interfaces(traces);
  add_temporary_files(traces);
  return traces;
}

Traces left_behind(const Traces& before, const Traces& after) {
  Traces left;
  std::set_difference(after.begin(), after.end(), before.begin(), before.end(),
                      std::inserter(left, left.end()), after.value_comp());
  for (const Allowance& allowance : allowances) {
    const auto allowed = [&](const Traces::value_type& trace) {
      return leads_to(trace.first, allowance.target);
    };
    if (std::count_if(after.begin(), after.end(), allowed) == 1) {
      std::erase_if(left, allowed);
    }
  }
  return left;
}

void isolate_mounts() noexcept {
  if (::geteuid() == 0 && ::unshare(CLONE_NEWNS) == 0) {
    ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
  }
}

}  // namespace caisson::test
