// HostCore: what the boxes and exec trees of one Host share, and the thread that clears up behind them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "caisson/kit/host.h"
#include "os/cgroup.h"
#include "os/process.h"

namespace caisson::kit {

/// Waits for killed processes nobody else waits for, and keeps the cgroup pool in order, on a thread of its
/// own. All but the constructor and destructor are non-blocking and thread-safe.
class HostCleaner {
 public:
  /// `pool` may be null; it outlives this.
  explicit HostCleaner(os::CgroupLeafPool* pool);
  /// Waits at most two seconds for what is left: it was all killed.
  ~HostCleaner();
  HostCleaner(const HostCleaner&) = delete;
  HostCleaner& operator=(const HostCleaner&) = delete;

  /// Reaps the process once it has ended, and gives its leaf back then.
  void take(os::Process ending, std::optional<os::CgroupLeaf> leaf) noexcept;
  /// Gives a leaf back whose leader was reaped.
  void recycle(os::CgroupLeaf leaf) noexcept;

 private:
  struct Ending {
    os::Process process;
    std::optional<os::CgroupLeaf> leaf;
  };
  void work();
  void tidy_soon() noexcept;

  os::CgroupLeafPool* pool_;
  std::mutex mutex_;
  std::condition_variable news_;
  std::vector<Ending> arrived_;
  bool untidy_ = true;
  bool stopping_ = false;
  std::thread thread_;
};

/// Nothing where there is no log.
void log_to(const Log& log, LogLevel level, const std::string& message);

/// What opening a provider does to the program it is part of: raises its soft descriptor limit to the hard
/// one (S-44), and warns where exits of children would be lost. Throws SandboxError (unavailable) where the
/// kernel lacks a call that Caisson cannot do without.
void prepare_host_program(const Log& log);

class HostCore {
 public:
  /// With a pool every exec gets a cgroup, without one a shim.
  explicit HostCore(std::unique_ptr<os::CgroupLeafPool> pool);
  ~HostCore();
  HostCore(const HostCore&) = delete;
  HostCore& operator=(const HostCore&) = delete;

  os::CgroupLeafPool* pool() const noexcept { return pool_.get(); }
  Workers& spawners() noexcept { return *spawners_; }
  Workers& files() noexcept { return *files_; }
  /// For making and removing sessions: a large removal, or a file system that hangs, holds up no transfer.
  Workers& sessions() noexcept { return *sessions_; }
  HostCleaner& cleaner() noexcept { return *cleaner_; }
  /// Whether this is a fork of the process that opened the Host: it has none of the threads, and the
  /// processes and cgroups are not its own to end.
  bool forked() const noexcept;

 private:
  pid_t owner_;
  std::unique_ptr<os::CgroupLeafPool> pool_;
  std::unique_ptr<HostCleaner> cleaner_;
  std::unique_ptr<Workers> files_;
  std::unique_ptr<Workers> sessions_;
  std::unique_ptr<Workers> spawners_;
};

}  // namespace caisson::kit
