// What a provider implements: three primitives and a box. All else (ledger, TTL, policy, exec pump, clean-up)
// is the kit's.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "caisson/contract/sandbox.h"

namespace caisson::kit {

/// A command as a provider is to start it: checked, environments merged.
struct ExecPlan {
  std::vector<std::string> argv;
  SecretEnv env;               ///< spec.env and the call's; the provider puts its own base under it (S-41).
  std::string cwd;             ///< As S-42 takes it; empty is the workspace.
  bool input = false;          ///< A stdin pipe, else an immediate end-of-file.
  std::optional<TtySize> tty;  ///< A terminal for all three streams.
};

/// The processes of one started exec. Synchronous, non-blocking and thread-safe but for leader().
class ExecTree {
 public:
  /// Ends whatever is left of the tree that nobody asked to leave running; never blocks.
  virtual ~ExecTree();
  /// Readable when try_reap() may have news; the kit waits on it.
  virtual boost::asio::posix::stream_descriptor& leader() = 0;
  /// The leader's end, once it is known; repeats it afterwards.
  virtual std::optional<ExecEnded> try_reap() = 0;
  /// To the leader; nothing once it has ended.
  virtual void signal(int number) noexcept = 0;
  /// SIGKILL to every process of the tree; may be repeated.
  virtual void kill() noexcept = 0;
  /// Whether no process of the tree is left, as far as this mechanism can prove it.
  virtual bool empty() noexcept = 0;
  /// The provider may recycle what the tree is made of. Called once, when empty() was seen true; try_reap()
  /// and empty() may be called afterwards, and answer as before.
  virtual void retire() noexcept {}
};

/// A started exec: its tree, and Caisson's ends of its streams. `in` is closed where the plan asked for no
/// input; with a tty `out` is the terminal's master, `in` a duplicate of it, and `err` is closed.
struct StartedExec {
  std::unique_ptr<ExecTree> tree;
  boost::asio::posix::stream_descriptor in;
  boost::asio::posix::stream_descriptor out;
  boost::asio::posix::stream_descriptor err;
};

/// Thrown by SessionBox::start when descriptors or processes have run out: the kit waits for some to come
/// free and tries again, the exec's timeout counting (S-44).
class DescriptorsExhausted : public SandboxError {
 public:
  DescriptorsExhausted();
  ~DescriptorsExhausted() override;
};

/// What a provider made for one session. The kit calls it on the session's strand, `start` and the openers
/// possibly many at a time, and drops it after destroy_resources.
class SessionBox {
 public:
  virtual ~SessionBox();
  virtual const std::string& workspace_path() const noexcept = 0;
  /// The session ends: SIGKILL to every process of it, where the provider can do that at one stroke, whatever
  /// its execs' own trees can do. Any thread, whether or not an event loop runs; may be called again. Never
  /// blocks.
  virtual void end_processes() noexcept {}
  /// Starts a command; typed errors of S-40 and S-42 when it cannot be. Cancelled when the exec is given up
  /// meanwhile: then it ends what it has begun and throws operation_aborted, or lets it begin, and the kit
  /// kills the tree. The descriptors are bound to `executor`.
  virtual Awaitable<StartedExec> start(std::shared_ptr<const ExecPlan> plan,
                                       boost::asio::any_io_executor executor) = 0;
  virtual Awaitable<std::unique_ptr<SandboxFileReader>> open_reader(std::string path) = 0;
  virtual Awaitable<std::unique_ptr<SandboxFileWriter>> open_writer(std::string path, FileMode mode) = 0;

  // Whole files, made of the openers; a provider that can do either in one step overrides it. The box
  // outlives the call.
  virtual Awaitable<void> put_file(std::string path, std::string data, FileMode mode);
  /// Throws too_large (use append_within_cap()) for a file of more than `cap` bytes.
  virtual Awaitable<std::string> get_file(std::string path, std::uint64_t cap);
};

/// Adds the next piece of a file to what get_file has of it. Throws too_large past `cap` bytes; a read of one
/// byte more than that tells whether there are more.
void append_within_cap(std::string& data, std::string piece, std::uint64_t cap);

/// What becomes of a session's persistent workspace when it ends.
enum class Disposal {
  keep_persistent,
  remove_workspace,
  undo,  ///< The create is taken back: a workspace that it made goes, one that it found stays.
};

}  // namespace caisson::kit
