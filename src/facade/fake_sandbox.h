// A sandbox without processes, for tests of the facade: it records what was called on it.
#pragma once

#include <atomic>
#include <boost/asio/post.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "caisson/contract/sandbox.h"
#include "kit/event.h"

namespace caisson::facade {

/// What the fake's objects share with the test.
struct FakeState {
  void note(const std::string& what) {
    const std::lock_guard lock(mutex);
    calls.push_back(what);
  }
  std::vector<std::string> noted() {
    const std::lock_guard lock(mutex);
    return calls;
  }
  std::mutex mutex;
  std::vector<std::string> calls;
  std::atomic<int> reading{0};
  std::thread::id loop;
  std::map<std::string, std::string> files;  ///< Of the one session; used on the loop only.
};

class FakeOutput final : public SandboxOutput {
 public:
  FakeOutput(std::shared_ptr<FakeState> state, boost::asio::any_io_executor executor)
      : state_(std::move(state)), changed_(executor) {}
  Awaitable<std::optional<SandboxStreamItem>> next() override {
    ++state_->reading;
    while (!ended_) co_await changed_.wait();
    SandboxStreamExit exit;
    exit.exit_code = 137;
    co_return SandboxStreamItem(exit);
  }
  void end() {
    ended_ = true;
    changed_.notify();
  }

 private:
  std::shared_ptr<FakeState> state_;
  kit::Event changed_;
  bool ended_ = false;
};

class FakeHandle final : public SandboxExecHandle {
 public:
  FakeHandle(std::shared_ptr<FakeState> state, boost::asio::any_io_executor executor)
      : state_(state), output_(std::move(state), std::move(executor)) {}
  ~FakeHandle() override {
    state_->note(std::this_thread::get_id() == state_->loop ? "handle dropped" : "handle dropped elsewhere");
  }
  Awaitable<void> write_stdin(std::string data) override {
    state_->note("write " + data);
    co_return;
  }
  Awaitable<void> close_stdin() override {
    state_->note("close_stdin");
    co_return;
  }
  SandboxOutput& output() override { return output_; }
  Awaitable<void> kill() override {
    state_->note("kill");
    output_.end();
    co_return;
  }
  Awaitable<void> signal(int number) override {
    state_->note("signal " + std::to_string(number));
    co_return;
  }
  Awaitable<void> resize(TtySize size) override {
    state_->note("resize " + std::to_string(size.columns));
    co_return;
  }

 private:
  std::shared_ptr<FakeState> state_;
  FakeOutput output_;
};

class FakeReader final : public SandboxFileReader {
 public:
  explicit FakeReader(std::string bytes) : bytes_(std::move(bytes)), size_(bytes_.size()) {}
  Awaitable<std::string> read(std::size_t max_bytes) override {
    std::string piece = bytes_.substr(0, max_bytes);
    bytes_.erase(0, piece.size());
    co_return piece;
  }
  std::uint64_t size() const noexcept override { return size_; }

 private:
  std::string bytes_;
  std::uint64_t size_;
};

class FakeWriter final : public SandboxFileWriter {
 public:
  FakeWriter(std::shared_ptr<FakeState> state, std::string path)
      : state_(std::move(state)), path_(std::move(path)) {}
  Awaitable<void> write(std::string data) override {
    state_->note("piece of " + std::to_string(data.size()));
    bytes_ += data;
    co_return;
  }
  Awaitable<void> commit() override {
    state_->files[path_] = bytes_;
    co_return;
  }

 private:
  std::shared_ptr<FakeState> state_;
  std::string path_;
  std::string bytes_;
};

class FakeSession : public SandboxSession {
 public:
  FakeSession(std::shared_ptr<FakeState> state, std::string id)
      : state_(std::move(state)), id_(std::move(id)) {}
  const std::string& id() const noexcept override { return id_; }
  const std::string& workspace_path() const noexcept override { return workspace_path_; }
  Awaitable<SandboxSessionInfo> info() override {
    SandboxSessionInfo info;
    info.id = id_;
    co_return info;
  }
  Awaitable<ExecResult> exec(Argv argv, ExecOptions) override {
    state_->loop = std::this_thread::get_id();
    if (argv.words().front() == "fail") throw SandboxError(ErrorCode::command_not_found, "no such command");
    ExecResult result;
    result.out = argv.words().front();
    co_return result;
  }
  Awaitable<std::unique_ptr<SandboxExecHandle>> exec_start(Argv, ExecOptions) override {
    state_->loop = std::this_thread::get_id();
    co_return std::make_unique<FakeHandle>(state_, co_await boost::asio::this_coro::executor);
  }
  Awaitable<void> put_file(std::string path, std::string data, FileMode) override {
    state_->files[path] = data;
    co_return;
  }
  Awaitable<std::string> get_file(std::string path) override { co_return state_->files[path]; }
  Awaitable<void> touch() override { co_return state_->note("touch"); }
  Awaitable<void> destroy() override { co_return state_->note("destroy " + id_); }
  Awaitable<void> release() override { co_return state_->note("release " + id_); }
  Awaitable<std::unique_ptr<SandboxFileReader>> open_reader(std::string path) override {
    if (!state_->files.contains(path)) throw SandboxError(ErrorCode::file_missing, "a miss");
    co_return std::make_unique<FakeReader>(state_->files[path]);
  }
  Awaitable<std::unique_ptr<SandboxFileWriter>> open_writer(std::string path, FileMode) override {
    co_return std::make_unique<FakeWriter>(state_, std::move(path));
  }

 private:
  std::shared_ptr<FakeState> state_;
  std::string id_;
  std::string workspace_path_ = "/fake";
};

class FakeSandbox : public Sandbox {
 public:
  explicit FakeSandbox(std::shared_ptr<FakeState> state) : state_(std::move(state)) {}
  ~FakeSandbox() override { state_->note("sandbox ended"); }
  Awaitable<std::shared_ptr<SandboxSession>> create_session(SandboxSessionSpec spec) override {
    co_return std::make_shared<FakeSession>(state_, spec.workspace_key);
  }
  Awaitable<std::shared_ptr<SandboxSession>> get_session(std::string id) override {
    co_return std::make_shared<FakeSession>(state_, std::move(id));
  }
  Awaitable<std::vector<SandboxSessionInfo>> list_sessions() override {
    co_return std::vector<SandboxSessionInfo>();
  }
  Awaitable<void> destroy_session(std::string id) override { co_return state_->note("destroy " + id); }
  Awaitable<std::vector<std::string>> reap() override {
    state_->note("reap");
    co_return std::vector<std::string>{"reaped"};
  }
  std::string_view name() const noexcept override { return "fake"; }
  void bind_policy(SandboxPolicy) override {}

 private:
  std::shared_ptr<FakeState> state_;
};

}  // namespace caisson::facade
