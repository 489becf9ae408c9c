// SessionTable: the ledger of a sandbox's live sessions and their deadlines, in memory (S-20 to S-28).
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "caisson/kit/managed_sandbox.h"
#include "kit/descriptor_gate.h"

namespace caisson::kit {

class ManagedSession;

/// What the table asks of its provider; the calls of ManagedSandbox that only it may make.
struct ProviderHooks {
  std::function<void(const SandboxSessionSpec&)> check_enforceable;
  std::function<std::string(const SandboxSessionSpec&)> new_session_id;
  std::function<Awaitable<std::shared_ptr<SessionBox>>(const SessionRecord&)> create_resources;
  std::function<Awaitable<void>(const SessionRecord&, std::shared_ptr<SessionBox>, Disposal)>
      destroy_resources;
};

/// Every decision about a session's life is made here, under one mutex and in one step, so that a touch, an
/// exec, a reap and a destroy that race are decided once (S-23). Holds no coroutine; thread-safe.
class SessionTable {
 public:
  SessionTable(ManagedOptions options, ProviderHooks hooks);
  ~SessionTable();

  const ManagedOptions& options() const noexcept { return options_; }
  const ProviderHooks& hooks() const noexcept { return hooks_; }
  const std::shared_ptr<DescriptorGate>& gate() const noexcept { return gate_; }

  void bind_policy(SandboxPolicy policy);
  std::optional<SandboxPolicy> policy() const;

  /// Lists a new session with its first deadline; its longest life counts from `created`. False once the
  /// table is closed.
  bool add(std::shared_ptr<ManagedSession> session, BootTime created);
  /// A session that takes calls, or SandboxSessionNotFoundError.
  std::shared_ptr<ManagedSession> find_live(const std::string& id) const;
  /// A listed session, in whatever phase, or null.
  std::shared_ptr<ManagedSession> find(const std::string& id) const;
  /// Every listed session in ledger order (created_at, then id).
  std::vector<std::shared_ptr<ManagedSession>> all() const;

  // Each of these is one decision: false when the session takes no calls any more.
  bool touch(const std::string& id);
  /// An exec with that deadline begins or ends; the session's deadline moves either way.
  bool exec_begins(const std::string& id, BootTime deadline);
  void exec_ends(const std::string& id, BootTime deadline);
  bool is_live(const std::string& id) const;
  /// From here on the session takes no calls.
  void begin_end(const std::string& id);
  /// The sessions to reap now, in ledger order: past their deadline, or left over from a teardown that
  /// failed. They take no calls any more.
  std::vector<std::shared_ptr<ManagedSession>> begin_reap();
  /// The session is gone.
  void remove(const std::string& id);

  /// The session's deadline, shown in UTC; nothing when it is not listed.
  std::optional<UtcTime> expires_at(const std::string& id) const;
  /// The point past which no exec of the session may run (S-22).
  std::optional<BootTime> end_of_life(const std::string& id) const;

  /// Closes the table and the provider behind it to everybody, waits for the provider's calls under way while
  /// the executor still runs anything, and gives back the sessions that were listed.
  std::vector<std::shared_ptr<ManagedSession>> close();

  bool closed() const;
  /// Throws SandboxError (unavailable) in a fork of the process that opened the sandbox: threads, processes
  /// and records are its parent's.
  void require_own_process() const;

  /// A call of the provider, for as long as it is under way: a sandbox that closes waits for those. Throws
  /// session_destroyed once the table is closed, for the provider is then no more.
  class ProviderCall {
   public:
    explicit ProviderCall(std::shared_ptr<SessionTable> table);
    ~ProviderCall();
    ProviderCall(const ProviderCall&) = delete;
    ProviderCall& operator=(const ProviderCall&) = delete;

   private:
    std::shared_ptr<SessionTable> table_;
  };

 private:
  struct Entry {
    std::shared_ptr<ManagedSession> session;
    bool live = true;
    BootTime created;
    BootTime expires;
    std::chrono::nanoseconds utc_offset;  // of UTC from boot time, when `expires` was set
    std::multiset<BootTime> exec_deadlines;
  };
  void extend(Entry& entry);
  std::chrono::nanoseconds utc_offset() const;
  std::optional<BootTime> end_of_life(const Entry& entry) const;

  const ManagedOptions options_;
  const ProviderHooks hooks_;
  const pid_t owner_;
  const std::shared_ptr<DescriptorGate> gate_ = std::make_shared<DescriptorGate>();

  mutable std::mutex mutex_;
  std::optional<SandboxPolicy> policy_;
  bool closed_ = false;
  std::size_t provider_calls_ = 0;
  std::condition_variable provider_idle_;
  std::map<std::string, Entry> entries_;
};

}  // namespace caisson::kit
