// BoxProcess: the first process of one box, and the connection to it (D-5, S-102).
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "os/process.h"
#include "providers/container/container_core.h"
#include "providers/container/host_image.h"
#include "providers/container/init_client.h"

namespace caisson::container {

/// A started caisson-init in namespaces of its own. It is process 1 of its PID namespace: with it the kernel
/// ends every process of the box. It ends by itself when its host's end of the connection is gone, which is
/// so at the latest when the host's process ends.
///
/// Thread-safe. Destroying it kills the box and leaves the reaping to the core's cleaner.
class BoxProcess {
 public:
  /// Starts one with the slot's ids, in its cgroup's place for init if it has a cgroup. Blocking, some ms.
  /// Throws SandboxError: unavailable where namespaces or ids cannot be had, saying what is missing;
  /// kit::DescriptorsExhausted.
  static std::shared_ptr<BoxProcess> spawn(std::shared_ptr<ContainerCore> core, const UidSlot& slot,
                                           std::shared_ptr<BoxCgroup> cgroup);
  /// One that was started otherwise: a child of this process, and the host's end of its connection.
  static std::shared_ptr<BoxProcess> adopt(std::shared_ptr<ContainerCore> core, os::Process process,
                                           os::Fd socket);
  ~BoxProcess();
  BoxProcess(const BoxProcess&) = delete;
  BoxProcess& operator=(const BoxProcess&) = delete;

  /// Its user namespace, for idmapped mounts.
  os::Result<os::Fd> user_namespace() const noexcept;
  pid_t pid() const noexcept { return process_.pid(); }  ///< For messages.

  /// Connects and has the box built, in its cgroup; once. A box that could not be built is killed, and the
  /// SandboxError says what failed. All later work of the connection is done on `executor`.
  static Awaitable<void> build(std::shared_ptr<BoxProcess> self, boost::asio::any_io_executor executor,
                               PlannedBox planned);

  /// A request to init, as InitClient::call(). An init that does not answer in time costs the box its life.
  static Awaitable<InitResult<InitAnswer>> ask(std::shared_ptr<BoxProcess> self, init::Request request,
                                               std::vector<os::Fd> descriptors);
  /// As InitClient::tell().
  void tell(init::Request request);

  /// SIGKILL to the whole box, whatever init does. The first `why` is remembered. Never blocks.
  void kill(const std::string& why) noexcept;
  /// Whether no process of the box is left.
  bool ended() noexcept;
  /// Waits for that, blocking; whether it came to be in time.
  bool wait_ended(std::chrono::milliseconds patience) noexcept;
  /// Kills it, waits for that and removes its cgroup, blocking. Throws removal_failed where one of them has
  /// not come about after `patience`; it may be called again.
  void remove(std::chrono::milliseconds patience);
  /// Why the box has ended or is about to; empty while it lives.
  std::string end_cause() const;

  const std::shared_ptr<ContainerCore>& core() const noexcept { return core_; }
  /// Null: it has none.
  const std::shared_ptr<BoxCgroup>& cgroup() const noexcept { return cgroup_; }

 private:
  BoxProcess(std::shared_ptr<ContainerCore> core, os::Process process, os::Fd socket,
             std::shared_ptr<BoxCgroup> cgroup);

  const std::shared_ptr<ContainerCore> core_;
  const std::shared_ptr<BoxCgroup> cgroup_;
  os::Process process_;  // Its pidfd is valid until the destructor; reaped once, under the mutex.
  os::Fd socket_;        // Until it is connected.
  std::unique_ptr<InitClient> client_;  // Made by build(), which comes before every request.
  mutable std::mutex mutex_;
  bool reaped_ = false;
  std::string cause_;
};

}  // namespace caisson::container
