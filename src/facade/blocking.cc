// The blocking facade's objects: each call is run on the engine's loop and waited for.
#include <utility>

#include "caisson/caisson.h"
#include "facade/engine.h"
#include "facade/host_transfer.h"

namespace caisson::blocking {

// An interactive exec as its handle and its outputs share it.
class Exec {
 public:
  explicit Exec(std::unique_ptr<SandboxExecHandle> handle) noexcept : handle_(std::move(handle)) {}

  SandboxExecHandle& handle() noexcept { return *handle_; }

  /// False once the handle was dropped.
  bool begin_reading() {
    const std::lock_guard lock(mutex_);
    if (dropped_) return false;
    ++readers_;
    return true;
  }
  void end_reading() {
    const std::lock_guard lock(mutex_);
    --readers_;
  }
  /// Whether somebody reads, and so keeps this alive.
  bool drop() {
    const std::lock_guard lock(mutex_);
    dropped_ = true;
    return readers_ > 0;
  }

 private:
  std::unique_ptr<SandboxExecHandle> handle_;
  std::mutex mutex_;
  bool dropped_ = false;
  int readers_ = 0;
};

namespace {

// A reader's share of an exec, given back on the loop.
class Reading {
 public:
  Reading(Engine& engine, std::shared_ptr<Exec> exec) noexcept : engine_(engine), exec_(std::move(exec)) {}
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;
  ~Reading() {
    exec_->end_reading();
    engine_.drop(std::move(exec_));
  }

 private:
  Engine& engine_;
  std::shared_ptr<Exec> exec_;
};

const std::string no_text;

}  // namespace

Output::Output(std::shared_ptr<Engine> engine, std::weak_ptr<Exec> exec) noexcept
    : engine_(std::move(engine)), exec_(std::move(exec)) {}

std::optional<SandboxStreamItem> Output::next() {
  Engine& engine = Engine::usable(engine_);
  auto exec = exec_.lock();
  if (!exec || !exec->begin_reading()) {
    throw std::logic_error("caisson::blocking: the output was read after its ExecHandle was destroyed");
  }
  SandboxOutput& output = exec->handle().output();
  const Reading reading(engine, std::move(exec));
  return engine.run(output.next());
}

ExecHandle::ExecHandle(std::shared_ptr<Engine> engine, std::shared_ptr<Exec> exec) noexcept
    : engine_(std::move(engine)), exec_(std::move(exec)) {}
ExecHandle::ExecHandle(ExecHandle&&) noexcept = default;
ExecHandle& ExecHandle::operator=(ExecHandle&& other) noexcept {
  if (this == &other) return *this;
  end();
  engine_ = std::move(other.engine_);
  exec_ = std::move(other.exec_);
  return *this;
}
ExecHandle::~ExecHandle() { end(); }

void ExecHandle::end() noexcept {
  if (!engine_) return;
  if (!engine_->is_usable()) {
    Engine::abandon(std::move(exec_));
  } else {
    if (exec_->drop()) engine_->run_quietly(exec_->handle().kill(), "killing an exec");
    engine_->drop(std::move(exec_));
  }
  engine_.reset();
}

void ExecHandle::write_stdin(std::string data) {
  Engine& engine = Engine::usable(engine_);
  engine.run(exec_->handle().write_stdin(std::move(data)));
}
void ExecHandle::close_stdin() {
  Engine& engine = Engine::usable(engine_);
  engine.run(exec_->handle().close_stdin());
}
Output ExecHandle::output() {
  Engine::usable(engine_);
  return {engine_, exec_};
}
void ExecHandle::kill() {
  Engine& engine = Engine::usable(engine_);
  engine.run(exec_->handle().kill());
}
void ExecHandle::signal(int number) {
  Engine& engine = Engine::usable(engine_);
  engine.run(exec_->handle().signal(number));
}
void ExecHandle::resize(TtySize size) {
  Engine& engine = Engine::usable(engine_);
  engine.run(exec_->handle().resize(size));
}

Session::Session(std::shared_ptr<Engine> engine, std::shared_ptr<SandboxSession> session, bool owned) noexcept
    : engine_(std::move(engine)), session_(std::move(session)), owned_(owned) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&& other) noexcept {
  if (this == &other) return *this;
  end();
  engine_ = std::move(other.engine_);
  session_ = std::move(other.session_);
  owned_ = other.owned_;
  return *this;
}
Session::~Session() { end(); }

void Session::end() noexcept {
  if (!engine_) return;
  if (!engine_->is_usable()) {
    Engine::abandon(std::move(session_));
  } else {
    if (owned_) engine_->run_quietly(session_->release(), "releasing a session");
    engine_->drop(std::move(session_));
  }
  engine_.reset();
}

const std::string& Session::id() const noexcept { return session_ ? session_->id() : no_text; }
const std::string& Session::workspace_path() const noexcept {
  return session_ ? session_->workspace_path() : no_text;
}
SandboxSessionInfo Session::info() {
  Engine& engine = Engine::usable(engine_);
  return engine.run(session_->info());
}
ExecResult Session::exec(Argv argv, ExecOptions options) {
  Engine& engine = Engine::usable(engine_);
  return engine.run(session_->exec(std::move(argv), std::move(options)));
}
ExecHandle Session::exec_start(Argv argv, ExecOptions options) {
  Engine& engine = Engine::usable(engine_);
  auto handle = engine.run(session_->exec_start(std::move(argv), std::move(options)));
  return {engine_, std::make_shared<Exec>(std::move(handle))};
}
void Session::put_file(std::string path, std::string data, FileMode mode) {
  Engine& engine = Engine::usable(engine_);
  engine.run(session_->put_file(std::move(path), std::move(data), mode));
}
std::string Session::get_file(std::string path) {
  Engine& engine = Engine::usable(engine_);
  return engine.run(session_->get_file(std::move(path)));
}
void Session::put_file_from(const std::string& host_path, std::string path, FileMode mode) {
  Engine& engine = Engine::usable(engine_);
  facade::HostSource source(host_path);
  auto writer = engine.run(session_->open_writer(std::move(path), mode));
  for (std::string piece = source.read(); !piece.empty(); piece = source.read()) {
    engine.run(writer->write(std::move(piece)));
  }
  engine.run(writer->commit());
}
void Session::get_file_to(std::string path, const std::string& host_path) {
  Engine& engine = Engine::usable(engine_);
  auto reader = engine.run(session_->open_reader(std::move(path)));
  facade::HostTarget target(host_path);
  for (;;) {
    const std::string piece = engine.run(reader->read(facade::transfer_piece));
    if (piece.empty()) break;
    target.write(piece);
  }
  target.commit();
}
void Session::touch() {
  Engine& engine = Engine::usable(engine_);
  engine.run(session_->touch());
}
void Session::destroy() {
  Engine& engine = Engine::usable(engine_);
  engine.run(session_->destroy());
}
void Session::release() {
  Engine& engine = Engine::usable(engine_);
  engine.run(session_->release());
}
void Session::detach() noexcept { owned_ = false; }

Sandbox::Sandbox(std::shared_ptr<Engine> engine) noexcept : engine_(std::move(engine)) {}
Sandbox::Sandbox(Sandbox&&) noexcept = default;
Sandbox& Sandbox::operator=(Sandbox&& other) noexcept {
  if (this == &other) return *this;
  end();
  engine_ = std::move(other.engine_);
  return *this;
}
Sandbox::~Sandbox() { end(); }

void Sandbox::end() noexcept {
  if (engine_ && engine_->is_usable()) engine_->close();
  engine_.reset();
}

Session Sandbox::create_session(SandboxSessionSpec spec) {
  Engine& engine = Engine::usable(engine_);
  auto session = engine.run(engine.sandbox().create_session(std::move(spec)));
  return {engine_, std::move(session), true};
}
Session Sandbox::get_session(std::string session_id) {
  Engine& engine = Engine::usable(engine_);
  auto session = engine.run(engine.sandbox().get_session(std::move(session_id)));
  return {engine_, std::move(session), false};
}
std::vector<SandboxSessionInfo> Sandbox::list_sessions() {
  Engine& engine = Engine::usable(engine_);
  return engine.run(engine.sandbox().list_sessions());
}
void Sandbox::destroy_session(std::string session_id) {
  Engine& engine = Engine::usable(engine_);
  engine.run(engine.sandbox().destroy_session(std::move(session_id)));
}
std::vector<std::string> Sandbox::reap() {
  Engine& engine = Engine::usable(engine_);
  return engine.run(engine.sandbox().reap());
}
std::string_view Sandbox::name() const noexcept {
  return engine_ ? engine_->sandbox().name() : std::string_view();
}

}  // namespace caisson::blocking
