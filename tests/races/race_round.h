// RaceRound: calls that meet on a few sessions of a scripted sandbox, in an order of the seed's, and what
// must hold.
#pragma once

#include <boost/asio/cancellation_signal.hpp>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "kit/scripted_sandbox_test.h"
#include "tests/races/seeded_loop.h"

namespace caisson::test {

/// How often what a race can lead to was seen, by name: rounds that meet nothing prove nothing.
using Sightings = std::map<std::string, std::size_t>;

/// One round: opens a sandbox, makes sessions, lets calls race, waits for all of them, ends what is left.
class RaceRound {
 public:
  RaceRound(std::uint64_t seed, Sightings& seen);
  ~RaceRound();
  RaceRound(const RaceRound&) = delete;
  RaceRound& operator=(const RaceRound&) = delete;

  /// What did not hold; empty when all did.
  std::vector<std::string> play();
  /// What happened, in order; the same for the same seed.
  const std::vector<std::string>& trace() const noexcept { return trace_; }
  /// Whether real time had a say: the close met the start of a command, which it polls for.
  bool met_real_time() const noexcept { return met_real_time_; }

 private:
  enum class Kind {
    touch,
    info,
    exec,
    exec_start,
    put_file,
    get_file,
    destroy,
    release,
    destroy_session,
    release_session,
    get_session,
    // On the sandbox:
    list,
    reap,
    create,
    handle,  // what is done with a handle that exec_start gave
  };
  static constexpr std::size_t kinds_on_session = 11;  // the first of them
  static const char* name_of(Kind kind);

  // A point in the round: handlers run, and the time.
  struct When {
    std::uint64_t step = 0;
    kit::BootTime time;
  };
  struct Call {
    Kind kind{};
    std::size_t number = 0;
    std::size_t session = 0;  // what it is made on, if it is made on one
    std::chrono::seconds timeout{0};
    When called;
    std::optional<When> returned;
    std::chrono::nanoseconds utc_steps{0};  // of the wall clock, when it was called
    std::size_t parent = 0;                 // of a handle: the exec_start
    bool drains = false;                    // of a handle: reads to the end
    bool begun = false;
    bool cancelled = false;
    bool aborted = false;
    std::optional<ErrorCode> error;
    std::string message;
    boost::asio::cancellation_signal cancel;
  };
  // A session from the moment that its resources are asked for.
  struct Session {
    std::string id;
    std::shared_ptr<SandboxSession> object;  // once a create has given it out
    UtcTime created_at;
    kit::BootTime created_from;
    kit::BootTime created_to;
    std::optional<When> end_called;  // by the first destroy or release
    std::optional<When> end_seen;    // a call was refused, or a teardown began
    std::optional<When> ended;       // a destroy, a release or a reap has said so
    bool destroy_called = false;
    bool destroy_returned = false;
    bool reaped = false;  // and reported so
    std::size_t failures_left = 0;
    std::size_t failures = 0;
    std::size_t active = 0;  // calls of its box under way
  };
  struct Workspace {
    std::set<std::string> users;
    bool wished = false;
  };

  // race_round.cc: the driver.
  void open();
  void race();
  void make_first_sessions();
  Call& launch(Kind kind, std::size_t session);
  void launch_any();
  void cancel_one();
  void end_one_command();
  void jump();
  void close();
  void end_what_is_left();
  SandboxSessionSpec spec();
  Awaitable<void> moment(kit::ScriptedCall call);
  template <class T>
  void start(Call& call, Awaitable<T> work);
  void finish(Call& call, std::exception_ptr error);
  void take(Call& call, SandboxSessionInfo info);
  void take(Call& call, std::vector<SandboxSessionInfo> infos);
  void take(Call& call, std::vector<std::string> reaped);
  void take(Call& call, std::shared_ptr<SandboxSession> session);
  void take(Call& call, std::unique_ptr<SandboxExecHandle> handle);
  void take(Call&, ExecResult) {}
  void take(Call&, std::string) {}
  bool all_returned() const;
  When now() const { return {loop_->steps(), loop_->clock()->now()}; }
  Session* session_of(const std::string& id);
  std::vector<kit::Disposal> teardowns(const std::string& id) const;
  bool torn_down(const std::string& id) const;
  std::vector<kit::ScriptedCommand*> running() const;
  bool starting() const;
  void note(std::string what);
  void blame(const std::string& what);

  // race_checks.cc: what must hold.
  void check_begin(const kit::ScriptedCall& call, Session& session, bool closing);
  void check_outcome(const Call& call);
  void check_expiry(const Call& call, Session& session, UtcTime expires_at);
  void check_reaped(const Call& call, const std::vector<std::string>& ids);
  void check_life(const Session& session);
  void check_teardowns();
  bool may_be_live(const Call& exec, const Call& asked) const;
  void count_sightings();
  static bool ends(Kind kind);
  static bool runs(Kind kind);

  const std::uint64_t seed_;
  std::optional<SeededLoop> loop_;
  Sightings& seen_;
  std::vector<std::string> trace_;
  std::vector<std::string> blames_;
  std::vector<std::string> logged_;
  std::shared_ptr<kit::Script> script_ = std::make_shared<kit::Script>();
  std::shared_ptr<kit::ScriptedSandbox> sandbox_;

  // The round's own character.
  bool persistent_ = false;
  std::optional<double> max_lifetime_;
  std::size_t calls_left_ = 0;
  bool creates_ = false;                   // one more session is made in the race
  std::optional<std::uint64_t> close_at_;  // after so many steps
  std::optional<When> closed_;
  bool met_real_time_ = false;
  bool stubborn_ = false;  // some commands do not die of a kill
  bool failing_ = true;    // primitives may fail

  std::chrono::nanoseconds utc_steps_{0};
  std::deque<Session> sessions_;
  std::map<std::string, std::size_t> ids_;
  std::map<std::string, Workspace> workspaces_;
  std::deque<Call> calls_;
  std::size_t provider_calls_ = 0;
};

}  // namespace caisson::test
