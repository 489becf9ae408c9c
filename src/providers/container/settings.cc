// Where the container provider's settings come from, and their defaults.
#include "caisson/providers/container.h"

#include <vector>

#include "caisson/contract/errors.h"
#include "contract/quote.h"
#include "os/beneath.h"
#include "os/files.h"
#include "os/identity.h"
#include "os/self.h"
#include "os/spawn.h"

namespace caisson::container {
namespace {

constexpr std::uint64_t mebibyte = 1ULL << 20U;
constexpr std::int64_t most_mebibytes = 1LL << 30;
// The first slot neither holds ids that systems give out themselves nor one beyond the last id.
constexpr std::int64_t least_base = 65536;
constexpr std::int64_t most_base = 0xffff0000LL - 65536;

[[noreturn]] void refuse(const std::string& name, const std::string& message) {
  throw SandboxError(ErrorCode::bad_setting, name + " " + message, name);
}

std::string absolute(const kit::SettingSource& source, const std::string& name, const std::string& fallback) {
  std::string path = kit::string_setting(source, name, fallback);
  if (!path.starts_with("/")) refuse(name, "must be an absolute path, not " + quote(path));
  return path;
}

// An absolute directory that the environment names; others are ignored, as the XDG specification asks.
std::string directory_of(const kit::SettingSource& source, std::string_view name) {
  const auto value = source(name);
  return value && value->starts_with("/") ? *value : std::string();
}

// The user database's home: an environment's HOME may be another user's (sudo).
std::string default_root(const kit::SettingSource& source) {
  if (os::is_root()) return "/var/lib/caisson";
  if (const std::string data = directory_of(source, "XDG_DATA_HOME"); !data.empty()) return data + "/caisson";
  const auto home = os::home_directory();
  if (!home) refuse("CAISSON_ROOT", "has no default, for this user has no home directory: set it");
  return *home + "/.local/share/caisson";
}

std::string default_runtime_directory(const kit::SettingSource& source) {
  if (os::is_root()) return "/run/caisson";
  if (const std::string run = directory_of(source, "XDG_RUNTIME_DIR"); !run.empty()) return run + "/caisson";
  const std::string temporary = directory_of(source, "TMPDIR");
  return (temporary.empty() ? "/tmp" : temporary) + "/caisson-" + std::to_string(os::own_user());
}

std::string parent_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

// Beside this program in an installation or a build; else beside the library that this code is in; else where
// systems install such programs.
std::string default_init() {
  const auto self = os::open_directory("/proc/self");
  const auto program = self ? os::read_link_at(*self, "exe") : os::Result<std::string>(self.error());
  if (!program) refuse("CAISSON_INIT", "has no default, for this program cannot tell its own path: set it");
  const std::string directory = parent_of(*program);
  std::vector<std::string> candidates{parent_of(directory) + "/libexec", directory};
  // lib, or lib/<triplet>.
  const std::string library = parent_of(os::own_object_path());
  for (const std::string& above : {parent_of(library), parent_of(parent_of(library))})
    candidates.push_back(above + "/libexec");
  candidates.insert(candidates.end(), {"/usr/local/libexec", "/usr/libexec"});
  for (const std::string& candidate : candidates) {
    if (os::candidate_exists({}, candidate + "/caisson-init")) return candidate + "/caisson-init";
  }
  return candidates.front() + "/caisson-init";
}

std::uint32_t count(const kit::SettingSource& source, const std::string& name, std::uint32_t fallback,
                    std::int64_t least, std::int64_t most) {
  return static_cast<std::uint32_t>(kit::integer_setting(source, name, fallback, least, most));
}

std::uint64_t size(const kit::SettingSource& source, const std::string& name, std::uint64_t fallback) {
  const auto mebibytes = static_cast<std::int64_t>(fallback / mebibyte);
  return static_cast<std::uint64_t>(kit::integer_setting(source, name, mebibytes, 1, most_mebibytes)) *
         mebibyte;
}

}  // namespace

ContainerSettings ContainerSettings::from(const kit::SettingSource& source) {
  const std::string prefix = "CAISSON_CONTAINER_";
  ContainerSettings settings;
  // A default is not looked for where a value is given: it may not exist.
  settings.root = source("CAISSON_ROOT") ? absolute(source, "CAISSON_ROOT", {}) : default_root(source);
  settings.runtime_directory = absolute(source, "CAISSON_RUNTIME_DIR", default_runtime_directory(source));
  settings.init_program = source("CAISSON_INIT") ? absolute(source, "CAISSON_INIT", {}) : default_init();

  settings.uid_base = count(source, prefix + "UID_BASE", settings.uid_base, least_base, most_base);
  settings.uids_per_box = count(source, prefix + "UIDS_PER_BOX", settings.uids_per_box, 2, 65536);
  settings.pool_size = count(source, prefix + "POOL_SIZE", settings.pool_size, 0, 1024);
  settings.unbounded_disk = kit::bool_setting(source, prefix + "UNBOUNDED_DISK", settings.unbounded_disk);
  const std::string capabilities = kit::string_setting(source, prefix + "CAPABILITIES", "default");
  if (capabilities != "default" && capabilities != "none")
    refuse(prefix + "CAPABILITIES", "must be default or none, not " + quote(capabilities));
  settings.capabilities = capabilities == "default";
  settings.upper_bytes = size(source, prefix + "UPPER_MB", settings.upper_bytes);
  settings.workspace_bytes = size(source, prefix + "WORKSPACE_MB", settings.workspace_bytes);
  settings.tmp_bytes = size(source, prefix + "TMP_MB", settings.tmp_bytes);
  settings.shm_bytes = size(source, prefix + "SHM_MB", settings.shm_bytes);
  // pid_max is at most 2^22 (proc_sys_kernel(5)).
  settings.pids = count(source, prefix + "PIDS", settings.pids, 1, 1 << 22);
  settings.dispatch = kit::DispatchSettings::from(source, prefix);
  return settings;
}

}  // namespace caisson::container
