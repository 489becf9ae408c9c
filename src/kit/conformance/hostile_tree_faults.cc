// Faults of the removal of workspaces that do not want to be removed.
#include "kit/conformance/shared_faults.h"

namespace caisson::kit::conformance {
namespace {

Awaitable<void> follow_links(SessionPtr session) {
  // What a removal does that follows symbolic links to directories.
  Argv argv{
      "sh", "-c",
      "for entry in *; do if test -h \"$entry\" && test -d \"$entry\"; then rm -f \"$entry\"/*; fi; done"};
  co_await session->exec(std::move(argv), ExecOptions(std::chrono::seconds(10)));
}

Awaitable<void> destroy_follows_links(BenchPtr, SessionPtr session) {
  co_await follow_links(session);
  co_await session->destroy();
}

Awaitable<void> release_follows_links(SessionPtr session) {
  co_await follow_links(session);
  co_await session->release();
}

/// Stops at the first session that cannot be ended.
Awaitable<std::vector<std::string>> reap_stops(BenchPtr bench) {
  std::vector<std::string> ids;
  const auto sessions = co_await bench->sandbox().list_sessions();
  for (const SandboxSessionInfo& info : sessions) {
    if (info.workspace_key == "witness") continue;
    co_await bench->sandbox().destroy_session(info.id);
    ids.push_back(info.id);
  }
  co_return ids;
}

constexpr Fault table[] = {
    {"destroy.removes_hostile_tree", "a removal follows symlinks", {.destroy = destroy_follows_links}},
    {"release.removes_hostile_tree", "a removal follows symlinks", {.release = release_follows_links}},
    {"destroy.while_others_write", "destroy does nothing", {.destroy = destroy_ignored}},
    {"reap.goes_on_past_failure", "reap stops at a failure", {.reap = reap_stops}},
};

}  // namespace

std::span<const Fault> hostile_tree_faults() { return table; }

}  // namespace caisson::kit::conformance
