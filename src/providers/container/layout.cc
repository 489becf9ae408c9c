// Opening the provider's directories.
#include "providers/container/layout.h"

#include <sys/stat.h>

#include "caisson/contract/errors.h"
#include "contract/quote.h"
#include "os/beneath.h"
#include "os/files.h"
#include "os/lock.h"
#include "os/self.h"

namespace caisson::container {
namespace {

constexpr mode_t public_mode = 0755;
constexpr mode_t private_mode = 0700;
constexpr const char* probe_name = ".probe";

template <class T>
T require(os::Result<T> result, const std::string& directory, const std::string& what) {
  if (!result) fail_root(directory, what, result.error());
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

// Nobody else is to put anything in the directory; nor to enter it, where it is private.
void require_ours(os::FdRef place, const std::string& directory, bool is_private) {
  const auto is = require(os::status(place), directory, "looking at it");
  if (is.st_uid != os::own_user()) fail_root(directory, "it is another user's", os::error_of(EPERM));
  if ((is.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    fail_root(directory, "others may write in it", os::error_of(EPERM));
  if (is_private && (is.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    fail_root(directory, "others may look into it", os::error_of(EPERM));
}

// One that is there may be of another's making.
os::Fd open_private(os::FdRef parent, const std::string& parent_path, const std::string& name) {
  const std::string path = parent_path + "/" + name;
  os::Fd directory = require(os::ensure_directory_at(parent, name, private_mode), path, "making it");
  require_ours(directory, path, true);
  return directory;
}

// Tried by doing: a read-only or full file system shows only when something is written.
void require_writable(os::FdRef place, const std::string& directory) {
  require(os::unlink_at(place, probe_name), directory, "writing in it");
  // One that somebody else holds shows it just as well.
  const auto lock =
      require(os::try_lock(place, probe_name, os::LockKind::exclusive), directory, "writing in it");
  require(os::unlink_at(place, probe_name), directory, "writing in it");
}

os::Fd open_runtime_directory(std::string& path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos || slash + 1 == path.size() || path.find('\0') != std::string::npos)
    fail_root(path, "opening it", os::error_of(EINVAL));
  const std::string name = path.substr(slash + 1);
  const std::string parent = require(
      os::real_directory(slash == 0 ? "/" : path.substr(0, slash), public_mode), path, "opening its parent");
  const os::Fd above = require(os::open_directory(parent), path, "opening its parent");
  os::Fd directory = require(os::ensure_directory_at(above, name, os::is_root() ? public_mode : private_mode),
                             path, "opening it");
  require_ours(directory, path, false);
  path = (parent == "/" ? "" : parent) + "/" + name;
  return directory;
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
  layout.root = require(os::real_directory(root, public_mode), root, "opening it");
  const os::Fd top = require(os::open_directory(layout.root), root, "opening it");
  require_ours(top, root, false);
  layout.volumes = open_private(top, layout.root, "volumes");
  layout.keys = open_private(layout.volumes, layout.root + "/volumes", ".keys");
  layout.ids = open_private(top, layout.root, "ids");
  layout.runtime_directory = runtime_directory;
  const os::Fd runtime = open_runtime_directory(layout.runtime_directory);
  layout.sessions = open_private(runtime, layout.runtime_directory, "sessions");
  require_writable(layout.ids, layout.root);
  require_writable(layout.sessions, layout.runtime_directory);
  return layout;
}

kit::WorkspaceStore Layout::store() const { return {root + "/volumes", volumes, volumes, keys, fail_root}; }

}  // namespace caisson::container
