// Faults of sessions as a provider keeps them: ids, info, labels, deadlines, reap.
#include <algorithm>

#include "kit/conformance/shared_faults.h"

namespace caisson::kit::conformance {
namespace {

/// Stands in for every session that is asked for.
Awaitable<SessionPtr> always_the_same(BenchPtr bench, SandboxSessionSpec spec) {
  if (!bench->twins.contains("only")) {
    SessionPtr session = co_await bench->sandbox().create_session(std::move(spec));
    bench->twins["only"] = std::move(session);
  }
  co_return bench->twins["only"];
}

void image_lost(BenchPtr, SandboxSessionInfo& info) { info.image.clear(); }

void own_labels_shown(BenchPtr, SandboxSessionInfo& info) { info.labels.emplace("tai42.sandbox", "1"); }

void newest_first(std::vector<SandboxSessionInfo>& sessions) {
  std::reverse(sessions.begin(), sessions.end());
}

Awaitable<SessionPtr> any_session(BenchPtr bench, std::string) {
  const auto sessions = co_await bench->sandbox().list_sessions();
  co_return co_await bench->sandbox().get_session(sessions.front().id);
}

Awaitable<SessionPtr> miss_names_no_id(BenchPtr bench, std::string id) {
  SessionPtr session;
  const std::exception_ptr error = co_await failure_of(bench->sandbox().get_session(std::move(id)), &session);
  if (error) throw SandboxError(ErrorCode::session_not_found, "no such session");
  co_return session;
}

Awaitable<std::vector<std::string>> reaped_newest_first(BenchPtr bench) {
  std::vector<std::string> ids = co_await bench->sandbox().reap();
  std::reverse(ids.begin(), ids.end());
  co_return ids;
}

constexpr Fault table[] = {
    {"session.ids", "two sessions have one id", {.create = always_the_same}},
    {"session.info_fields", "info does not know the image", {.info = image_lost}},
    {"session.labels", "labels of the provider's own are shown", {.info = own_labels_shown}},
    {"session.list_oldest_first", "the list begins with the newest", {.listed = newest_first}},
    {"session.get_by_id", "get_session finds another session", {.get = any_session}},
    {"session.unknown_id", "the error does not carry the id", {.get = miss_names_no_id}},
    {"ttl.touch_extends", "touch does nothing", {.touch = touch_ignored}},
    {"ttl.exec_extends", "an exec does not count as use", {.info = deadline_stays}},
    {"ttl.transfer_extends", "a file transfer does not count as use", {.info = deadline_stays}},
    {"ttl.live_exec_holds", "reap ends sessions with a live exec", {.reap = reaps_all}},
    {"reap.expired_only", "reap ends every session", {.reap = reaps_all}},
    {"reap.touch_spares", "touch does nothing", {.touch = touch_ignored}},
    {"reap.ledger_order", "reap gives the newest first", {.reap = reaped_newest_first}},
    {"reap.keeps_persistent_workspace", "reap destroys", {.reap = reaps_all}},
};

}  // namespace

std::span<const Fault> session_faults() { return table; }

}  // namespace caisson::kit::conformance
