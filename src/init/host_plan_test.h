// The plan of a box with image `host`, for tests: this machine's /usr on a tmpfs.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "init/box_plan.h"
#include "os/seccomp_policy.h"

namespace caisson::init {

inline std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// A box of the host's programs, whose user is root without capabilities, as init is.
inline BoxPlan host_plan() {
  namespace fs = std::filesystem;
  constexpr std::uint64_t small = 4 << 20;
  BoxPlan plan;
  plan.hostname = "box";
  MountFlags sealed;
  sealed.read_only = true;
  plan.mounts = {Tmpfs{"/", small, 1024, 0755, sealed},
                 Bind{"/usr", "/usr", true, sealed},
                 Proc{"/proc"},
                 Tmpfs{"/dev", 65536, 64, 0755, {true, true, true, true}},
                 Devpts{"/dev/pts"},
                 Tmpfs{"/dev/shm", small, 1024, 01777, {}},
                 Tmpfs{"/tmp", small, 1024, 01777, {}},
                 Tmpfs{"/run", small, 1024, 0755, {}},
                 Tmpfs{"/root", small, 1024, 0700, {}},
                 Tmpfs{"/var/tmp", small, 1024, 01777, {}},
                 Tmpfs{"/workspace", small, 1024, 0755, {}}};
  for (const std::string path : {"/etc/alternatives", "/etc/ssl/certs"}) {
    if (fs::is_directory(path)) plan.mounts.emplace_back(Bind{path, path, false, sealed});
  }
  for (const std::string path : {"/bin", "/lib", "/lib64", "/sbin"}) {
    if (fs::is_symlink(path)) plan.symlinks.push_back({fs::read_symlink(path), path});
  }
  plan.files = {
      {"/etc/passwd", 0644, "root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000::/workspace:/bin/sh\n"},
      {"/etc/group", 0644, "root:x:0:\ntty:x:5:\nuser:x:1000:\n"},
      {"/etc/nsswitch.conf", 0644, "passwd: files\ngroup: files\nhosts: files dns\n"},
      {"/etc/ld.so.cache", 0644, text_of("/etc/ld.so.cache")},
      {"/etc/localtime", 0644, text_of("/etc/localtime")}};
  plan.symlinks.push_back({"pts/ptmx", "/dev/ptmx"});
  plan.symlinks.push_back({"/proc/self/fd", "/dev/fd"});
  plan.symlinks.push_back({"/proc/self/fd/0", "/dev/stdin"});
  plan.symlinks.push_back({"/proc/self/fd/1", "/dev/stdout"});
  plan.symlinks.push_back({"/proc/self/fd/2", "/dev/stderr"});
  plan.devices = {Device::null, Device::zero, Device::full, Device::random, Device::urandom, Device::tty};
  plan.masked = {"/proc/kcore", "/proc/keys", "/proc/acpi", "/proc/no-such"};
  plan.read_only = {"/proc/sys", "/proc/sysrq-trigger", "/no-such"};
  plan.workspace = "/workspace";
  plan.user.home = "/root";
  plan.user.name = "root";
  plan.rlimits = {{4 /* RLIMIT_CORE */, 0, 1}};
  plan.seccomp = os::compile_seccomp_policy();
  plan.environment = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"};
  return plan;
}

}  // namespace caisson::init
