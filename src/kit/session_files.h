// A session's open files: a provider's reader or writer that knows when its session has ended.
#pragma once

#include <memory>

#include "kit/managed_session.h"

namespace caisson::kit {

/// A file call under way, on the session's strand: a teardown waits for it, and its end moves the deadline
/// (S-20).
class Transfer {
 public:
  /// Throws session_destroyed when the session takes no calls.
  explicit Transfer(std::shared_ptr<ManagedSession> session);
  ~Transfer();
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

 private:
  std::shared_ptr<ManagedSession> session_;
};

Awaitable<std::unique_ptr<SandboxFileReader>> begin_read(std::shared_ptr<ManagedSession> session,
                                                         std::string path);
Awaitable<std::unique_ptr<SandboxFileWriter>> begin_write(std::shared_ptr<ManagedSession> session,
                                                          std::string path, FileMode mode);

}  // namespace caisson::kit
