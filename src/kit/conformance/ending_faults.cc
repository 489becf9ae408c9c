// Faults of what is left of a session once it has ended.
#include "kit/conformance/shared_faults.h"

namespace caisson::kit::conformance {
namespace {

/// Says what it would end, and ends nothing.
Awaitable<std::vector<std::string>> reap_reports_only(BenchPtr bench) {
  std::vector<std::string> ids;
  const auto sessions = co_await bench->sandbox().list_sessions();
  for (const SandboxSessionInfo& info : sessions) ids.push_back(info.id);
  co_return ids;
}

void half_of_the_id_fixed(BenchPtr, SandboxSessionInfo& info) { info.id.replace(0, 16, 16, '0'); }

Awaitable<void> kill_needs_a_session(BenchPtr, HandlePtr) {
  throw SandboxError(ErrorCode::session_destroyed, "the session was destroyed");
  co_return;
}

/// Forgets the session's end.
class ForgivingWriter final : public SandboxFileWriter {
 public:
  explicit ForgivingWriter(WriterPtr inner) : inner_(std::move(inner)) {}
  Awaitable<void> write(std::string data) override { return inner_->write(std::move(data)); }
  Awaitable<void> commit() override { return forgiven(inner_); }

 private:
  static Awaitable<void> forgiven(WriterPtr inner) {
    try {
      co_await inner->commit();
    } catch (const SandboxError&) {
      co_return;
    }
  }
  WriterPtr inner_;
};

Awaitable<WriterPtr> commit_never_fails(SessionPtr session, std::string path, FileMode mode) {
  WriterPtr inner = co_await session->open_writer(std::move(path), mode);
  co_return std::make_shared<ForgivingWriter>(std::move(inner));
}

constexpr Fault table[] = {
    {"release.refuses_calls_after", "release does nothing", {.release = release_ignored}},
    {"reap.refuses_calls_after", "reap does nothing", {.reap = reap_reports_only}},
    {"session.ended_is_not_found", "a touch of what has ended succeeds", {.touch = touch_ignored}},
    {"session.random_ids", "half of an id is the same in all", {.info = half_of_the_id_fixed}},
    {"destroy.handle_calls_after",
     "kill after the session's end is an error",
     {.kill = kill_needs_a_session}},
    {"destroy.open_transfers_end",
     "a commit after the session's end succeeds",
     {.open_writer = commit_never_fails}},
    {"destroy.processes_before_files",
     "processes outlive their session",
     {.create = with_hidden_twin, .exec = exec_in_twin, .exec_start = start_in_twin}},
    {"persistent.reap_fulfils_removal", "the wish is forgotten", {.destroy = destroy_releases}},
    {"persistent.provider_end_fulfils_removal", "the wish is forgotten", {.destroy = destroy_releases}},
    {"persistent.conflict_disturbs_nothing",
     "a conflict is a scratch workspace",
     {.create = conflict_is_scratch}},
    {"ephemeral.removed_at_every_end", "release does nothing", {.release = release_ignored}},
};

}  // namespace

std::span<const Fault> ending_faults() { return table; }

}  // namespace caisson::kit::conformance
