// Caisson: disposable sandbox sessions behind one contract. The one header to include.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "caisson/contract/json.h"
#include "caisson/contract/sandbox.h"
#include "caisson/contract/text.h"
#include "caisson/contract/validate.h"
#include "caisson/kit/clock.h"
#include "caisson/kit/host.h"
#include "caisson/kit/log.h"
#include "caisson/kit/reaper.h"
#include "caisson/kit/settings.h"
#include "caisson/version.h"

namespace caisson {

/// How to open a sandbox. Default: everything from the operator's settings, silent, the system's clock.
struct OpenOptions {
  std::optional<SandboxPolicy> policy = std::nullopt;  ///< Unset: from TAI_MCP_SANDBOX_* (S-81).
  kit::SettingSource settings = {};                    ///< Empty: the process's environment.
  std::shared_ptr<kit::Clock> clock = {};              ///< Empty: the system's.
  kit::Log log = {};
  kit::TreeKill tree_kill = kit::TreeKill::automatic;  ///< Of the local provider.
};

/// Opens the provider called `name` ("container" or "local"), its policy bound. Unknown names throw
/// SandboxUnavailableError listing the known ones; bad settings throw bad_setting, a root that cannot be used
/// root_unusable, and what this machine lacks unavailable.
///
/// All coroutines of the sandbox run on `executor`, whose context must outlive it and whatever came from it.
/// Blocking calls run on threads it starts: for spawns one for each core and at least two, for files two, for
/// making and removing sessions two, and one that clears up. This call itself blocks: it makes what is
/// missing of the root and recovers what dead owners left, waiting at most two seconds for the processes of
/// each; call it before the loop runs, or on a thread of its own. Nobody reaps unless `kit::run_reaper` runs.
/// Process-wide it touches the soft descriptor limit, raised to the hard one, and nothing else. Not to be
/// used across a fork: in the child every call throws SandboxError (unavailable).
std::shared_ptr<Sandbox> open(boost::asio::any_io_executor executor, std::string_view name,
                              OpenOptions options = {});

/// The same objects for callers without an event loop: every call blocks the calling thread until it is done.
/// Calls may run at the same time on several threads; destroying or moving an object while another thread is
/// in a call on it is not one of them. The thread that runs the event loop also runs OpenOptions::log, from
/// where a call here would wait for itself: such a call, and any on an object that was moved from, throws
/// std::logic_error.
///
/// Objects may outlive the Sandbox they came from: its end releases every session, and calls on them are then
/// session_destroyed. After a fork every call in the child throws SandboxError (unavailable), and the child's
/// copies of the objects end without touching what they name.
namespace blocking {

class Engine;
class Exec;

/// The output cursor of an exec, see SandboxOutput. Not to be used after its ExecHandle (std::logic_error),
/// but a call that waits in another thread when the handle is destroyed is ended by the kill.
class Output {
 public:
  /// The next chunk, or the exit; nullopt after it.
  std::optional<SandboxStreamItem> next();

 private:
  friend class ExecHandle;
  Output(std::shared_ptr<Engine> engine, std::weak_ptr<Exec> exec) noexcept;
  std::shared_ptr<Engine> engine_;
  std::weak_ptr<Exec> exec_;
};

/// Owns an interactive exec: destroying it kills the exec's tree.
class ExecHandle {
 public:
  ExecHandle(ExecHandle&&) noexcept;
  ExecHandle& operator=(ExecHandle&&) noexcept;
  ~ExecHandle();
  void write_stdin(std::string data);
  void close_stdin();
  Output output();
  void kill();
  void signal(int number);
  void resize(TtySize size);

 private:
  friend class Session;
  ExecHandle(std::shared_ptr<Engine> engine, std::shared_ptr<Exec> exec) noexcept;
  void end() noexcept;
  std::shared_ptr<Engine> engine_;
  std::shared_ptr<Exec> exec_;
};

/// A session. The one that create_session gave owns it and releases it at the end of its life (S-32):
/// processes and scratch gone, a persistent workspace kept. Those from get_session only look on.
class Session {
 public:
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  const std::string& id() const noexcept;
  const std::string& workspace_path() const noexcept;
  SandboxSessionInfo info();
  ExecResult exec(Argv argv, ExecOptions options);
  ExecHandle exec_start(Argv argv, ExecOptions options);
  void put_file(std::string path, std::string data, FileMode mode = std::nullopt);
  std::string get_file(std::string path);
  /// Streams between a file of the host and one of the workspace, without a size cap, in pieces of 1 MiB.
  /// Host-side failures are SandboxError too: file_missing, not_a_regular_file (a directory), internal.
  /// get_file_to replaces a regular file atomically, through a temporary beside it, keeping its permission
  /// bits; it writes to what is neither file nor directory (a FIFO, /dev/null) as it is.
  void put_file_from(const std::string& host_path, std::string path, FileMode mode = std::nullopt);
  void get_file_to(std::string path, const std::string& host_path);
  void touch();
  void destroy();
  void release();
  /// Gives up ownership: the session lives on until it is destroyed, reaped, or its sandbox closes.
  void detach() noexcept;

 private:
  friend class Sandbox;
  Session(std::shared_ptr<Engine> engine, std::shared_ptr<SandboxSession> session, bool owned) noexcept;
  void end() noexcept;
  std::shared_ptr<Engine> engine_;
  std::shared_ptr<SandboxSession> session_;
  bool owned_ = false;
};

/// A provider, with an event loop thread of its own on which its reaper runs too, at the provider's interval.
class Sandbox {
 public:
  Sandbox(Sandbox&&) noexcept;
  Sandbox& operator=(Sandbox&&) noexcept;
  ~Sandbox();

  Session create_session(SandboxSessionSpec spec);
  Session get_session(std::string session_id);
  std::vector<SandboxSessionInfo> list_sessions();
  void destroy_session(std::string session_id);
  std::vector<std::string> reap();
  std::string_view name() const noexcept;

 private:
  friend class Engine;
  explicit Sandbox(std::shared_ptr<Engine> engine) noexcept;
  void end() noexcept;
  std::shared_ptr<Engine> engine_;
};

/// As caisson::open, with one thread more, which runs the event loop.
Sandbox open(std::string_view name, OpenOptions options = {});

}  // namespace blocking
}  // namespace caisson
