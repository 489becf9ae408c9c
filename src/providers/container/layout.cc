// Opening the provider's directories.
#include "providers/container/layout.h"

#include <sys/stat.h>

#include "caisson/contract/errors.h"
#include "contract/quote.h"
#include "os/beneath.h"
#include "os/clock.h"
#include "os/fault_point.h"
#include "os/files.h"
#include "os/lock.h"
#include "os/self.h"

namespace caisson::container {
namespace {

constexpr mode_t public_mode = 0755;
constexpr mode_t private_mode = 0700;

template <class T>
T require(os::Result<T> result, const std::string& directory, const std::string& what) {
  if (!result) fail_root(directory, what, result.error());
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

// Records of what to kill and remove are read there: nobody else may have a hand in it.
os::Fd require_own(os::Fd directory, const std::string& path) {
  const auto is = require(os::status(directory), path, "looking at it");
  if (is.st_uid != os::own_user()) fail_root(path, "it is another user's", os::error_of(EPERM));
  if ((is.st_mode & (S_IWGRP | S_IWOTH)) != 0) fail_root(path, "others may write in it", os::error_of(EPERM));
  return directory;
}

os::Fd own_directory(os::FdRef above, const std::string& name, mode_t mode, const std::string& path) {
  return require_own(require(os::ensure_directory_at(above, name, mode), path, "opening it"), path);
}

// Tried by doing: a read-only or full file system shows only when something is written. What this process
// leaves should it die here, recovery takes away.
void require_writable(os::FdRef place, const std::string& directory) {
  require(os::fault_point("layout.probe"), directory, "writing in it");
  const std::string probe = kit::lock_name(os::random_hex_id());
  const auto lock = require(os::try_lock(place, probe, os::LockKind::exclusive), directory, "writing in it");
  os::kill_point("layout.probed");
  require(os::unlink_at(place, probe), directory, "writing in it");
}

os::Fd open_runtime_directory(std::string& path) {
  const std::string given = path;
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  const std::size_t slash = path.rfind('/');
  if (!path.starts_with('/') || slash + 1 == path.size())
    fail_root(given, "opening it", os::error_of(EINVAL));
  const std::string name = path.substr(slash + 1);
  const std::string parent = require(
      os::real_directory(slash == 0 ? "/" : path.substr(0, slash), public_mode), given, "opening its parent");
  const os::Fd above = require(os::open_directory(parent), given, "opening its parent");
  path = (parent == "/" ? "" : parent) + "/" + name;
  return own_directory(above, name, os::is_root() ? public_mode : private_mode, given);
}

}  // namespace

void fail_root(const std::string& directory, const std::string& what, const os::Error& error) {
  throw SandboxError(ErrorCode::root_unusable,
                     "the directory " + quote(directory, 300) + " cannot be used: " + what + ": " +
                         error.message() +
                         "; see that this user may write it and that it has space, or set CAISSON_ROOT and "
                         "CAISSON_RUNTIME_DIR to other directories");
}

Layout Layout::open(const std::string& root, const std::string& runtime_directory) {
  Layout layout;
  require(os::fault_point("layout.open"), root, "opening it");
  layout.root = require(os::real_directory(root, public_mode), root, "opening it");
  const os::Fd top = require_own(require(os::open_directory(layout.root), root, "opening it"), root);
  layout.volumes = own_directory(top, "volumes", private_mode, root + "/volumes");
  layout.keys = own_directory(layout.volumes, ".keys", private_mode, root + "/volumes/.keys");
  layout.ids = own_directory(top, "ids", private_mode, root + "/ids");
  layout.runtime_directory = runtime_directory;
  const os::Fd runtime = open_runtime_directory(layout.runtime_directory);
  layout.sessions = own_directory(runtime, "sessions", private_mode, runtime_directory + "/sessions");
  for (const os::FdRef place : {os::FdRef(layout.keys), os::FdRef(layout.ids)}) require_writable(place, root);
  require_writable(layout.sessions, runtime_directory);
  return layout;
}

kit::WorkspaceStore Layout::store() const { return {root + "/volumes", volumes, volumes, keys, fail_root}; }

}  // namespace caisson::container
