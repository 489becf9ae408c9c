// ManagedSandbox: the base that a provider extends; everything providers share, written once.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <memory>
#include <string>
#include <vector>

#include "caisson/kit/clock.h"
#include "caisson/kit/log.h"
#include "caisson/kit/provider.h"
#include "caisson/kit/settings.h"

namespace caisson::kit {

/// What a ManagedSandbox runs with.
struct ManagedOptions {
  boost::asio::any_io_executor
      executor;  ///< Runs all of the sandbox's coroutines; its context outlives the sandbox.
  DispatchSettings dispatch = {};
  std::shared_ptr<Clock> clock = system_clock();
  Log log = {};
};

/// A session as the kit hands it to the provider: the effective spec (S-14: concrete isolation, reserved
/// labels added), its id and times.
struct SessionRecord {
  std::string id;
  SandboxSessionSpec spec;
  UtcTime created_at;

  SessionRecord clone() const { return {id, spec.clone(), created_at}; }
};

class SessionTable;

/// A provider's base. It derives, implements the primitives, and calls close() first thing in its destructor.
///
/// Threads: coroutines run on `options.executor`, each session on a strand of its own; the primitives are
/// called on those and must not block (a Workers is for that: Host::workers(), or one of its own). Every
/// public method may be called from any thread.
class ManagedSandbox : public Sandbox {
 public:
  explicit ManagedSandbox(ManagedOptions options);
  ~ManagedSandbox() override;

  Awaitable<std::shared_ptr<SandboxSession>> create_session(SandboxSessionSpec spec) final;
  Awaitable<std::shared_ptr<SandboxSession>> get_session(std::string session_id) final;
  Awaitable<std::vector<SandboxSessionInfo>> list_sessions() final;
  Awaitable<void> destroy_session(std::string session_id) final;
  Awaitable<std::vector<std::string>> reap() final;
  void bind_policy(SandboxPolicy policy) final;

  /// Beyond the contract: ends a session the way a reap would (S-32); unknown ids are a no-op.
  Awaitable<void> release_session(std::string session_id);
  /// The bound policy, if any.
  std::optional<SandboxPolicy> policy() const;
  const DispatchSettings& dispatch() const noexcept;
  const std::shared_ptr<Clock>& clock() const noexcept;
  const Log& log() const noexcept;

  /// Removes what dead owners left behind (S-29); one descriptor for each thing handled. A provider calls it
  /// when it opens.
  virtual Awaitable<std::vector<std::string>> recover_orphans() = 0;

 protected:
  /// Throws SandboxSpecRejectedError (not_enforceable, use reject()) for what this provider cannot enforce
  /// (S-15). Called before any resource exists, with the effective spec.
  virtual void check_enforceable(const SandboxSessionSpec& spec) const = 0;
  /// The id of a session that is about to be created: 32 random lowercase hex digits (S-28) that none had
  /// before. For a provider that makes what sessions need ahead of them, and gave it its id then.
  /// create_resources() follows, unless the caller gives up.
  virtual std::string new_session_id(const SandboxSessionSpec& spec);
  /// Makes what a session needs; on failure nothing is left (S-27).
  virtual Awaitable<std::shared_ptr<SessionBox>> create_resources(const SessionRecord& record) = 0;
  /// Removes it again; called once the session's processes are gone, again after a failure, and with
  /// remove_workspace after it succeeded with keep_persistent, when a destroy came meanwhile: so it is
  /// idempotent. Failures are typed (removal_failed) and leave the session listed.
  virtual Awaitable<void> destroy_resources(const SessionRecord& record, std::shared_ptr<SessionBox> box,
                                            Disposal disposal) = 0;

  /// Releases every session and waits for it, blocking, whether or not the executor still runs: two seconds
  /// at most for all their killed processes, and as long as their removal takes. A derived destructor calls
  /// it while the primitives can still be called. Idempotent.
  void close() noexcept;

  /// Starts work of the provider's own on the executor, which close() waits for as for a call under way;
  /// nothing once the sandbox is closed. What it throws is logged: `what` was being done.
  void run_in_background(Awaitable<void> work, const char* what);

  boost::asio::any_io_executor executor() const;
  [[noreturn]] static void reject(const std::string& facet);

 private:
  std::shared_ptr<SessionTable> table_;
};

}  // namespace caisson::kit
