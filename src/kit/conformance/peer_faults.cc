// Faults that show between two processes, each of which has them.
#include <unistd.h>

#include "kit/conformance/shared_faults.h"
#include "os/spawn.h"

namespace caisson::kit::conformance {
namespace {

/// Takes away what the sessions beside the new one have made.
Awaitable<SessionPtr> create_clears_neighbours(BenchPtr bench, SandboxSessionSpec spec) {
  SessionPtr session = co_await bench->sandbox().create_session(std::move(spec));
  Argv argv{"sh", "-c", "rm -f ../*/file"};
  co_await session->exec(std::move(argv), ExecOptions(std::chrono::seconds(10)));
  co_return session;
}

/// The command is started beside the session, as any child of this process, and its first words are repeated
/// within it.
Awaitable<HandlePtr> started_outside(BenchPtr bench, SessionPtr session, Argv argv, ExecOptions options) {
  const std::vector<std::string>& words = argv.words();
  if (words.size() < 3 || words[2].find("grown") == std::string::npos) {
    HandlePtr handle = co_await session->exec_start(std::move(argv), std::move(options));
    co_return handle;
  }
  const std::string script =
      "cd '" + session->workspace_path() + "' && { " + words[2] + "; } >/dev/null 2>&1";
  const char* const outside[] = {"sh", "-c", script.c_str(), nullptr};
  const char* const candidates[] = {"/bin/sh"};
  os::SpawnPlan plan;
  plan.candidates = candidates;
  plan.argv = outside;
  plan.envp = environ;
  const os::Fd nothing = os::open_empty_input().value();
  for (os::FdRef& descriptor : plan.descriptors) descriptor = nothing;
  static_cast<void>(os::spawn(plan).value());
  Argv same{"sh", "-c", "echo grown; sleep 1000"};
  HandlePtr handle = co_await session->exec_start(std::move(same), std::move(options));
  bench->keep(handle);
  co_return handle;
}

/// Scratch that nobody knows to be scratch.
Awaitable<SessionPtr> scratch_is_kept(BenchPtr bench, SandboxSessionSpec spec) {
  spec.durability = SandboxDurability::persistent;
  return bench->sandbox().create_session(std::move(spec));
}

constexpr Fault table[] = {
    {"peer.shares_workspace", "persistent is made ephemeral", {.create = never_persistent}},
    {"peer.outlives_destroy", "destroy empties a shared workspace", {.destroy = destroy_empties}},
    {"peer.refuses_meanwhile", "a conflict is a scratch workspace", {.create = conflict_is_scratch}},
    {"peer.end_fulfils_removal", "the wish is forgotten", {.destroy = destroy_releases}},
    {"peer.races_on_one_key", "the wish is forgotten", {.destroy = destroy_releases}},
    {"peer.open_disturbs_nothing",
     "a second process clears what it finds",
     {.create = create_clears_neighbours}},
    {"peer.killed_processes_go", "commands run outside their session", {.exec_start = started_outside}},
    {"peer.killed_ephemeral_goes", "ephemeral is made persistent", {.create = scratch_is_kept}},
    {"peer.killed_persistent_stays", "persistent is made ephemeral", {.create = never_persistent}},
    {"peer.killed_removal_fulfilled", "the wish is forgotten", {.destroy = destroy_releases}},
};

}  // namespace

std::span<const Fault> peer_faults() { return table; }

}  // namespace caisson::kit::conformance
