// What must hold in a round, whatever the order.
#include <algorithm>

#include "tests/races/race_round.h"

namespace caisson::test {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::seconds ttl{60};
constexpr std::string_view cut_short = "while the command ran";

}  // namespace

bool RaceRound::ends(Kind kind) {
  return kind == Kind::destroy || kind == Kind::release || kind == Kind::destroy_session ||
         kind == Kind::release_session;
}

bool RaceRound::runs(Kind kind) { return kind == Kind::exec || kind == Kind::exec_start; }

// A primitive of the provider begins.
void RaceRound::check_begin(const kit::ScriptedCall& call, Session& session, bool closing) {
  const std::string name = std::string(call.what) + " of s" + std::to_string(ids_[call.id]);
  if (call.what == "create") return;
  const std::vector<kit::Disposal> ended = teardowns(call.id);
  // A destroy may come while a release is at it.
  const bool goes_further = call.what == "destroy" && ended == std::vector{kit::Disposal::keep_persistent} &&
                            call.disposal == kit::Disposal::remove_workspace;
  if (!ended.empty() && !goes_further &&
      (call.what == "destroy" || call.what == "start" || call.what == "open"))
    blame((call.what == "destroy" ? "S-24: " : "S-26: ") + name + " after it was torn down");
  if (call.what != "destroy") return;
  if (call.disposal == kit::Disposal::undo) {
    if (session.object) blame("S-24: the teardown of a session that was given out is an undo");
    return;
  }
  if (!session.end_seen) session.end_seen = now();
  if (!closing && session.active > 0) blame("S-26: a teardown while calls of its box are under way");
  for (const auto& command : script_->commands) {
    if (command->session == call.id && !(command->ended && command->empty))
      blame("S-26: a teardown while " + command->plan->argv[0] + " has processes left");
  }
  const bool removes = call.disposal == kit::Disposal::remove_workspace;
  if (removes && !session.destroy_called) blame("S-21: the workspace goes though nobody asked for that");
  if (!removes && session.destroy_returned) blame("S-24: a destroy that failed once is forgotten");
}

// A call has returned: typed, with an error that it may have, and refused where it must be.
void RaceRound::check_outcome(const Call& call) {
  const std::string name = "call " + std::to_string(call.number) + " (" + name_of(call.kind) + ")";
  if (call.error) {
    std::vector<ErrorCode> may;
    switch (call.kind) {
      case Kind::touch:
      case Kind::info:
      case Kind::get_session:
        may = {ErrorCode::session_not_found};
        break;
      case Kind::exec:
      case Kind::exec_start:
        may = {ErrorCode::session_destroyed, ErrorCode::timeout, ErrorCode::command_not_found};
        if (max_lifetime_) may.push_back(ErrorCode::invalid_argument);
        break;
      case Kind::handle:
        may = {ErrorCode::session_destroyed, ErrorCode::timeout};
        if (stubborn_) may.push_back(ErrorCode::internal);  // the killed command is not gone yet
        break;
      case Kind::put_file:
      case Kind::get_file:
        may = {ErrorCode::session_destroyed, ErrorCode::file_missing};
        break;
      case Kind::create:
        may = {ErrorCode::unavailable, ErrorCode::workspace_conflict, ErrorCode::session_destroyed};
        break;
      case Kind::list:
      case Kind::reap:
        break;
      default:
        may = {ErrorCode::removal_failed};
        break;
    }
    if (std::ranges::find(may, *call.error) == may.end()) blame(name + " failed: " + call.message);
  }
  if (call.kind > Kind::get_session || ends(call.kind) || call.aborted) return;
  const Session& session = sessions_[call.session];
  const bool after_end = (session.ended && call.called.step >= session.ended->step) ||
                         (closed_ && call.called.step >= closed_->step);
  if (after_end && !call.error) blame("S-26: " + name + " went through after the session had ended");
}

// Whether `exec` may have been live while `asked` was under way.
bool RaceRound::may_be_live(const Call& exec, const Call& asked) const {
  if (exec.kind == Kind::exec || exec.error || exec.aborted)
    return !exec.returned || exec.returned->step > asked.called.step;
  return std::ranges::none_of(calls_, [&](const Call& handle) {
    return handle.kind == Kind::handle && handle.parent == exec.number && handle.drains && handle.returned &&
           handle.returned->step <= asked.called.step && !handle.aborted;
  });
}

// S-20: max(now, latest deadline of a live exec) + ttl, and no later than the session may live. What is known
// is when each call was made and when it had returned.
void RaceRound::check_expiry(const Call& call, Session& session, UtcTime expires_at) {
  if (call.utc_steps != utc_steps_) return;
  const std::size_t index = ids_[session.id];
  const auto offset = loop_->clock()->utc().time_since_epoch() - loop_->clock()->now().time_since_epoch();
  const kit::BootTime expires(expires_at.time_since_epoch() - offset);
  kit::BootTime least = session.created_from + ttl;
  kit::BootTime most = call.returned->time + ttl;
  for (const Call& other : calls_) {
    if (other.kind > Kind::get_session || other.session != index || other.called.step > call.returned->step)
      continue;
    // A session that info shows is live; one of a list may be past its end, which the end of a transfer moves
    // no more.
    const bool transfers = other.kind == Kind::put_file || other.kind == Kind::get_file;
    const bool moves =
        other.kind == Kind::touch || runs(other.kind) || (transfers && call.kind == Kind::info);
    const bool done = other.returned && other.returned->step <= call.called.step;
    if (moves && done && !other.error && !other.aborted) least = std::max(least, other.called.time + ttl);
    if (!runs(other.kind)) continue;
    if (may_be_live(other, call)) {
      const kit::BootTime begun =
          other.returned ? std::min(other.returned->time, call.returned->time) : call.returned->time;
      most = std::max(most, begun + other.timeout + ttl);
    }
    const bool runs_still = std::ranges::any_of(script_->commands, [&](const auto& command) {
      return command->plan->argv[0] == "c" + std::to_string(other.number) && !command->ended;
    });
    const kit::BootTime deadline = other.called.time + other.timeout;
    if (other.kind == Kind::exec_start && done && !other.error && !other.aborted && runs_still &&
        call.returned->time < deadline)
      least = std::max(least, deadline + ttl);
  }
  if (max_lifetime_) {
    const auto life =
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(*max_lifetime_));
    least = std::min(least, session.created_from + life);
    most = std::min(most, session.created_to + life);
  }
  ++seen_["deadlines shown"];
  if (least == most) ++seen_["deadlines known exactly"];
  const auto seconds = [&](kit::BootTime time) {
    return std::to_string(std::chrono::duration<double>(time - session.created_from).count());
  };
  if (expires < least || expires > most) {
    blame("S-20: s" + std::to_string(index) + " expires " + seconds(expires) + " s after its create, not " +
          seconds(least) + " to " + seconds(most));
  }
}

void RaceRound::check_reaped(const Call& call, const std::vector<std::string>& ids) {
  std::vector<std::pair<UtcTime, std::string>> order;
  for (const std::string& id : ids) {
    Session* const session = session_of(id);
    if (session == nullptr) return blame("reap names a session that nobody made");
    order.emplace_back(session->created_at, id);
    if (session->reaped) blame("S-24: two reaps say that they ended one session");
    if (!torn_down(id)) blame("S-21: reap names a session that is still there");
    session->reaped = true;
    if (!session->ended) session->ended = call.returned;
    ++seen_["reaped"];
  }
  if (!std::ranges::is_sorted(order)) blame("S-21: reap names sessions out of ledger order");
}

// S-23: what only a reap can have ended had a deadline that was over then.
void RaceRound::check_life(const Session& session) {
  if (!session.object || !session.end_seen) return;
  const std::uint64_t step = session.end_seen->step;
  if (session.end_called && session.end_called->step <= step) return;
  if (closed_ && closed_->step <= step) return;
  for (const Call& call : calls_) {
    if (call.kind > Kind::get_session || sessions_[call.session].id != session.id || call.aborted) continue;
    if (runs(call.kind) && call.message.find(cut_short) != std::string::npos && !max_lifetime_ &&
        call.returned->step <= step)
      blame("S-22: a reap cut call " + std::to_string(call.number) + " short, a live exec");
    if (call.error || !(call.kind == Kind::touch || runs(call.kind))) continue;
    kit::BootTime until = call.called.time + ttl;
    if (max_lifetime_) {
      until = std::min(until, session.created_from + std::chrono::duration_cast<std::chrono::nanoseconds>(
                                                         std::chrono::duration<double>(*max_lifetime_)));
    }
    if (session.end_seen->time < until)
      blame("S-23: call " + std::to_string(call.number) + " (" + name_of(call.kind) +
            ") succeeded, and yet the session was reaped before its new deadline");
  }
  ++seen_["ended by a reap alone"];
}

// S-24, S-27, S-33: at the end of a round everything that was made has been torn down, once.
void RaceRound::check_teardowns() {
  for (const auto& session : sessions_) {
    const std::string name = "s" + std::to_string(ids_[session.id]);
    const auto times = teardowns(session.id).size();
    const bool made = std::ranges::find(script_->created, session.id) != script_->created.end();
    if (!blames_.empty()) return;
    if (!made && times > 0) blame("S-27: " + name + " was torn down, and never made");
    // What a close cannot remove is for the next recovery.
    const bool left_by_close = session.failures > 0 && !torn_down(session.id) && closed_ && !logged_.empty();
    // What may be torn down again was looked at when it was.
    if (made && times != 1 && times != 2 && !left_by_close)
      blame("S-24: " + name + " was torn down " + std::to_string(times) + " times");
    if (session.failures > 0) ++seen_["a teardown failed"];
    const bool wants_report = times > 0 && session.object && !session.end_called && session.end_seen &&
                              !close_at_ && std::ranges::none_of(calls_, [](const Call& call) {
                                return call.kind == Kind::reap && call.cancelled;
                              });
    if (wants_report && !session.reaped) blame("S-21: no reap names " + name + ", which one has ended");
  }
  for (const auto& command : script_->commands) {
    if (!command->ended || !command->empty)
      blame("S-26: " + command->plan->argv[0] + " outlives its session");
  }
  if (!workspaces_.empty() && !close_at_) blame("S-25: a workspace is left with users");
}

void RaceRound::count_sightings() {
  for (const Call& call : calls_) {
    const std::string name = name_of(call.kind);
    if (!call.returned) continue;
    ++seen_[name + (call.aborted ? " cancelled" : call.error ? " refused or failed" : " done")];
    if (call.error == ErrorCode::workspace_conflict) ++seen_["a create met a wish"];
    if (call.error == ErrorCode::timeout) ++seen_["an exec timed out"];
    if (call.message.find(cut_short) != std::string::npos)
      ++seen_["an exec was cut short by its session's end"];
  }
  for (const auto& [id, disposal] : script_->destroyed) {
    if (disposal == kit::Disposal::undo) ++seen_["a create was taken back"];
  }
  ++seen_["rounds"];
}

}  // namespace caisson::test
