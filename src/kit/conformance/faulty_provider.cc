// The decorators: a sandbox, its sessions, handles and outputs, forwarding all but what the fault's hooks
// replace.
#include <utility>

#include "kit/conformance/check.h"
#include "kit/conformance/fault.h"

namespace caisson::kit::conformance {
namespace {

class FaultyOutput final : public SandboxOutput {
 public:
  FaultyOutput(BenchPtr bench, HandlePtr inner) : bench_(std::move(bench)), inner_(std::move(inner)) {}

  Awaitable<std::optional<SandboxStreamItem>> next() override {
    const Hooks& hooks = bench_->hooks();
    auto item = hooks.next ? hooks.next(bench_, inner_) : inner_->output().next();
    return hooks.item ? amended(std::move(item), hooks.item) : std::move(item);
  }

 private:
  static Awaitable<std::optional<SandboxStreamItem>> amended(Awaitable<std::optional<SandboxStreamItem>> call,
                                                             void (*amend)(SandboxStreamItem&)) {
    auto item = co_await std::move(call);
    if (item) amend(*item);
    co_return item;
  }

  BenchPtr bench_;
  HandlePtr inner_;
};

class FaultyHandle final : public SandboxExecHandle {
 public:
  FaultyHandle(BenchPtr bench, HandlePtr inner)
      : bench_(std::move(bench)), inner_(std::move(inner)), output_(bench_, inner_) {}
  ~FaultyHandle() override {
    if (bench_->hooks().dropped) bench_->hooks().dropped(bench_, inner_);
  }

  Awaitable<void> write_stdin(std::string data) override {
    const auto hook = bench_->hooks().write_stdin;
    return hook ? hook(bench_, inner_, std::move(data)) : inner_->write_stdin(std::move(data));
  }
  Awaitable<void> close_stdin() override {
    const auto hook = bench_->hooks().close_stdin;
    return hook ? hook(bench_, inner_) : inner_->close_stdin();
  }
  SandboxOutput& output() override { return output_; }
  Awaitable<void> kill() override {
    const auto hook = bench_->hooks().kill;
    return hook ? hook(bench_, inner_) : inner_->kill();
  }
  Awaitable<void> signal(int number) override {
    const auto hook = bench_->hooks().signal;
    return hook ? hook(inner_, number) : inner_->signal(number);
  }
  Awaitable<void> resize(TtySize size) override {
    const auto hook = bench_->hooks().resize;
    return hook ? hook(inner_, size) : inner_->resize(size);
  }

 private:
  BenchPtr bench_;
  HandlePtr inner_;
  FaultyOutput output_;
};

class FaultyReader final : public SandboxFileReader {
 public:
  explicit FaultyReader(ReaderPtr inner) : inner_(std::move(inner)) {}
  Awaitable<std::string> read(std::size_t max_bytes) override { return inner_->read(max_bytes); }
  std::uint64_t size() const noexcept override { return inner_->size(); }

 private:
  ReaderPtr inner_;
};

class FaultyWriter final : public SandboxFileWriter {
 public:
  explicit FaultyWriter(WriterPtr inner) : inner_(std::move(inner)) {}
  Awaitable<void> write(std::string data) override { return inner_->write(std::move(data)); }
  Awaitable<void> commit() override { return inner_->commit(); }

 private:
  WriterPtr inner_;
};

class FaultySession final : public SandboxSession {
 public:
  FaultySession(BenchPtr bench, SessionPtr inner) : bench_(std::move(bench)), inner_(std::move(inner)) {}

  const std::string& id() const noexcept override { return inner_->id(); }
  const std::string& workspace_path() const noexcept override { return inner_->workspace_path(); }
  Awaitable<SandboxSessionInfo> info() override {
    return bench_->hooks().info ? amended_info(bench_, inner_) : inner_->info();
  }
  Awaitable<ExecResult> exec(Argv argv, ExecOptions options) override {
    const Hooks& hooks = bench_->hooks();
    if (hooks.request) hooks.request(argv, options);
    auto result = hooks.exec ? hooks.exec(bench_, inner_, std::move(argv), std::move(options))
                             : inner_->exec(std::move(argv), std::move(options));
    return hooks.result ? amended_result(std::move(result), hooks.result) : std::move(result);
  }
  Awaitable<std::unique_ptr<SandboxExecHandle>> exec_start(Argv argv, ExecOptions options) override {
    if (bench_->hooks().request) bench_->hooks().request(argv, options);
    return started(bench_, inner_, std::move(argv), std::move(options));
  }
  Awaitable<void> put_file(std::string path, std::string data, FileMode mode) override {
    const auto hook = bench_->hooks().put_file;
    return hook ? hook(inner_, std::move(path), std::move(data), mode)
                : inner_->put_file(std::move(path), std::move(data), mode);
  }
  Awaitable<std::string> get_file(std::string path) override {
    const auto hook = bench_->hooks().get_file;
    return hook ? hook(inner_, std::move(path)) : inner_->get_file(std::move(path));
  }
  Awaitable<void> touch() override {
    const auto hook = bench_->hooks().touch;
    return hook ? hook(inner_) : inner_->touch();
  }
  Awaitable<void> destroy() override {
    const auto hook = bench_->hooks().destroy;
    return hook ? hook(bench_, inner_) : inner_->destroy();
  }
  Awaitable<void> release() override {
    const auto hook = bench_->hooks().release;
    return hook ? hook(inner_) : inner_->release();
  }
  Awaitable<std::unique_ptr<SandboxFileReader>> open_reader(std::string path) override {
    return bench_->hooks().open_reader ? wrapped_reader(bench_, inner_, std::move(path))
                                       : inner_->open_reader(std::move(path));
  }
  Awaitable<std::unique_ptr<SandboxFileWriter>> open_writer(std::string path, FileMode mode) override {
    return bench_->hooks().open_writer ? wrapped_writer(bench_, inner_, std::move(path), mode)
                                       : inner_->open_writer(std::move(path), mode);
  }

 private:
  static Awaitable<SandboxSessionInfo> amended_info(BenchPtr bench, SessionPtr inner) {
    SandboxSessionInfo info = co_await inner->info();
    bench->hooks().info(bench, info);
    co_return info;
  }
  static Awaitable<ExecResult> amended_result(Awaitable<ExecResult> call, void (*amend)(ExecResult&)) {
    ExecResult result = co_await std::move(call);
    amend(result);
    co_return result;
  }
  static Awaitable<std::unique_ptr<SandboxExecHandle>> started(BenchPtr bench, SessionPtr inner, Argv argv,
                                                               ExecOptions options) {
    HandlePtr handle;
    if (bench->hooks().exec_start) {
      handle = co_await bench->hooks().exec_start(bench, inner, std::move(argv), std::move(options));
    } else {
      handle = co_await inner->exec_start(std::move(argv), std::move(options));
    }
    co_return std::make_unique<FaultyHandle>(bench, std::move(handle));
  }
  static Awaitable<std::unique_ptr<SandboxFileReader>> wrapped_reader(BenchPtr bench, SessionPtr inner,
                                                                      std::string path) {
    ReaderPtr reader = co_await bench->hooks().open_reader(inner, std::move(path));
    co_return std::make_unique<FaultyReader>(std::move(reader));
  }
  static Awaitable<std::unique_ptr<SandboxFileWriter>> wrapped_writer(BenchPtr bench, SessionPtr inner,
                                                                      std::string path, FileMode mode) {
    WriterPtr writer = co_await bench->hooks().open_writer(inner, std::move(path), mode);
    co_return std::make_unique<FaultyWriter>(std::move(writer));
  }

  BenchPtr bench_;
  SessionPtr inner_;
};

class FaultySandbox final : public Sandbox {
 public:
  FaultySandbox(std::shared_ptr<Sandbox> inner, const Hooks& hooks)
      : bench_(std::make_shared<Bench>(std::move(inner), hooks)) {}
  ~FaultySandbox() override { bench_->end(); }

  Awaitable<SessionPtr> create_session(SandboxSessionSpec spec) override {
    const auto hook = bench_->hooks().create;
    return wrapped(bench_,
                   hook ? hook(bench_, std::move(spec)) : bench_->sandbox().create_session(std::move(spec)));
  }
  Awaitable<SessionPtr> get_session(std::string session_id) override {
    const auto hook = bench_->hooks().get;
    return wrapped(bench_, hook ? hook(bench_, std::move(session_id))
                                : bench_->sandbox().get_session(std::move(session_id)));
  }
  Awaitable<std::vector<SandboxSessionInfo>> list_sessions() override { return list(bench_); }
  Awaitable<void> destroy_session(std::string session_id) override {
    const auto hook = bench_->hooks().destroy_by_id;
    return hook ? hook(bench_, std::move(session_id))
                : bench_->sandbox().destroy_session(std::move(session_id));
  }
  Awaitable<std::vector<std::string>> reap() override {
    const auto hook = bench_->hooks().reap;
    return hook ? hook(bench_) : bench_->sandbox().reap();
  }
  std::string_view name() const noexcept override { return bench_->sandbox().name(); }
  void bind_policy(SandboxPolicy policy) override {
    if (bench_->hooks().policy) bench_->hooks().policy(policy);
    bench_->sandbox().bind_policy(policy);
  }

 private:
  static Awaitable<SessionPtr> wrapped(BenchPtr bench, Awaitable<SessionPtr> call) {
    SessionPtr session = co_await std::move(call);
    co_return std::make_shared<FaultySession>(std::move(bench), std::move(session));
  }
  static Awaitable<std::vector<SandboxSessionInfo>> list(BenchPtr bench) {
    auto sessions = co_await bench->sandbox().list_sessions();
    for (SandboxSessionInfo& info : sessions) {
      if (bench->hooks().info) bench->hooks().info(bench, info);
    }
    if (bench->hooks().listed) bench->hooks().listed(sessions);
    co_return sessions;
  }

  BenchPtr bench_;
};

}  // namespace

void Bench::keep(HandlePtr handle) {
  const std::scoped_lock lock(mutex_);
  handles_.push_back(std::move(handle));
}

void Bench::keep(SessionPtr session) {
  const std::scoped_lock lock(mutex_);
  sessions_.push_back(std::move(session));
}

void Bench::end() {
  std::vector<HandlePtr> handles;
  std::vector<SessionPtr> sessions;
  {
    const std::scoped_lock lock(mutex_);
    handles.swap(handles_);
    sessions.swap(sessions_);
  }
  handles.clear();
  sessions.clear();
  twins.clear();
  sandbox_.reset();
}

std::vector<const Fault*> all_faults() {
  std::vector<const Fault*> all;
  for (const std::span<const Fault> group :
       {exec_faults(),    exec_request_faults(), interactive_faults(),  kill_faults(),     file_faults(),
        session_faults(), teardown_faults(),     reject_faults(),       timeout_faults(),  deadline_faults(),
        race_faults(),    ending_faults(),       hostile_tree_faults(), lookup_faults(),   capture_faults(),
        tree_faults(),    stdin_order_faults(),  hostile_path_faults(), transfer_faults(), peer_faults()}) {
    for (const Fault& fault : group) all.push_back(&fault);
  }
  return all;
}

std::shared_ptr<Sandbox> faulty_provider(std::shared_ptr<Sandbox> inner, std::string_view fault) {
  if (fault.empty()) return std::make_shared<FaultySandbox>(std::move(inner), Hooks{});
  for (const Fault* known : all_faults()) {
    if (known->check == fault) return std::make_shared<FaultySandbox>(std::move(inner), known->hooks);
  }
  throw SandboxError(ErrorCode::invalid_argument,
                     "no check of the conformance suite is called \"" + std::string(fault) + "\"", "fault");
}

}  // namespace caisson::kit::conformance
