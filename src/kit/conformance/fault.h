// Fault: one rule broken on purpose, as a row of operations that are not forwarded as they are.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "caisson/contract/sandbox.h"
#include "kit/conformance/context.h"

namespace caisson::kit::conformance {

class Bench;
using BenchPtr = std::shared_ptr<Bench>;
using ReaderPtr = std::shared_ptr<SandboxFileReader>;
using WriterPtr = std::shared_ptr<SandboxFileWriter>;

/// What a fault does otherwise. A null hook forwards. The first argument is the decorated provider's bench,
/// the next the object that the call would have gone to.
struct Hooks {
  // Of the sandbox.
  void (*policy)(SandboxPolicy& policy) = nullptr;
  Awaitable<SessionPtr> (*create)(BenchPtr bench, SandboxSessionSpec spec) = nullptr;
  Awaitable<SessionPtr> (*get)(BenchPtr bench, std::string id) = nullptr;
  void (*listed)(std::vector<SandboxSessionInfo>& sessions) = nullptr;
  Awaitable<void> (*destroy_by_id)(BenchPtr bench, std::string id) = nullptr;
  Awaitable<std::vector<std::string>> (*reap)(BenchPtr bench) = nullptr;
  // Of a session.
  void (*info)(BenchPtr bench, SandboxSessionInfo& info) = nullptr;
  void (*request)(Argv& argv, ExecOptions& options) = nullptr;  ///< Of exec and of exec_start.
  Awaitable<ExecResult> (*exec)(BenchPtr bench, SessionPtr session, Argv argv, ExecOptions options) = nullptr;
  void (*result)(ExecResult& result) = nullptr;
  Awaitable<HandlePtr> (*exec_start)(BenchPtr bench, SessionPtr session, Argv argv,
                                     ExecOptions options) = nullptr;
  Awaitable<void> (*put_file)(SessionPtr session, std::string path, std::string data,
                              FileMode mode) = nullptr;
  Awaitable<std::string> (*get_file)(SessionPtr session, std::string path) = nullptr;
  Awaitable<WriterPtr> (*open_writer)(SessionPtr session, std::string path, FileMode mode) = nullptr;
  Awaitable<ReaderPtr> (*open_reader)(SessionPtr session, std::string path) = nullptr;
  Awaitable<void> (*touch)(SessionPtr session) = nullptr;
  Awaitable<void> (*destroy)(BenchPtr bench, SessionPtr session) = nullptr;
  Awaitable<void> (*release)(SessionPtr session) = nullptr;
  // Of a handle and its output.
  Awaitable<void> (*write_stdin)(BenchPtr bench, HandlePtr handle, std::string data) = nullptr;
  Awaitable<void> (*close_stdin)(BenchPtr bench, HandlePtr handle) = nullptr;
  Awaitable<void> (*kill)(BenchPtr bench, HandlePtr handle) = nullptr;
  Awaitable<void> (*signal)(HandlePtr handle, int number) = nullptr;
  Awaitable<void> (*resize)(HandlePtr handle, TtySize size) = nullptr;
  Awaitable<std::optional<SandboxStreamItem>> (*next)(BenchPtr bench, HandlePtr handle) = nullptr;
  void (*item)(SandboxStreamItem& item) = nullptr;
  void (*dropped)(BenchPtr bench, HandlePtr handle) = nullptr;
};

struct Fault {
  std::string_view check;  ///< The check that must fail.
  std::string_view title;  ///< What is broken.
  Hooks hooks;
};

std::span<const Fault> exec_faults();
std::span<const Fault> exec_request_faults();
std::span<const Fault> interactive_faults();
std::span<const Fault> kill_faults();
std::span<const Fault> file_faults();
std::span<const Fault> session_faults();
std::span<const Fault> teardown_faults();
std::span<const Fault> reject_faults();
std::span<const Fault> timeout_faults();
std::span<const Fault> deadline_faults();
std::span<const Fault> race_faults();
std::span<const Fault> ending_faults();
std::span<const Fault> hostile_tree_faults();
std::span<const Fault> lookup_faults();
std::span<const Fault> capture_faults();
std::span<const Fault> tree_faults();
std::span<const Fault> stdin_order_faults();
std::span<const Fault> hostile_path_faults();
std::span<const Fault> transfer_faults();
std::span<const Fault> peer_faults();

/// Every fault, in no order that matters.
std::vector<const Fault*> all_faults();

/// What the hooks of one decorated provider share. Used on its event loop, but for what the provider's end
/// does.
class Bench {
 public:
  Bench(std::shared_ptr<Sandbox> sandbox, const Hooks& hooks) : hooks_(hooks), sandbox_(std::move(sandbox)) {}

  const Hooks& hooks() const noexcept { return hooks_; }
  Sandbox& sandbox() const { return *sandbox_; }

  /// Keeps something alive that a right provider would let go, until the provider ends.
  void keep(HandlePtr handle);
  void keep(SessionPtr session);
  /// Lets go what was kept, and the provider.
  void end();

  // Of the hooks' own use.
  int count = 0;
  std::map<std::string, SessionPtr> twins;
  std::deque<SandboxStreamItem> items;

 private:
  const Hooks hooks_;
  std::shared_ptr<Sandbox> sandbox_;
  std::mutex mutex_;
  std::vector<HandlePtr> handles_;
  std::vector<SessionPtr> sessions_;
};

// What several hooks are made of.

/// The command run by a shell that does `script` first; "$@" is the command.
void run_by_shell(Argv& argv, std::string_view script);
/// The same options with another timeout and no input.
ExecOptions with_timeout(const ExecOptions& options, std::chrono::duration<double> timeout);
/// What a started exec comes to.
Awaitable<ExecResult> collect(HandlePtr handle);
Awaitable<void> doze();
/// Whether the error is a SandboxError of that code.
bool is_code(const std::exception_ptr& error, ErrorCode code);
/// For calls that a fault makes again after the first is done, or instead of it: a failure becomes a value.
template <class T>
Awaitable<std::exception_ptr> failure_of(Awaitable<T> call, T* value) {
  try {
    *value = co_await std::move(call);
  } catch (const SandboxError&) {
    co_return std::current_exception();
  }
  co_return nullptr;
}

}  // namespace caisson::kit::conformance
