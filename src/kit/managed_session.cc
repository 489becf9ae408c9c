// A session of a ManagedSandbox.
#include "kit/managed_session.h"

#include <boost/asio/io_context.hpp>

#include "caisson/contract/validate.h"
#include "contract/quote.h"
#include "kit/chokepoint.h"
#include "kit/exec_handle.h"
#include "kit/session_files.h"
#include "os/fault_point.h"

namespace caisson::kit {
namespace {

namespace asio = boost::asio;

// How long a teardown waits for killed processes; what takes longer stays listed and is tried again.
constexpr std::chrono::seconds end_patience{2};

[[noreturn]] void throw_destroyed(const std::string& id) {
  throw SandboxError(ErrorCode::session_destroyed, "session " + id + " was destroyed; create a new one");
}

// Abandons an exec whose awaiting coroutine goes away, by an exception or by the destruction of its frame.
class AbandonUnlessReleased {
 public:
  explicit AbandonUnlessReleased(std::shared_ptr<Exec> exec) : exec_(std::move(exec)) {}
  ~AbandonUnlessReleased() {
    if (exec_) exec_->abandon();
  }
  AbandonUnlessReleased(const AbandonUnlessReleased&) = delete;
  AbandonUnlessReleased& operator=(const AbandonUnlessReleased&) = delete;
  void release() noexcept { exec_.reset(); }

 private:
  std::shared_ptr<Exec> exec_;
};

// Waits with `wait`; when the waiting coroutine is cancelled, kills the exec's tree, waits for its end deaf
// to further cancellation, and lets the cancellation go on (S-52).
Awaitable<void> wait_or_kill(std::shared_ptr<Exec> exec, Awaitable<void> wait) {
  AbandonUnlessReleased guard(exec);
  std::exception_ptr failure;
  try {
    co_await std::move(wait);
  } catch (...) {
    failure = std::current_exception();
  }
  if (failure) {
    co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
    exec->abandon();
    exec->give_up_in_time();
    co_await Exec::wait_over(exec);
    co_await Exec::wait_gone(exec, std::chrono::seconds(2));
    exec->settled();
    std::rethrow_exception(failure);
  }
  guard.release();
}

}  // namespace

ManagedSession::ManagedSession(std::shared_ptr<SessionTable> table, SessionRecord record,
                               std::shared_ptr<SessionBox> box, Strand strand)
    : table_(std::move(table)),
      record_(std::move(record)),
      workspace_path_(box->workspace_path()),
      strand_(std::move(strand)),
      box_(std::move(box)),
      change_event_(strand_) {}

ManagedSession::~ManagedSession() = default;

std::shared_ptr<SessionBox> ManagedSession::box() const {
  const std::lock_guard lock(mutex_);
  if (!box_) throw_destroyed(id());
  return box_;
}

std::vector<std::shared_ptr<Exec>> ManagedSession::execs() const {
  const std::lock_guard lock(mutex_);
  return execs_;
}

void ManagedSession::require_live() const {
  if (!table_->is_live(id())) throw_destroyed(id());
}

std::optional<SandboxSessionInfo> ManagedSession::listed_info() const {
  const auto expires = table_->expires_at(id());
  if (!expires) return std::nullopt;
  SandboxSessionInfo info;
  info.id = record_.id;
  info.image = record_.spec.image;
  info.workspace_key = record_.spec.workspace_key;
  info.workspace_path = workspace_path_;
  info.durability = record_.spec.durability;
  info.created_at = record_.created_at;
  info.expires_at = *expires;
  info.labels = consumer_labels(record_.spec.labels);
  return info;
}

Awaitable<SandboxSessionInfo> ManagedSession::read_info(std::shared_ptr<ManagedSession> self) {
  self->table_->require_own_process();
  auto info = self->listed_info();
  if (!info || !self->table_->is_live(self->id())) throw SandboxSessionNotFoundError(self->id());
  co_return std::move(*info);
}

Awaitable<void> ManagedSession::extend(std::shared_ptr<ManagedSession> self) {
  self->table_->require_own_process();
  if (!self->table_->touch(self->id())) throw SandboxSessionNotFoundError(self->id());
  co_return;
}

ExecRequest ManagedSession::request_of(Argv argv, ExecOptions options, bool capture) const {
  validate(argv, options, table_->options().dispatch.max_timeout_seconds);
  const BootTime now = table_->options().clock->now();
  ExecRequest request;
  request.timeout = options.timeout();
  request.deadline = now + std::chrono::duration_cast<BootClock::duration>(options.timeout());
  if (const auto end = table_->end_of_life(id()); end && request.deadline > *end) {
    throw SandboxError(ErrorCode::invalid_argument,
                       "a timeout of " + plain_number(options.timeout().count()) +
                           " s would outlive the session, which may live " +
                           plain_number(*table_->options().dispatch.max_lifetime_seconds) +
                           " s in all; ask for less",
                       "timeout_seconds");
  }
  auto plan = std::make_shared<ExecPlan>();
  plan->argv = argv.words();
  plan->env = clone(record_.spec.env);
  for (const auto& [name, value] : options.env()) plan->env[name] = value.clone();
  plan->cwd = options.cwd();
  plan->input = !capture || options.input().has_value();
  plan->tty = options.tty();
  request.plan = std::move(plan);
  if (capture) request.input = options.input();
  request.capture = capture;
  request.cap = options.output_cap();
  request.allow_truncation = options.allow_truncation();
  return request;
}

std::shared_ptr<Exec> ManagedSession::begin_exec(ExecRequest request) {
  const BootTime deadline = request.deadline;
  if (!table_->exec_begins(id(), deadline)) throw_destroyed(id());
  ExecContext context{strand_,
                      nullptr,
                      table_->options().clock,
                      table_->gate(),
                      table_->options().log,
                      [weak = weak_from_this(), deadline] {
                        if (auto self = weak.lock()) self->exec_over(deadline);
                      }};
  std::shared_ptr<Exec> exec;
  {
    // In one step, so that a sandbox that closes either prevents the exec or finds it.
    const std::lock_guard lock(mutex_);
    if (!box_) throw_destroyed(id());
    context.box = box_;
    exec = std::make_shared<Exec>(std::move(context), std::move(request));
    execs_.push_back(exec);
  }
  exec->launch();
  return exec;
}

// An exec is over; those that have left nothing behind are let go.
void ManagedSession::exec_over(BootTime deadline) {
  table_->exec_ends(id(), deadline);
  asio::post(strand_, [self = shared_from_this()] {
    if (!self->ending_) self->drop_settled();
  });
}

void ManagedSession::drop_settled() {
  std::vector<std::shared_ptr<Exec>> settled = execs();
  std::erase_if(settled, [](const auto& exec) { return !exec->settled(); });
  const std::lock_guard lock(mutex_);
  std::erase_if(execs_,
                [&settled](const auto& exec) { return std::ranges::find(settled, exec) != settled.end(); });
}

Awaitable<ExecResult> ManagedSession::run_exec(std::shared_ptr<ManagedSession> self, ExecRequest request) {
  auto exec = self->begin_exec(std::move(request));
  co_await wait_or_kill(exec, Exec::wait_over(exec));
  co_return exec->take_result();
}

Awaitable<std::unique_ptr<SandboxExecHandle>> ManagedSession::start_exec(std::shared_ptr<ManagedSession> self,
                                                                         ExecRequest request) {
  auto exec = self->begin_exec(std::move(request));
  co_await wait_or_kill(exec, Exec::wait_started(exec));
  co_return make_exec_handle(exec);
}

Awaitable<ExecResult> ManagedSession::begin_run(std::shared_ptr<ManagedSession> self, Argv argv,
                                                ExecOptions options) {
  self->table_->require_own_process();
  if (options.tty()) {
    throw SandboxError(ErrorCode::invalid_argument,
                       "exec captures output and gives no terminal; use exec_start", "tty");
  }
  auto request = self->request_of(std::move(argv), std::move(options), true);
  co_return co_await on_strand(self->strand_, run_exec(self, std::move(request)));
}

Awaitable<std::unique_ptr<SandboxExecHandle>> ManagedSession::begin_start(
    std::shared_ptr<ManagedSession> self, Argv argv, ExecOptions options) {
  self->table_->require_own_process();
  if (options.input()) {
    throw SandboxError(ErrorCode::invalid_argument,
                       "exec_start takes no input; write it with write_stdin, then close_stdin", "stdin");
  }
  auto request = self->request_of(std::move(argv), std::move(options), false);
  co_return co_await on_strand(self->strand_, start_exec(self, std::move(request)));
}

Awaitable<void> ManagedSession::write_file(std::shared_ptr<ManagedSession> self, std::string path,
                                           std::string data, FileMode mode) {
  Transfer transfer(self);
  const auto box = self->box();
  co_await box->put_file(std::move(path), std::move(data), mode);
}

Awaitable<std::string> ManagedSession::read_file(std::shared_ptr<ManagedSession> self, std::string path) {
  Transfer transfer(self);
  const auto box = self->box();
  co_return co_await box->get_file(std::move(path), self->table_->options().dispatch.max_file_bytes);
}

Awaitable<void> ManagedSession::begin_put(std::shared_ptr<ManagedSession> self, std::string path,
                                          std::string data, FileMode mode) {
  if (const auto cap = self->table_->options().dispatch.max_file_bytes; data.size() > cap) {
    throw SandboxError(ErrorCode::too_large,
                       "the data is larger than an in-memory transfer takes, " + std::to_string(cap) +
                           " bytes; stream it with open_writer",
                       "data");
  }
  co_await on_strand(self->strand_, write_file(self, std::move(path), std::move(data), mode));
}

Awaitable<void> ManagedSession::end_on_strand(std::shared_ptr<ManagedSession> self, Disposal disposal) {
  self->table_->require_own_process();
  co_await on_strand(self->strand_, end(self, disposal));
}

Awaitable<SandboxSessionInfo> ManagedSession::info() { return read_info(shared_from_this()); }
Awaitable<void> ManagedSession::touch() { return extend(shared_from_this()); }
Awaitable<ExecResult> ManagedSession::exec(Argv argv, ExecOptions options) {
  return begin_run(shared_from_this(), std::move(argv), std::move(options));
}
Awaitable<std::unique_ptr<SandboxExecHandle>> ManagedSession::exec_start(Argv argv, ExecOptions options) {
  return begin_start(shared_from_this(), std::move(argv), std::move(options));
}
Awaitable<void> ManagedSession::put_file(std::string path, std::string data, FileMode mode) {
  return begin_put(shared_from_this(), std::move(path), std::move(data), mode);
}
Awaitable<std::string> ManagedSession::get_file(std::string path) {
  return on_strand(strand_, read_file(shared_from_this(), std::move(path)));
}
Awaitable<std::unique_ptr<SandboxFileReader>> ManagedSession::open_reader(std::string path) {
  return on_strand(strand_, begin_read(shared_from_this(), std::move(path)));
}
Awaitable<std::unique_ptr<SandboxFileWriter>> ManagedSession::open_writer(std::string path, FileMode mode) {
  return on_strand(strand_, begin_write(shared_from_this(), std::move(path), mode));
}
Awaitable<void> ManagedSession::destroy() {
  return end_on_strand(shared_from_this(), Disposal::remove_workspace);
}
Awaitable<void> ManagedSession::release() {
  return end_on_strand(shared_from_this(), Disposal::keep_persistent);
}

Awaitable<bool> ManagedSession::end(std::shared_ptr<ManagedSession> self, Disposal disposal) {
  co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
  if (disposal == Disposal::remove_workspace) self->remove_wished_ = true;
  self->table_->begin_end(self->id());
  while (self->ending_) co_await self->change_event_.wait();
  if (self->gone_) co_return false;
  self->ending_ = true;
  std::exception_ptr failure;
  bool torn_down = false;
  try {
    torn_down = co_await tear_down(self);
    self->gone_ = true;
    self->table_->remove(self->id());
  } catch (...) {
    failure = std::current_exception();
  }
  self->ending_ = false;
  self->change_event_.notify();
  if (failure && self->table_->closed()) co_return false;  // the sandbox ends the session itself
  if (failure) std::rethrow_exception(failure);
  co_return torn_down;
}

// S-26: processes first, files afterwards.
Awaitable<bool> ManagedSession::tear_down(std::shared_ptr<ManagedSession> self) {
  os::kill_point("end.processes");
  const auto until = std::chrono::steady_clock::now() + end_patience;
  const auto execs = self->execs();
  for (const auto& exec : execs) exec->end_with_session();
  self->end_processes();
  std::size_t left = 0;
  for (const auto& exec : execs) {
    const auto patience =
        std::max(until - std::chrono::steady_clock::now(), std::chrono::steady_clock::duration::zero());
    const bool gone = co_await Exec::wait_gone(exec, patience);
    if (!gone) ++left;
  }
  if (left > 0) {
    throw SandboxError(ErrorCode::removal_failed,
                       "session " + self->id() +
                           " still has killed processes that do not end (commands: " + std::to_string(left) +
                           "); it stays listed and is tried again at the next reap or destroy");
  }
  for (const auto& exec : execs) {
    co_await Exec::wait_over(exec);
    exec->settled();
  }
  {
    const std::lock_guard lock(self->mutex_);
    self->execs_.clear();
  }
  while (self->transfers_ > 0) co_await self->change_event_.wait();
  std::shared_ptr<SessionBox> box;
  {
    const std::lock_guard lock(self->mutex_);
    box = self->box_;
  }
  // A sandbox that has closed has ended the session itself.
  if (!box) co_return false;
  os::kill_point("end.files");
  const SessionTable::ProviderCall call(self->table_);
  // A destroy may come while a release is at it.
  for (std::optional<Disposal> done; done != self->disposal();) {
    done = self->disposal();
    co_await self->table_->hooks().destroy_resources(self->record_, box, *done);
  }
  // Before the call is over: a sandbox that closes and waits for it must find nothing left to tear down.
  const std::lock_guard lock(self->mutex_);
  self->box_.reset();
  co_return true;
}

Disposal ManagedSession::disposal() const noexcept {
  return remove_wished_ ? Disposal::remove_workspace : Disposal::keep_persistent;
}

void ManagedSession::end_processes() noexcept {
  std::shared_ptr<SessionBox> box;
  {
    const std::lock_guard lock(mutex_);
    box = box_;
  }
  if (box) box->end_processes();
}

void ManagedSession::kill_execs() noexcept {
  for (const auto& exec : execs()) exec->end_with_sandbox();
  end_processes();
}

void ManagedSession::end_blocking() noexcept {
  std::vector<std::shared_ptr<Exec>> execs;
  std::shared_ptr<SessionBox> box;
  {
    const std::lock_guard lock(mutex_);
    execs.swap(execs_);
    box.swap(box_);
  }
  if (!box) return;
  const auto until = std::chrono::steady_clock::now() + end_patience;
  for (const auto& exec : execs) exec->end_with_sandbox();
  box->end_processes();
  bool gone = true;
  for (const auto& exec : execs) gone = exec->settle_blocking(until) && gone;
  if (!gone) {
    // Its record stays, so that a recovery finds them again.
    if (table_->options().log) {
      table_->options().log(
          LogLevel::error,
          "session " + id() + " is left for the next recovery: its killed processes do not end");
    }
    return;
  }
  try {
    asio::io_context loop;
    spawn_task(loop.get_executor(), table_->hooks().destroy_resources(record_, std::move(box), disposal()),
               table_->options().log, "releasing a session");
    loop.run();
  } catch (const std::exception& error) {
    if (table_->options().log) {
      table_->options().log(LogLevel::error, std::string("releasing a session failed: ") + error.what());
    }
  }
}

}  // namespace caisson::kit
