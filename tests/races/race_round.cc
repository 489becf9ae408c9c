// The driver of a round: what is called, when time moves, what commands do.
#include "tests/races/race_round.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

namespace caisson::test {
namespace {

using namespace std::chrono_literals;
namespace asio = boost::asio;

constexpr std::int64_t ttl_seconds = 60;
constexpr std::size_t patience = 100'000;  // decisions of one round, far more than any takes

enum class Use { drop, kill, drain };

Awaitable<void> use_handle(std::shared_ptr<SandboxExecHandle> handle, Use use) {
  if (use == Use::drop) co_return;
  if (use == Use::kill) {
    co_await handle->kill();
    co_return;
  }
  for (;;) {
    const auto item = co_await handle->output().next();
    if (!item) co_return;
  }
}

// A spawn that is cancelled before its first step throws out of its event loop (Asio 1.26), whatever it runs.
template <class T>
Awaitable<T> hear_from_here(bool* begun, Awaitable<T> work) {
  *begun = true;
  co_await asio::this_coro::reset_cancellation_state(asio::enable_total_cancellation());
  co_return co_await std::move(work);
}

struct Under {
  explicit Under(std::size_t& what) : count(what) { ++count; }
  ~Under() { --count; }
  Under(const Under&) = delete;
  Under& operator=(const Under&) = delete;
  std::size_t& count;
};

}  // namespace

const char* RaceRound::name_of(Kind kind) {
  static constexpr const char* names[] = {
      "touch",       "info",    "exec",    "exec_start",      "put_file",
      "get_file",    "destroy", "release", "destroy_session", "release_session",
      "get_session", "list",    "reap",    "create",          "handle"};
  return names[static_cast<std::size_t>(kind)];
}

RaceRound::RaceRound(std::uint64_t seed, Sightings& seen)
    : seed_(seed), loop_(std::in_place, seed), seen_(seen) {
  script_->moment = [this](kit::ScriptedCall call) { return moment(std::move(call)); };
  script_->files["there"] = "data";
  script_->turn = &loop_->turn();
}

RaceRound::~RaceRound() {
  // What still waits in the loop after a round that got stuck goes while all it looks at is there.
  failing_ = false;
  if (sandbox_) loop_->run_beside([this] { sandbox_.reset(); }, [] { return false; });
  for (auto& session : sessions_) session.object.reset();
  loop_.reset();
}

void RaceRound::note(std::string what) {
  trace_.push_back(std::to_string(loop_->steps()) + " " + std::move(what));
}
void RaceRound::blame(const std::string& what) {
  note("WRONG: " + what);
  blames_.push_back(what);
}

RaceRound::Session* RaceRound::session_of(const std::string& id) {
  const auto at = ids_.find(id);
  return at == ids_.end() ? nullptr : &sessions_[at->second];
}

std::vector<kit::Disposal> RaceRound::teardowns(const std::string& id) const {
  std::vector<kit::Disposal> disposals;
  for (const auto& [torn_down, disposal] : script_->destroyed) {
    if (torn_down == id) disposals.push_back(disposal);
  }
  return disposals;
}

bool RaceRound::torn_down(const std::string& id) const { return !teardowns(id).empty(); }

std::vector<kit::ScriptedCommand*> RaceRound::running() const {
  std::vector<kit::ScriptedCommand*> all;
  for (const auto& command : script_->commands) {
    if (!command->ended) all.push_back(command.get());
  }
  return all;
}

// Whether a command may be on its way, up to the moment that its leader is watched.
bool RaceRound::starting() const {
  return std::ranges::any_of(calls_, [this](const Call& call) {
    if (!call.begun || !runs(call.kind)) return false;  // one that was given up may start yet
    return std::ranges::none_of(script_->commands, [&](const auto& command) {
      return command->watched && command->plan->argv[0] == "c" + std::to_string(call.number);
    });
  });
}

bool RaceRound::all_returned() const {
  return std::ranges::all_of(calls_, [](const Call& call) { return call.returned.has_value(); });
}

std::vector<std::string> RaceRound::play() {
  open();
  make_first_sessions();
  race();
  if (blames_.empty()) end_what_is_left();
  for (const auto& session : sessions_) check_life(session);
  check_teardowns();
  count_sightings();
  return blames_;
}

void RaceRound::open() {
  persistent_ = loop_->one_in(2);
  if (loop_->one_in(4))
    max_lifetime_ = static_cast<double>(ttl_seconds + static_cast<std::int64_t>(loop_->below(40)));
  calls_left_ = 3 + loop_->below(9);
  creates_ = loop_->one_in(4);
  stubborn_ = loop_->one_in(6);
  if (loop_->one_in(5)) {
    close_at_ = 10 + loop_->below(80);
    stubborn_ = false;  // a close waits for those in real time
  }
  kit::ManagedOptions options;
  options.executor = loop_->executor();
  options.clock = loop_->clock();
  options.dispatch.max_lifetime_seconds = max_lifetime_;
  options.log = [this](kit::LogLevel, const std::string& line) {
    const std::lock_guard turn(loop_->turn());
    logged_.push_back(line);
  };
  sandbox_ = std::make_shared<kit::ScriptedSandbox>(options, script_);
  sandbox_->bind_policy({SandboxNetwork::egress, SandboxIsolation::none, false, true});
}

SandboxSessionSpec RaceRound::spec() {
  SandboxSessionSpec spec;
  spec.image = "host";
  spec.workspace_key = "shared";
  spec.durability = persistent_ ? SandboxDurability::persistent : SandboxDurability::ephemeral;
  spec.ttl_seconds = ttl_seconds;
  return spec;
}

void RaceRound::make_first_sessions() {
  failing_ = false;
  const std::size_t count = 1 + loop_->below(2);
  for (std::size_t made = 0; made < count; ++made) {
    launch(Kind::create, 0);
    loop_->run_until([this] { return all_returned(); });
    loop_->advance(1ms);
  }
  failing_ = true;
}

void RaceRound::race() {
  for (std::size_t decisions = 0; calls_left_ > 0 || !all_returned(); ++decisions) {
    if (decisions > patience) return blame("a call goes round and round");
    if (close_at_ && !closed_ && loop_->steps() >= *close_at_) close();
    switch (loop_->below(12)) {
      case 0:
        launch_any();
        continue;
      case 1:
        cancel_one();
        continue;
      case 2:
        jump();
        continue;
      case 3:
        end_one_command();
        continue;
      default:
        break;
    }
    if (loop_->step()) continue;
    if (calls_left_ > 0) {
      launch_any();
    } else if (!running().empty() && loop_->one_in(2)) {
      end_one_command();
    } else if (!loop_->step_in_time()) {
      for (const Call& call : calls_) {
        if (!call.returned) blame(std::string(name_of(call.kind)) + " never ended");
      }
      return;
    }
  }
}

void RaceRound::launch_any() {
  if (calls_left_ == 0) return;
  --calls_left_;
  if (creates_ && !closed_ && loop_->one_in(3)) {
    creates_ = false;
    loop_->advance(
        1us);  // one created_at for each session: the order of equal ones is by ids, which are random
    launch(Kind::create, 0);
    return;
  }
  std::vector<std::size_t> given;
  for (std::size_t at = 0; at < sessions_.size(); ++at) {
    if (sessions_[at].object) given.push_back(at);
  }
  if (given.empty()) return;
  const std::size_t session = given[loop_->below(given.size())];
  if (!closed_ && loop_->one_in(3)) {
    launch(loop_->one_in(3) ? Kind::list : Kind::reap, session);
    return;
  }
  Kind kind = static_cast<Kind>(loop_->below(kinds_on_session));
  // Half of what ends a session gives way, so that not every race is over at once.
  if (ends(kind) && loop_->one_in(2)) kind = Kind::touch;
  launch(kind, session);
}

RaceRound::Call& RaceRound::launch(Kind kind, std::size_t index) {
  Call& call = calls_.emplace_back();
  call.kind = kind;
  call.number = calls_.size() - 1;
  call.session = index;
  call.called = now();
  call.utc_steps = utc_steps_;
  note("call " + std::to_string(call.number) + ": " + name_of(kind) +
       (kind <= Kind::get_session ? " of s" + std::to_string(index) : ""));
  if (kind >= Kind::list) {
    if (kind == Kind::list) start(call, sandbox_->list_sessions());
    if (kind == Kind::reap) start(call, sandbox_->reap());
    if (kind == Kind::create) start(call, sandbox_->create_session(spec()));
    return call;
  }
  Session& session = sessions_[index];
  if (closed_) {  // what needs the sandbox becomes what does not
    if (kind == Kind::destroy_session) kind = Kind::destroy;
    if (kind == Kind::release_session) kind = Kind::release;
    if (kind == Kind::get_session) kind = Kind::touch;
    call.kind = kind;
  }
  if (ends(kind) && !session.end_called) session.end_called = call.called;
  if (kind == Kind::destroy || kind == Kind::destroy_session) session.destroy_called = true;
  call.timeout = std::chrono::seconds(1 + static_cast<std::int64_t>(loop_->below(20)));
  Argv argv{"c" + std::to_string(call.number)};
  switch (kind) {
    case Kind::touch:
      start(call, session.object->touch());
      break;
    case Kind::info:
      start(call, session.object->info());
      break;
    case Kind::exec:
      start(call, session.object->exec(argv, ExecOptions(call.timeout)));
      break;
    case Kind::exec_start:
      start(call, session.object->exec_start(argv, ExecOptions(call.timeout)));
      break;
    case Kind::put_file:
      start(call, session.object->put_file("new", "text"));
      break;
    case Kind::get_file:
      start(call, session.object->get_file("there"));
      break;
    case Kind::destroy:
      start(call, session.object->destroy());
      break;
    case Kind::release:
      start(call, session.object->release());
      break;
    case Kind::destroy_session:
      start(call, sandbox_->destroy_session(session.id));
      break;
    case Kind::release_session:
      start(call, sandbox_->release_session(session.id));
      break;
    default:
      start(call, sandbox_->get_session(session.id));
      break;
  }
  return call;
}

template <class T>
void RaceRound::start(Call& call, Awaitable<T> work) {
  Awaitable<T> hearing = hear_from_here(&call.begun, std::move(work));
  if constexpr (std::is_void_v<T>) {
    asio::co_spawn(loop_->executor(), std::move(hearing),
                   asio::bind_cancellation_slot(
                       call.cancel.slot(), [this, &call](std::exception_ptr error) { finish(call, error); }));
  } else {
    asio::co_spawn(
        loop_->executor(), std::move(hearing),
        asio::bind_cancellation_slot(call.cancel.slot(), [this, &call](std::exception_ptr error, T value) {
          finish(call, error);
          if (!error) take(call, std::move(value));
        }));
  }
}

void RaceRound::finish(Call& call, std::exception_ptr error) {
  call.returned = now();
  try {
    if (error) std::rethrow_exception(error);
  } catch (const SandboxError& failure) {
    call.error = failure.code();
    call.message = failure.what();
  } catch (const boost::system::system_error& failure) {
    call.aborted = failure.code() == asio::error::operation_aborted;
    if (!call.aborted || !call.cancelled) blame(std::string(name_of(call.kind)) + " threw " + failure.what());
  } catch (const std::exception& failure) {
    blame(std::string(name_of(call.kind)) + " threw " + failure.what());
  }
  note("call " + std::to_string(call.number) + ": " + name_of(call.kind) +
       (call.aborted ? " was cancelled"
        : call.error ? std::string(": ") + std::string(to_string(*call.error))
                     : " is done"));
  check_outcome(call);
  if (call.kind > Kind::get_session) return;
  Session& session = sessions_[call.session];
  const bool refused =
      call.error == ErrorCode::session_destroyed || call.error == ErrorCode::session_not_found;
  if (refused && !session.end_seen) session.end_seen = call.returned;
  if (!ends(call.kind) || call.aborted) return;
  if (!session.ended) session.ended = call.returned;
  if (call.kind == Kind::destroy || call.kind == Kind::destroy_session) session.destroy_returned = true;
}

void RaceRound::take(Call& call, SandboxSessionInfo info) {
  check_expiry(call, sessions_[call.session], info.expires_at);
}
void RaceRound::take(Call& call, std::vector<SandboxSessionInfo> infos) {
  for (const auto& info : infos) {
    Session* session = session_of(info.id);
    if (session == nullptr) {
      blame("list shows a session that nobody made");
    } else if (session->object && !session->end_seen && !session->end_called) {
      check_expiry(call, *session, info.expires_at);
    }
  }
}
void RaceRound::take(Call& call, std::vector<std::string> reaped) { check_reaped(call, reaped); }

void RaceRound::take(Call& call, std::shared_ptr<SandboxSession> object) {
  if (call.kind == Kind::get_session) {
    if (object->id() != sessions_[call.session].id) blame("get_session gave another session");
    return;
  }
  Session* session = session_of(object->id());
  if (session == nullptr) return blame("create gave a session that has no resources");
  session->object = std::move(object);
  session->created_from = call.called.time;
  session->created_to = call.returned->time;
}

void RaceRound::take(Call& call, std::unique_ptr<SandboxExecHandle> given) {
  const Use use = static_cast<Use>(loop_->below(3));
  Call& next = calls_.emplace_back();
  next.kind = Kind::handle;
  next.number = calls_.size() - 1;
  next.session = call.session;
  next.parent = call.number;
  next.drains = use == Use::drain;
  next.called = now();
  std::shared_ptr<SandboxExecHandle> handle = std::move(given);
  start(next, use_handle(std::move(handle), use));
}

void RaceRound::cancel_one() {
  std::vector<Call*> under_way;
  for (Call& call : calls_) {
    if (call.begun && !call.returned && !call.cancelled) under_way.push_back(&call);
  }
  if (under_way.empty() || !loop_->one_in(3)) return;
  Call* const call = under_way[loop_->below(under_way.size())];
  call->cancelled = true;
  note("cancel call " + std::to_string(call->number));
  asio::post(loop_->executor(), [call] {
    if (!call->returned) call->cancel.emit(asio::cancellation_type::terminal);
  });
}

void RaceRound::end_one_command() {
  const auto commands = running();
  if (commands.empty()) return;
  kit::ScriptedCommand& command = *commands[loop_->below(commands.size())];
  if (stubborn_ && !closed_ && loop_->one_in(2)) {
    command.dies_of_kill = false;
    return;
  }
  if (loop_->one_in(2)) return;
  command.exit(static_cast<int>(loop_->below(3)), loop_->one_in(5));
  note("command " + command.plan->argv[0] + " exits");
}

// To about a session's deadline, or a little on, or the wall clock alone.
void RaceRound::jump() {
  if (sessions_.empty() || !loop_->one_in(4)) return;
  if (loop_->one_in(4)) {
    const auto by = loop_->one_in(2) ? std::chrono::nanoseconds(1h) : std::chrono::nanoseconds(-1h);
    loop_->clock()->step_utc(by);
    utc_steps_ += by;
    note("the wall clock steps");
    return;
  }
  const std::size_t index = loop_->below(sessions_.size());
  kit::BootTime from = sessions_[index].created_to;
  for (const Call& call : calls_) {
    if (call.session == index && call.returned && !call.error && !call.aborted && call.kind < Kind::destroy &&
        call.kind != Kind::info) {
      from = std::max(from, call.returned->time);
    }
  }
  auto by = from + std::chrono::seconds(ttl_seconds) - now().time +
            std::chrono::milliseconds(loop_->below(3)) - 1ms;
  if (by <= 0ns || loop_->one_in(4)) by = std::chrono::milliseconds(loop_->below(20));
  loop_->advance(by);
  note("time moves by " + std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(by).count()) +
       " ms");
}

Awaitable<void> RaceRound::moment(kit::ScriptedCall call) {
  // A close that polls runs beside the loop: it then takes a turn for all of its moment, which never waits.
  const bool closing = !loop_->on_thread();
  std::unique_lock<std::recursive_mutex> own_turn;
  if (closing) own_turn = std::unique_lock(loop_->turn());
  if (call.what == "create") {
    ids_[call.id] = sessions_.size();
    Session& made = sessions_.emplace_back();
    made.id = call.id;
    made.created_at = loop_->clock()->utc();
    if (failing_ && loop_->one_in(4)) made.failures_left = 1 + loop_->below(2);
    if (!failing_ && loop_->one_in(5)) made.failures_left = 1 + loop_->below(2);
  }
  Session& session = *session_of(call.id);
  const std::string name = std::string(call.what) + " of s" + std::to_string(ids_[call.id]);
  note(name + " begins" + (closing ? " in the close" : ""));
  check_begin(call, session, closing);
  const bool of_provider = call.what == "create" || call.what == "destroy";
  std::size_t ignored = 0;
  const Under under(closing ? ignored : of_provider ? provider_calls_ : session.active);
  if (!closing) {
    const std::size_t turns = loop_->below(4);
    for (std::size_t turn = 0; turn < turns; ++turn) co_await asio::post(asio::use_awaitable);
    if (loop_->one_in(5)) {
      const std::chrono::milliseconds lasts(1 + loop_->below(40));
      asio::steady_timer timer(co_await asio::this_coro::executor, lasts);
      co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
    }
  }
  const bool fails = failing_ && !closing && loop_->one_in(12);
  if (call.what == "destroy") {
    if (failing_ && call.disposal != kit::Disposal::undo && session.failures_left > 0) {
      --session.failures_left;
      ++session.failures;
      note(name + " fails");
      throw SandboxError(ErrorCode::removal_failed, "the script keeps it");
    }
    Workspace& workspace = workspaces_["shared"];
    workspace.users.erase(call.id);
    if (call.disposal == kit::Disposal::remove_workspace) workspace.wished = true;
    if (workspace.users.empty()) workspaces_.erase("shared");
  } else if (call.what == "create") {
    if (fails) throw SandboxError(ErrorCode::unavailable, "the script has no box");
    Workspace& workspace = workspaces_["shared"];
    if (persistent_ && workspace.wished) throw SandboxError(ErrorCode::workspace_conflict, "to be removed");
    workspace.users.insert(call.id);
  } else if (fails) {
    if (call.what == "start" && loop_->one_in(2)) throw kit::DescriptorsExhausted();
    throw SandboxError(call.what == "start" ? ErrorCode::command_not_found : ErrorCode::file_missing,
                       "the script fails it");
  }
  note(name + " is done");
}

void RaceRound::close() {
  for (const auto& command : script_->commands) command->dies_of_kill = true;
  if (provider_calls_ > 0) ++seen_["closed with a provider's call under way"];
  note("the sandbox closes");
  closed_ = now();
  met_real_time_ = starting();
  const bool moved =
      loop_->run_beside([this] { sandbox_.reset(); }, [this] { return provider_calls_ > 0; }, met_real_time_);
  if (!moved) blame("a provider's call that a close waits for never ended");
  note("the sandbox has closed");
}

// What a failed teardown left goes with the next reap (S-21), what lives when its time is over.
void RaceRound::end_what_is_left() {
  failing_ = false;
  for (const auto& command : script_->commands) command->dies_of_kill = true;
  if (closed_) {
    loop_->settle();
    return;
  }
  const auto run = [this](Kind kind) {
    launch(kind, 0);
    if (!loop_->run_until([this] { return all_returned(); }))
      blame(std::string(name_of(kind)) + " never ended");
  };
  std::set<std::string> left;
  for (const auto& session : sessions_) {
    if (session.object && session.end_seen && !torn_down(session.id)) left.insert(session.id);
  }
  run(Kind::list);
  run(Kind::reap);
  for (const std::string& id : left) {
    if (!torn_down(id)) blame("S-21: what could not be removed was not tried again by the next reap");
    ++seen_["removed by a later reap"];
  }
  // Execs end by their deadlines, and their ends move the sessions'.
  loop_->advance(1min);
  loop_->settle();
  loop_->advance(24h);
  run(Kind::reap);
  close();
  loop_->settle();
}

}  // namespace caisson::test
