// The root's directories, and writing records in them.
#include "providers/local/layout.h"

#include "caisson/contract/errors.h"
#include "contract/quote.h"
#include "kit/disk_record.h"
#include "os/beneath.h"
#include "os/clock.h"
#include "os/fault_point.h"
#include "os/files.h"
#include "os/lock.h"

namespace caisson::local {
namespace {

constexpr mode_t public_mode = 0755;
constexpr mode_t private_mode = 0700;

template <class T>
T require(os::Result<T> result, const std::string& root, const std::string& what) {
  if (!result) fail_root(root, what, result.error());
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

const char* advice(const os::Error& error) {
  switch (error.value()) {
    case ENOSPC:
    case EDQUOT:
      return "free some space there";
    case ENOTDIR:
      return "move away what is no directory, or set SANDBOX_LOCAL_ROOT elsewhere";
    case ENOENT:
      return "it was removed, or a symbolic link leads to nothing; open the provider again";
    case EMFILE:
    case ENFILE:
      return "raise the limit of open descriptors, or close some";
    case EIO:
      return "look after its disk";
    case EINVAL:
      return "set SANDBOX_LOCAL_ROOT to an absolute path";
    default:
      return "set SANDBOX_LOCAL_ROOT to a directory that this user may write";
  }
}

}  // namespace

void fail_root(const std::string& root, const std::string& what, const os::Error& error) {
  throw SandboxError(ErrorCode::root_unusable, "the local root " + quote(root, 300) + " cannot be used: " +
                                                   what + ": " + error.message() + "; " + advice(error));
}

Layout Layout::open(const std::string& root) {
  Layout layout;
  require(os::fault_point("open.root"), root, "opening it");
  layout.root = require(os::real_directory(root, public_mode), root, "opening it");
  layout.workspaces = require(os::open_directory(layout.root), root, "opening it");
  layout.ephemeral = require(os::ensure_directory_at(layout.workspaces, ".ephemeral", private_mode), root,
                             "making .ephemeral");
  layout.sidecars = require(os::ensure_directory_at(layout.workspaces, ".tai-sandbox", public_mode), root,
                            "making .tai-sandbox");
  layout.records = require(os::ensure_directory_at(layout.sidecars, ".caisson", private_mode), root,
                           "making .tai-sandbox/.caisson");
  layout.keys = require(os::ensure_directory_at(layout.records, "keys", private_mode), root,
                        "making .tai-sandbox/.caisson/keys");
  // Tried by doing: a read-only or full file system shows only when something is written. A lock without a
  // marker is what recovery takes away, should this process die here.
  const std::string probe = lock_name(os::random_hex_id());
  require(os::fault_point("open.probe"), root, "writing in it");
  const auto lock =
      require(os::try_lock(layout.records, probe, os::LockKind::exclusive), root, "writing in it");
  os::Result<void> gone = os::fault_point("open.probed");
  if (gone) gone = os::unlink_at(layout.records, probe);
  if (!gone) fail_root(root, "writing in it", gone.error());
  return layout;
}

kit::WorkspaceStore Layout::store() const { return {root, workspaces, sidecars, keys, fail_root}; }

void replace_record(const Layout& layout, const std::string& id, os::FdRef directory, const std::string& name,
                    const std::string& text) {
  // Readable whatever the umask: sidecars are other implementations' to read.
  const auto done = kit::replace_disk_record(layout.records, new_name(id), directory, name, text, 0644);
  if (!done) fail_root(layout.root, "writing a record", done.error());
}

}  // namespace caisson::local
