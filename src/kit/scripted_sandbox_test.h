// A provider whose commands are scripted by the test: no process, no file, every end on demand.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "caisson/kit/managed_sandbox.h"
#include "os/fd.h"

namespace caisson::kit {

/// One started command, as its test holds it. Its leader ends when end() is called, or by kill().
struct ScriptedCommand {
  mutable std::recursive_mutex mutex;  ///< For what its tree shares with a test's thread.
  std::string session;                 ///< The id.
  std::shared_ptr<const ExecPlan> plan;
  os::Fd in;  ///< The command's ends of its pipes.
  os::Fd out;
  os::Fd err;
  os::Fd leader_end;  ///< Closing it makes the leader readable.
  std::optional<ExecEnded> ended;
  bool dies_of_kill = true;
  bool dies_with_box = false;  ///< Where the box ends its processes at one stroke.
  bool empty = false;          ///< Whether its tree is empty once its leader has ended.
  int kills = 0;
  bool watched = false;  ///< Its exec waits for the leader's end.
  bool retired = false;
  std::vector<int> signals;
  std::shared_ptr<void> held_to_the_end;  ///< Goes with the last that knows the command.

  void write(std::string_view text) const { (void)os::write_all(out, text); }
  void write_error(std::string_view text) const { (void)os::write_all(err, text); }
  /// Ends the leader; its pipes close with it unless a descendant keeps them.
  void end(ExecEnded how, bool descendants = false) {
    const std::lock_guard lock(mutex);
    ended = std::move(how);
    empty = !descendants;
    if (!descendants) close_streams();
    leader_end.reset();
  }
  void exit(int code, bool descendants = false) {
    ExecEnded how;
    how.exit_code = code;
    end(how, descendants);
  }
  void die() {
    empty = true;
    close_streams();
    if (ended) return;
    ExecEnded how;
    how.how = ExecEnd::signaled;
    how.signal = 9;
    how.exit_code = 137;
    ended = how;
    leader_end.reset();
  }
  void close_streams() {
    in.reset();
    out.reset();
    err.reset();
  }
};

class ScriptedTree final : public ExecTree {
 public:
  ScriptedTree(std::shared_ptr<ScriptedCommand> command, boost::asio::posix::stream_descriptor leader)
      : command_(std::move(command)), leader_(std::move(leader)) {}
  boost::asio::posix::stream_descriptor& leader() override {
    command_->watched = true;
    return leader_;
  }
  std::optional<ExecEnded> try_reap() override {
    const std::lock_guard lock(command_->mutex);
    return command_->ended;
  }
  void signal(int number) noexcept override {
    const std::lock_guard lock(command_->mutex);
    command_->signals.push_back(number);
  }
  void kill() noexcept override {
    const std::lock_guard lock(command_->mutex);
    ++command_->kills;
    if (command_->dies_of_kill) command_->die();
  }
  bool empty() noexcept override {
    const std::lock_guard lock(command_->mutex);
    return command_->ended && command_->empty;
  }
  void retire() noexcept override {
    const std::lock_guard lock(command_->mutex);
    command_->retired = true;
  }

 private:
  std::shared_ptr<ScriptedCommand> command_;
  boost::asio::posix::stream_descriptor leader_;
};

/// A primitive of the provider, as it begins.
struct ScriptedCall {
  std::string_view what;  ///< create, destroy, start, open, read, write or commit.
  std::string id;         ///< The session's.
  Disposal disposal = Disposal::keep_persistent;
};

/// What all boxes of a scripted sandbox share: the script and its record.
struct Script {
  std::deque<std::shared_ptr<ScriptedCommand>> commands;  ///< In the order in which they were started.
  std::vector<std::string> created;                       ///< Session ids.
  std::vector<std::pair<std::string, Disposal>> destroyed;
  std::size_t starts_without_descriptors = 0;  ///< So many starts find none left.
  std::size_t attempts = 0;
  bool hold_starts = false;        ///< Starts last until they are cancelled.
  std::function<void()> creating;  ///< Called while a session's resources are made.
  bool create_fails = false;
  std::set<std::string> destroy_fails;  ///< Of these sessions.
  std::map<std::string, std::string> files;
  std::recursive_mutex* turn = nullptr;                 ///< Held where `destroyed` grows, if there is one.
  std::function<Awaitable<void>(ScriptedCall)> moment;  ///< Where a primitive takes its time, or fails.

  /// The one command that runs.
  ScriptedCommand& command() { return *commands.back(); }
};

inline Awaitable<void> pass_moment(std::shared_ptr<Script> script, ScriptedCall call) {
  if (script->moment) co_await script->moment(std::move(call));
}

class ScriptedReader final : public SandboxFileReader {
 public:
  ScriptedReader(std::shared_ptr<Script> script, std::string id, std::string data)
      : script_(std::move(script)), id_(std::move(id)), data_(std::move(data)), size_(data_.size()) {}
  Awaitable<std::string> read(std::size_t max_bytes) override {
    ScriptedCall call{"read", id_};
    co_await pass_moment(script_, std::move(call));
    std::string piece = data_.substr(0, max_bytes);
    data_.erase(0, piece.size());
    co_return piece;
  }
  std::uint64_t size() const noexcept override { return size_; }

 private:
  std::shared_ptr<Script> script_;
  std::string id_;
  std::string data_;
  std::uint64_t size_;
};

class ScriptedWriter final : public SandboxFileWriter {
 public:
  ScriptedWriter(std::shared_ptr<Script> script, std::string id, std::string path)
      : script_(std::move(script)), id_(std::move(id)), path_(std::move(path)) {}
  Awaitable<void> write(std::string data) override {
    ScriptedCall call{"write", id_};
    co_await pass_moment(script_, std::move(call));
    data_ += data;
  }
  Awaitable<void> commit() override {
    ScriptedCall call{"commit", id_};
    co_await pass_moment(script_, std::move(call));
    script_->files[path_] = data_;
  }

 private:
  std::shared_ptr<Script> script_;
  std::string id_;
  std::string path_;
  std::string data_;
};

class ScriptedBox final : public SessionBox {
 public:
  ScriptedBox(std::shared_ptr<Script> script, std::string id)
      : script_(std::move(script)), id_(std::move(id)) {}
  const std::string& workspace_path() const noexcept override { return path_; }
  void end_processes() noexcept override {
    for (const auto& command : script_->commands) {
      if (command->session == id_ && command->dies_with_box) command->die();
    }
  }

  Awaitable<StartedExec> start(std::shared_ptr<const ExecPlan> plan,
                               boost::asio::any_io_executor executor) override {
    ++script_->attempts;
    ScriptedCall call{"start", id_};
    co_await pass_moment(script_, std::move(call));
    if (script_->starts_without_descriptors > 0) {
      --script_->starts_without_descriptors;
      throw DescriptorsExhausted();
    }
    if (script_->hold_starts) {
      boost::asio::steady_timer held(co_await boost::asio::this_coro::executor,
                                     boost::asio::steady_timer::time_point::max());
      co_await held.async_wait(boost::asio::use_awaitable);
    }
    auto command = std::make_shared<ScriptedCommand>();
    auto in = os::make_pipe().value();
    auto out = os::make_pipe().value();
    auto err = os::make_pipe().value();
    auto leader = os::make_pipe().value();
    command->session = id_;
    command->plan = plan;
    command->in = std::move(in.read);
    command->out = std::move(out.write);
    command->err = std::move(err.write);
    command->leader_end = std::move(leader.write);
    script_->commands.push_back(command);
    using Stream = boost::asio::posix::stream_descriptor;
    StartedExec started{
        std::make_unique<ScriptedTree>(command, Stream(executor, std::move(leader.read).release())),
        plan->input ? Stream(executor, std::move(in.write).release()) : Stream(executor),
        Stream(executor, std::move(out.read).release()), Stream(executor, std::move(err.read).release())};
    co_return started;
  }
  Awaitable<std::unique_ptr<SandboxFileReader>> open_reader(std::string path) override {
    ScriptedCall call{"open", id_};
    co_await pass_moment(script_, std::move(call));
    const auto at = script_->files.find(path);
    if (at == script_->files.end()) throw SandboxError(ErrorCode::file_missing, "miss");
    std::unique_ptr<SandboxFileReader> reader = std::make_unique<ScriptedReader>(script_, id_, at->second);
    co_return reader;
  }
  Awaitable<std::unique_ptr<SandboxFileWriter>> open_writer(std::string path, FileMode) override {
    ScriptedCall call{"open", id_};
    co_await pass_moment(script_, std::move(call));
    std::unique_ptr<SandboxFileWriter> writer =
        std::make_unique<ScriptedWriter>(script_, id_, std::move(path));
    co_return writer;
  }

 private:
  std::string path_ = "/scripted";
  std::shared_ptr<Script> script_;
  std::string id_;
};

class ScriptedSandbox final : public ManagedSandbox {
 public:
  ScriptedSandbox(ManagedOptions options, std::shared_ptr<Script> script)
      : ManagedSandbox(std::move(options)), script_(std::move(script)) {}
  ~ScriptedSandbox() override { close(); }
  std::string_view name() const noexcept override { return "scripted"; }
  Awaitable<std::vector<std::string>> recover_orphans() override { co_return std::vector<std::string>{}; }

 protected:
  void check_enforceable(const SandboxSessionSpec& spec) const override {
    if (spec.cpu) reject("cpu");
  }
  Awaitable<std::shared_ptr<SessionBox>> create_resources(const SessionRecord& record) override {
    if (script_->creating) script_->creating();
    return make_box(script_, record.id);
  }
  Awaitable<void> destroy_resources(const SessionRecord& record, std::shared_ptr<SessionBox>,
                                    Disposal disposal) override {
    return remove_box(script_, record.id, disposal);
  }

 private:
  // On the script alone: a sandbox may close over a primitive whose event loop stands still.
  static Awaitable<std::shared_ptr<SessionBox>> make_box(std::shared_ptr<Script> script, std::string id) {
    ScriptedCall call{"create", id};
    co_await pass_moment(script, std::move(call));
    if (script->create_fails) throw SandboxError(ErrorCode::internal, "no box to be had");
    script->created.push_back(id);
    std::shared_ptr<SessionBox> box = std::make_shared<ScriptedBox>(script, id);
    co_return box;
  }
  static Awaitable<void> remove_box(std::shared_ptr<Script> script, std::string id, Disposal disposal) {
    ScriptedCall call{"destroy", id, disposal};
    co_await pass_moment(script, std::move(call));
    if (script->destroy_fails.contains(id)) throw SandboxError(ErrorCode::removal_failed, "will not go");
    std::unique_lock<std::recursive_mutex> turn;
    if (script->turn != nullptr) turn = std::unique_lock(*script->turn);
    script->destroyed.emplace_back(std::move(id), disposal);
  }

  std::shared_ptr<Script> script_;
};

}  // namespace caisson::kit
