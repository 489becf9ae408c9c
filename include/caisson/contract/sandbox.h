// The abstract classes of the contract: a provider, its sessions, and their running commands.
#pragma once

#include <boost/system/system_error.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "caisson/contract/awaitable.h"
#include "caisson/contract/errors.h"
#include "caisson/contract/models.h"
#include "caisson/contract/policy.h"

namespace caisson {

/// The interleaved output of an interactive exec (S-60): chunks, then exactly one SandboxStreamExit, then
/// nothing.
class SandboxOutput {
 public:
  virtual ~SandboxOutput();
  /// The next item; nullopt after the exit item. Throws SandboxExecTimeoutError when the exec was killed at
  /// its deadline, session_destroyed when its session was; after an error every further call repeats it. A
  /// second call while one waits is output_busy. Cancelling a call loses nothing: the next one continues.
  virtual Awaitable<std::optional<SandboxStreamItem>> next() = 0;
};

/// Thrown by a cancelled write_stdin: `operation_aborted`, with how much had gone by then.
class SandboxWriteCancelled : public boost::system::system_error {
 public:
  explicit SandboxWriteCancelled(std::size_t written);
  ~SandboxWriteCancelled() override;
  /// Bytes of the cancelled call that the pipe took.
  std::size_t written() const noexcept { return written_; }

 private:
  std::size_t written_;
};

/// A live interactive exec. Every method may be called while others run, `output` iteration included.
/// Dropping the handle kills the exec's tree (S-65); after the leader has exited dropping it touches nothing.
class SandboxExecHandle {
 public:
  virtual ~SandboxExecHandle();

  /// Delivers `data` whole and in order against other calls (S-62). stdin_closed after exit, kill or
  /// close_stdin; SandboxWriteCancelled when cancelled.
  virtual Awaitable<void> write_stdin(std::string data) = 0;
  /// End-of-file after what was written before. Idempotent. With a tty: the terminal's end-of-file character.
  virtual Awaitable<void> close_stdin() = 0;
  /// The exec's one output cursor; lives as long as the handle. Taking it again continues.
  virtual SandboxOutput& output() = 0;
  /// Ends every process of the exec's tree, leftover descendants of an exited leader too, and returns when
  /// they are gone (at most 2 s later: then `internal`, saying so). Idempotent.
  virtual Awaitable<void> kill() = 0;

  // Beyond the contract (S-64):
  /// Sends a signal (signal(7)) to the leader; nothing after it has exited. invalid_argument for a number
  /// that is no signal.
  virtual Awaitable<void> signal(int number) = 0;
  /// Sets the terminal's size; invalid_argument for an exec without one.
  virtual Awaitable<void> resize(TtySize size) = 0;
};

/// Reads a workspace file piece by piece, without a size cap (S-72). What was opened stays what is read,
/// whatever is renamed over it meanwhile.
class SandboxFileReader {
 public:
  virtual ~SandboxFileReader();
  /// Up to `max_bytes` > 0 bytes; empty at the end.
  virtual Awaitable<std::string> read(std::size_t max_bytes) = 0;
  /// The file's size in bytes when it was opened.
  virtual std::uint64_t size() const noexcept = 0;
};

/// Writes a workspace file piece by piece, without a size cap. Nothing is visible before commit(); dropped
/// without it, nothing was changed but missing parents, which stay.
class SandboxFileWriter {
 public:
  virtual ~SandboxFileWriter();
  virtual Awaitable<void> write(std::string data) = 0;
  /// Replaces the target atomically (S-71). Once.
  virtual Awaitable<void> commit() = 0;
};

/// Permission bits for put_file: those of an existing target, else 0644, unless given.
using FileMode = std::optional<unsigned>;

/// One live session: the unit a consumer runs code in. Shared freely between coroutines and threads.
class SandboxSession {
 public:
  virtual ~SandboxSession();

  virtual const std::string& id() const noexcept = 0;
  /// Absolute, in the session's own view; anchors relative paths and cwd.
  virtual const std::string& workspace_path() const noexcept = 0;
  virtual Awaitable<SandboxSessionInfo> info() = 0;

  /// Runs a command to completion (S-40 to S-52). A command that ran and failed is a result, not an error.
  virtual Awaitable<ExecResult> exec(Argv argv, ExecOptions options) = 0;
  /// Starts an interactive command (S-60 to S-65).
  virtual Awaitable<std::unique_ptr<SandboxExecHandle>> exec_start(Argv argv, ExecOptions options) = 0;

  /// Writes `data` to `path`, atomically, making missing parents (S-70, S-71). too_large over the provider's
  /// max_file_bytes: stream such files.
  virtual Awaitable<void> put_file(std::string path, std::string data, FileMode mode = std::nullopt) = 0;
  /// Reads a regular file (S-72). file_missing on a miss; too_large over max_file_bytes.
  virtual Awaitable<std::string> get_file(std::string path) = 0;

  /// Extends `expires_at` by the session's ttl.
  virtual Awaitable<void> touch() = 0;
  /// Tears the session down, workspace included, even a persistent one (S-24). Idempotent.
  virtual Awaitable<void> destroy() = 0;

  // Beyond the contract:
  /// Ends the session the way a reap would: a persistent workspace stays (S-32). Idempotent.
  virtual Awaitable<void> release() = 0;
  virtual Awaitable<std::unique_ptr<SandboxFileReader>> open_reader(std::string path) = 0;
  virtual Awaitable<std::unique_ptr<SandboxFileWriter>> open_writer(std::string path,
                                                                    FileMode mode = std::nullopt) = 0;
};

/// A sandbox provider. Thread-safe. Sessions and handles may outlive their last user, not the provider: calls
/// on them after its end are session_destroyed.
class Sandbox {
 public:
  virtual ~Sandbox();

  /// A session from `spec`, or SandboxSpecRejectedError and nothing left behind (S-12 to S-16, S-27).
  virtual Awaitable<std::shared_ptr<SandboxSession>> create_session(SandboxSessionSpec spec) = 0;
  /// A live session by id, or SandboxSessionNotFoundError.
  virtual Awaitable<std::shared_ptr<SandboxSession>> get_session(std::string session_id) = 0;
  /// Every live session, oldest first.
  virtual Awaitable<std::vector<SandboxSessionInfo>> list_sessions() = 0;
  /// Tears a session down (S-24); unknown ids are a no-op.
  virtual Awaitable<void> destroy_session(std::string session_id) = 0;
  /// Destroys every session past its expires_at, keeping persistent workspaces; the ids destroyed (S-21).
  virtual Awaitable<std::vector<std::string>> reap() = 0;

  // Beyond the contract:
  /// The provider's name, e.g. "local".
  virtual std::string_view name() const noexcept = 0;
  /// Binds the operator's policy; create_session before that is a programming error (S-11).
  virtual void bind_policy(SandboxPolicy policy) = 0;
};

}  // namespace caisson
