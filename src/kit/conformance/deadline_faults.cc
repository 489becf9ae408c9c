// Faults of when deadlines move, and of the operator's limits on them.
#include "kit/conformance/shared_faults.h"

namespace caisson::kit::conformance {
namespace {

/// The latest deadline ever seen.
void never_back(BenchPtr bench, SandboxSessionInfo& info) {
  const auto age = std::chrono::ceil<std::chrono::seconds>(info.expires_at - info.created_at);
  bench->count = std::max(bench->count, static_cast<int>(age.count()));
  info.expires_at = info.created_at + std::chrono::seconds(bench->count);
}

void at_most_five_minutes_more(BenchPtr, SandboxSessionInfo& info) {
  info.expires_at = std::min(info.expires_at, info.created_at + std::chrono::seconds(3900));
}

void lives_longer(BenchPtr, SandboxSessionInfo& info) { info.expires_at += std::chrono::hours(1); }

Awaitable<SessionPtr> ttl_clamped(BenchPtr bench, SandboxSessionSpec spec) {
  spec.ttl_seconds = std::min<std::int64_t>(spec.ttl_seconds, 3600);
  return bench->sandbox().create_session(std::move(spec));
}

void timeout_clamped(Argv&, ExecOptions& options) {
  if (options.timeout() > std::chrono::hours(1)) options = with_timeout(options, std::chrono::hours(1));
}

constexpr Fault table[] = {
    {"ttl.exec_start_moves", "an exec's start does not count", {.info = deadline_stays}},
    {"ttl.exec_end_moves", "a deadline never moves back", {.info = never_back}},
    {"ttl.latest_live_exec_counts", "another exec's deadline counts", {.info = at_most_five_minutes_more}},
    {"ttl.streams_extend", "a streamed transfer does not count as use", {.info = deadline_stays}},
    {"ttl.wall_clock_step", "a session ends whatever its clock says", {.reap = reaps_all}},
    {"lifetime.caps_deadline", "a session lives longer", {.info = lives_longer}},
    {"lifetime.refuses_long_ttl", "a long ttl is clamped", {.create = ttl_clamped}},
    {"lifetime.refuses_long_exec", "a long timeout is clamped", {.request = timeout_clamped}},
    {"timeout.over_maximum", "a long timeout is clamped", {.request = timeout_clamped}},
};

}  // namespace

std::span<const Fault> deadline_faults() { return table; }

}  // namespace caisson::kit::conformance
