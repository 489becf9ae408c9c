// The base of providers.
#include "caisson/kit/managed_sandbox.h"

#include "caisson/contract/validate.h"
#include "kit/chokepoint.h"
#include "kit/event.h"
#include "kit/managed_session.h"
#include "kit/session_table.h"
#include "os/clock.h"
#include "os/fault_point.h"

namespace caisson::kit {
namespace {

namespace asio = boost::asio;

// Makes, lists and, when the caller was cancelled meanwhile, unmakes a session.
Awaitable<std::shared_ptr<SandboxSession>> create(std::shared_ptr<SessionTable> table, SessionRecord record,
                                                  BootTime created, Strand strand) {
  // Resources are made whole or not at all: a cancellation is acted on afterwards.
  co_await asio::this_coro::throw_if_cancelled(false);
  const SessionTable::ProviderCall call(table);
  auto box = co_await table->hooks().create_resources(record);
  auto session = std::make_shared<ManagedSession>(table, std::move(record), box, strand);
  const auto cancellation = co_await asio::this_coro::cancellation_state;
  const bool cancelled = cancellation.cancelled() != asio::cancellation_type::none;
  os::kill_point("create.list");
  const bool listed = !cancelled && table->add(session, created);
  os::kill_point("create.listed");
  if (!listed) {
    co_await table->hooks().destroy_resources(session->record(), std::move(box), Disposal::undo);
    if (cancelled) throw boost::system::system_error(asio::error::operation_aborted);
    throw SandboxError(ErrorCode::session_destroyed, "the sandbox was closed while the session was made");
  }
  co_return session;
}

Awaitable<std::shared_ptr<SandboxSession>> create_checked(std::shared_ptr<SessionTable> table,
                                                          SandboxSessionSpec spec,
                                                          asio::any_io_executor executor) {
  table->require_own_process();
  const auto policy = table->policy();
  if (!policy) throw std::logic_error("create_session before a policy was bound; call bind_policy first");
  validate(spec);
  SessionRecord record;
  record.spec = apply_policy(*policy, std::move(spec));
  check_lifetime(table->options().dispatch, record.spec);
  {
    const SessionTable::ProviderCall call(table);
    table->hooks().check_enforceable(record.spec);
    record.id = table->hooks().new_session_id(record.spec);
  }
  record.created_at = table->options().clock->utc();
  const BootTime created = table->options().clock->now();
  const Strand strand = asio::make_strand(executor);
  co_return co_await on_strand(strand, create(table, std::move(record), created, strand));
}

// One sweep: every due session is ended at the same time as the others, each waiting out its own kill.
struct Sweep {
  explicit Sweep(const Strand& strand) : done(strand) {}
  std::vector<std::string> ended;
  std::size_t running = 0;
  Event done;
};

Awaitable<void> end_one(std::shared_ptr<ManagedSession> session, std::shared_ptr<Sweep> sweep, Log log) {
  std::string failure;
  bool ended = false;
  try {
    ended = co_await on_strand(session->strand(), ManagedSession::end(session, Disposal::keep_persistent));
  } catch (const std::exception& error) {
    failure = error.what();
  }
  if (!failure.empty() && log)
    log(LogLevel::error, "session " + session->id() + " could not be reaped: " + failure);
  if (ended) sweep->ended.push_back(session->id());
  --sweep->running;
  sweep->done.notify();
}

Awaitable<std::vector<std::string>> sweep_due(std::shared_ptr<SessionTable> table, Strand strand) {
  table->require_own_process();
  auto due = table->begin_reap();
  auto sweep = std::make_shared<Sweep>(strand);
  sweep->running = due.size();
  for (const auto& session : due) {
    spawn_task(strand, end_one(session, sweep, table->options().log), table->options().log,
               "reaping a session");
  }
  while (sweep->running > 0) co_await sweep->done.wait();
  std::vector<std::string> ids;
  for (const auto& session : due) {
    if (std::ranges::find(sweep->ended, session->id()) != sweep->ended.end()) ids.push_back(session->id());
  }
  co_return ids;
}

Awaitable<void> end_session(std::shared_ptr<SessionTable> table, std::string id, Disposal disposal) {
  table->require_own_process();
  auto session = table->find(id);
  if (!session) co_return;
  co_await on_strand(session->strand(), ManagedSession::end(session, disposal));
}

Awaitable<std::shared_ptr<SandboxSession>> find_session(std::shared_ptr<SessionTable> table, std::string id) {
  table->require_own_process();
  co_return table->find_live(id);
}

Awaitable<std::vector<SandboxSessionInfo>> list_infos(std::shared_ptr<SessionTable> table) {
  table->require_own_process();
  std::vector<SandboxSessionInfo> infos;
  for (const auto& session : table->all()) {
    if (auto info = session->listed_info()) infos.push_back(std::move(*info));
  }
  co_return infos;
}

Awaitable<void> as_provider_call(std::unique_ptr<SessionTable::ProviderCall> call, Awaitable<void> work) {
  co_await std::move(work);
  call.reset();
}

}  // namespace

ManagedSandbox::ManagedSandbox(ManagedOptions options) {
  ProviderHooks hooks{
      [this](const SandboxSessionSpec& spec) { check_enforceable(spec); },
      [this](const SandboxSessionSpec& spec) { return new_session_id(spec); },
      [this](const SessionRecord& record) { return create_resources(record); },
      [this](const SessionRecord& record, std::shared_ptr<SessionBox> box, Disposal disposal) {
        return destroy_resources(record, std::move(box), disposal);
      }};
  table_ = std::make_shared<SessionTable>(std::move(options), std::move(hooks));
}

ManagedSandbox::~ManagedSandbox() = default;

std::string ManagedSandbox::new_session_id(const SandboxSessionSpec& /*spec*/) { return os::random_hex_id(); }

Awaitable<std::shared_ptr<SandboxSession>> ManagedSandbox::create_session(SandboxSessionSpec spec) {
  return create_checked(table_, std::move(spec), executor());
}

Awaitable<std::shared_ptr<SandboxSession>> ManagedSandbox::get_session(std::string session_id) {
  return find_session(table_, std::move(session_id));
}

Awaitable<std::vector<SandboxSessionInfo>> ManagedSandbox::list_sessions() { return list_infos(table_); }

Awaitable<void> ManagedSandbox::destroy_session(std::string session_id) {
  return end_session(table_, std::move(session_id), Disposal::remove_workspace);
}

Awaitable<void> ManagedSandbox::release_session(std::string session_id) {
  return end_session(table_, std::move(session_id), Disposal::keep_persistent);
}

Awaitable<std::vector<std::string>> ManagedSandbox::reap() {
  const Strand strand = asio::make_strand(executor());
  return on_strand(strand, sweep_due(table_, strand));
}

void ManagedSandbox::bind_policy(SandboxPolicy policy) { table_->bind_policy(policy); }
std::optional<SandboxPolicy> ManagedSandbox::policy() const { return table_->policy(); }
const DispatchSettings& ManagedSandbox::dispatch() const noexcept { return table_->options().dispatch; }
const std::shared_ptr<Clock>& ManagedSandbox::clock() const noexcept { return table_->options().clock; }
const Log& ManagedSandbox::log() const noexcept { return table_->options().log; }
boost::asio::any_io_executor ManagedSandbox::executor() const { return table_->options().executor; }

void ManagedSandbox::close() noexcept {
  const auto left = table_->close();
  // All are told before the first is waited for.
  for (const auto& session : left) session->kill_execs();
  for (const auto& session : left) session->end_blocking();
}

void ManagedSandbox::run_in_background(Awaitable<void> work, const char* what) {
  std::unique_ptr<SessionTable::ProviderCall> call;
  try {
    call = std::make_unique<SessionTable::ProviderCall>(table_);
  } catch (const SandboxError&) {
    return;  // It is closed.
  }
  spawn_task(executor(), as_provider_call(std::move(call), std::move(work)), log(), what);
}

void ManagedSandbox::reject(const std::string& facet) {
  throw SandboxSpecRejectedError(ErrorCode::not_enforceable, "provider cannot enforce: " + facet);
}

}  // namespace caisson::kit
