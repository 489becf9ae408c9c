// ManagedSession: a session of a ManagedSandbox: its execs, its files, its end.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kit/exec.h"
#include "kit/session_table.h"
#include "kit/strand.h"

namespace caisson::kit {

class ManagedSession final : public SandboxSession, public std::enable_shared_from_this<ManagedSession> {
 public:
  ManagedSession(std::shared_ptr<SessionTable> table, SessionRecord record, std::shared_ptr<SessionBox> box,
                 Strand strand);
  ~ManagedSession() override;

  const std::string& id() const noexcept override { return record_.id; }
  const std::string& workspace_path() const noexcept override { return workspace_path_; }
  Awaitable<SandboxSessionInfo> info() override;
  Awaitable<ExecResult> exec(Argv argv, ExecOptions options) override;
  Awaitable<std::unique_ptr<SandboxExecHandle>> exec_start(Argv argv, ExecOptions options) override;
  Awaitable<void> put_file(std::string path, std::string data, FileMode mode) override;
  Awaitable<std::string> get_file(std::string path) override;
  Awaitable<void> touch() override;
  Awaitable<void> destroy() override;
  Awaitable<void> release() override;
  Awaitable<std::unique_ptr<SandboxFileReader>> open_reader(std::string path) override;
  Awaitable<std::unique_ptr<SandboxFileWriter>> open_writer(std::string path, FileMode mode) override;

  const SessionRecord& record() const noexcept { return record_; }
  /// The info of a session that is still listed.
  std::optional<SandboxSessionInfo> listed_info() const;
  /// Ends the session: processes, then resources. Calls that meet here tear down once; a failure throws,
  /// leaves it listed, and the next call tries again. Not cancellable. Whether this call is the one that tore
  /// it down.
  static Awaitable<bool> end(std::shared_ptr<ManagedSession> self, Disposal disposal);
  const Strand& strand() const noexcept { return strand_; }
  /// For a sandbox that closes: begins the end of every exec. Any thread.
  void kill_execs() noexcept;
  /// For a sandbox that closes: the same without an event loop, keeping a persistent workspace.
  void end_blocking() noexcept;

 private:
  void end_processes() noexcept;
  static Awaitable<ExecResult> run_exec(std::shared_ptr<ManagedSession> self, ExecRequest request);
  static Awaitable<std::unique_ptr<SandboxExecHandle>> start_exec(std::shared_ptr<ManagedSession> self,
                                                                  ExecRequest request);
  static Awaitable<bool> tear_down(std::shared_ptr<ManagedSession> self);
  Disposal disposal() const noexcept;
  // The public calls begin on these, which keep the session alive whatever its caller does meanwhile.
  static Awaitable<SandboxSessionInfo> read_info(std::shared_ptr<ManagedSession> self);
  static Awaitable<void> extend(std::shared_ptr<ManagedSession> self);
  static Awaitable<ExecResult> begin_run(std::shared_ptr<ManagedSession> self, Argv argv,
                                         ExecOptions options);
  static Awaitable<std::unique_ptr<SandboxExecHandle>> begin_start(std::shared_ptr<ManagedSession> self,
                                                                   Argv argv, ExecOptions options);
  static Awaitable<void> begin_put(std::shared_ptr<ManagedSession> self, std::string path, std::string data,
                                   FileMode mode);
  static Awaitable<void> end_on_strand(std::shared_ptr<ManagedSession> self, Disposal disposal);
  static Awaitable<void> write_file(std::shared_ptr<ManagedSession> self, std::string path, std::string data,
                                    FileMode mode);
  static Awaitable<std::string> read_file(std::shared_ptr<ManagedSession> self, std::string path);

  ExecRequest request_of(Argv argv, ExecOptions options, bool capture) const;
  std::shared_ptr<Exec> begin_exec(ExecRequest request);
  void exec_over(BootTime deadline);
  void require_live() const;

  const std::shared_ptr<SessionTable> table_;
  const SessionRecord record_;
  const std::string workspace_path_;
  const Strand strand_;

  friend class Transfer;
  friend Awaitable<std::unique_ptr<SandboxFileReader>> begin_read(std::shared_ptr<ManagedSession>,
                                                                  std::string);
  friend Awaitable<std::unique_ptr<SandboxFileWriter>> begin_write(std::shared_ptr<ManagedSession>,
                                                                   std::string, FileMode);
  /// The box, or session_destroyed when it is no more.
  std::shared_ptr<SessionBox> box() const;
  std::vector<std::shared_ptr<Exec>> execs() const;
  void drop_settled();

  // Read by a sandbox that closes, on whatever thread.
  std::atomic<bool> remove_wished_ = false;  // a destroy was asked for: what ends the session carries it out
  mutable std::mutex mutex_;
  std::shared_ptr<SessionBox> box_;
  std::vector<std::shared_ptr<Exec>> execs_;  // running, and over with leftovers

  // On the strand.
  bool ending_ = false;
  bool gone_ = false;
  std::size_t transfers_ = 0;  // file calls under way; a teardown waits for them
  Event change_event_;         // one of the above has changed
};

}  // namespace caisson::kit
