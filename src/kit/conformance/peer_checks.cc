// Checks with the provider in a second process on the same root.
#include "kit/conformance/check.h"
#include "kit/conformance/peer.h"
#include "kit/conformance/sessions.h"
#include "kit/conformance/task.h"

namespace caisson::kit::conformance {
namespace {

Awaitable<void> shares_workspace(Context context) {
  auto peer = co_await Peer::start(context);
  auto session = co_await context.create(context.persistent_spec());
  co_await session->put_file("file", "of the first");
  const std::string id = co_await peer->create(context.persistent_spec());
  std::string seen = co_await peer->output_of(id, "cat file; echo of the second >answer");
  expect_equal("the first process's file in the second", seen, "of the first");
  seen = co_await session->get_file("answer");
  expect_equal("the second process's file in the first", seen, "of the second\n");
  co_await peer->end();
  seen = co_await session->get_file("file");
  expect_equal("the file after the second process's end", seen, "of the first");
}

Awaitable<void> outlives_destroy(Context context) {
  auto peer = co_await Peer::start(context);
  auto session = co_await context.create(context.persistent_spec());
  co_await session->put_file("file", "shared");
  const std::string id = co_await peer->create(context.persistent_spec());
  co_await session->destroy();
  const std::string seen = co_await peer->output_of(id, "cat file");
  expect_equal("the file in the second process after a destroy in the first", seen, "shared");
  co_await peer->end_session("release", id);
  auto again = co_await context.create(context.persistent_spec());
  co_await refused("the file once the second process's session has gone", again->get_file("file"),
                   ErrorCode::file_missing);
}

Awaitable<void> refuses_meanwhile(Context context) {
  auto peer = co_await Peer::start(context);
  auto session = co_await context.create(context.persistent_spec());
  const std::string id = co_await peer->create(context.persistent_spec());
  co_await peer->end_session("destroy", id);
  co_await refused("create in the first process on a workspace that is to be removed",
                   context.create(context.persistent_spec()), ErrorCode::workspace_conflict);
  std::string code = co_await peer->refusal_of_create(context.persistent_spec());
  expect_equal("how the second process's create was refused", code, show(ErrorCode::workspace_conflict));
  co_await session->put_file("file", "still in use");
  co_await session->release();
  code = co_await peer->refusal_of_create(context.persistent_spec());
  expect_equal("how its create was refused once the last session had gone", code, "none");
}

Awaitable<void> end_fulfils_removal(Context context) {
  auto peer = co_await Peer::start(context);
  auto session = co_await context.create(context.persistent_spec());
  co_await session->put_file("file", "shared");
  co_await peer->create(context.persistent_spec());
  co_await session->destroy();
  co_await peer->end();
  auto again = co_await context.create(context.persistent_spec());
  co_await refused("the file once the second process has ended", again->get_file("file"),
                   ErrorCode::file_missing);
}

Awaitable<void> races_on_one_key(Context context) {
  auto peer = co_await Peer::start(context);
  for (int round = 0; round < 6; ++round) {
    auto session = co_await context.create(context.persistent_spec());
    co_await session->put_file("file", "x");
    Task<void> destroy(context.executor(), session->destroy());
    const std::string code = co_await peer->refusal_of_create(context.persistent_spec());
    expect(code == "none" || code == show(ErrorCode::workspace_conflict),
           "a create in the second process beside a destroy: expected it done or a workspace_conflict, saw " +
               code);
    co_await destroy.get();
    co_await peer->release_all();
    auto again = co_await context.create(context.persistent_spec());
    co_await refused("the file once all sessions have gone", again->get_file("file"),
                     ErrorCode::file_missing);
    // Two at once, each of which finds the other.
    Task<SessionPtr> create(context.executor(), context.create(context.persistent_spec()));
    const std::string shared = co_await peer->refusal_of_create(context.persistent_spec());
    expect_equal("a create in the second process beside one in the first", shared, "none");
    auto one = co_await create.get();
    co_await one->release();
    co_await peer->release_all();
    co_await again->destroy();
  }
}

/// Expects the session to be as it was: live, its command running, its file there.
Awaitable<void> expect_undisturbed(Context context, SessionPtr session, HandlePtr cat) {
  co_await cat->write_stdin("alive\n");
  co_await read_until(cat, "alive\n");
  const std::string out = co_await output_of(context, session, "cat file");
  expect_equal("the session's file", out, "own");
  auto found = co_await context.sandbox().get_session(session->id());
  expect_equal("id", found->id(), session->id());
}

Awaitable<void> open_disturbs_nothing(Context context) {
  auto kept = co_await context.create(context.persistent_spec("kept"));
  auto scratch = co_await context.create(context.spec("scratch"));
  co_await kept->put_file("file", "own");
  co_await scratch->put_file("file", "own");
  HandlePtr of_kept = co_await start_shell_for(no_deadline, kept, "exec cat");
  HandlePtr of_scratch = co_await start_shell_for(no_deadline, scratch, "exec cat");
  for (const bool elsewhere : {false, true}) {
    std::map<std::string, std::string> environment;
    if (elsewhere) environment["CAISSON_RUNTIME_DIR"] = context.outside();
    auto peer = co_await Peer::start(context, std::move(environment));
    co_await expect_undisturbed(context, kept, of_kept);
    co_await expect_undisturbed(context, scratch, of_scratch);
    const std::string id = co_await peer->create(context.spec("other"));
    co_await peer->output_of(id, "echo other >file");
    co_await expect_undisturbed(context, kept, of_kept);
    co_await expect_undisturbed(context, scratch, of_scratch);
    co_await peer->end();
    co_await expect_undisturbed(context, kept, of_kept);
    co_await expect_undisturbed(context, scratch, of_scratch);
  }
}

Awaitable<void> killed_processes_go(Context context) {
  auto watcher = co_await context.create(context.persistent_spec());
  auto peer = co_await Peer::start(context);
  const std::string id = co_await peer->create(context.persistent_spec());
  auto line = co_await Lifeline::lay(context, watcher);
  // They end by themselves only with the workspace.
  const std::string stay = "while test -e lifeline; do sleep 0.05; done";
  co_await peer->start_command(
      id, line->hold() + "trap '' HUP TERM; ( " + stay + " ) & ( ( " + stay + " ) & ); echo grown; " + stay,
      "grown\n");
  co_await line->held();
  co_await peer->kill();
  // What the kernel has not ended with its owner, the next to open ends.
  auto next = co_await Peer::start(context);
  co_await line->gone("a process of a session whose owner was killed");
}

Awaitable<void> killed_ephemeral_goes(Context context) {
  need_shared_paths(context);
  auto witness = co_await context.create(context.spec("witness"));
  auto peer = co_await Peer::start(context);
  const std::string id = co_await peer->create(context.spec("scratch"));
  std::string path = co_await peer->output_of(id, "echo x >file; pwd");
  path.pop_back();
  co_await expect_path(context, witness, path + "/file", true, "the file of a live session");
  co_await peer->kill();
  auto next = co_await Peer::start(context);
  co_await expect_path(context, witness, path, false,
                       "the ephemeral workspace of a session whose owner was killed, after an open");
}

Awaitable<void> killed_persistent_stays(Context context) {
  auto peer = co_await Peer::start(context);
  const std::string id = co_await peer->create(context.persistent_spec());
  co_await peer->output_of(id, "printf kept >file");
  co_await peer->kill();
  auto next = co_await Peer::start(context);
  auto session = co_await context.create(context.persistent_spec());
  const std::string seen = co_await session->get_file("file");
  expect_equal("the persistent workspace's file after its session's owner was killed", seen, "kept");
}

Awaitable<void> killed_removal_fulfilled(Context context) {
  auto peer = co_await Peer::start(context);
  auto session = co_await context.create(context.persistent_spec());
  co_await session->put_file("file", "shared");
  co_await peer->create(context.persistent_spec());
  co_await session->destroy();
  co_await peer->kill();
  auto next = co_await Peer::start(context);
  auto again = co_await context.create(context.persistent_spec());
  co_await refused("the file once the last session's owner was killed", again->get_file("file"),
                   ErrorCode::file_missing);
}

constexpr Check table[] = {
    {"peer.shares_workspace", "S-25", "sessions of two processes share a persistent workspace",
     shares_workspace},
    {"peer.outlives_destroy", "S-25", "a shared workspace outlives a destroy in one process, and no longer",
     outlives_destroy},
    {"peer.refuses_meanwhile", "S-25", "until then a create is refused in either process", refuses_meanwhile},
    {"peer.end_fulfils_removal", "S-25", "a process's end is its sessions' end: a removal then comes",
     end_fulfils_removal},
    {"peer.races_on_one_key", "S-25", "creates and destroys of two processes on one key are decided, typed",
     races_on_one_key},
    {"peer.open_disturbs_nothing", "S-29 S-92",
     "a second process that opens the root disturbs no session, whatever CAISSON_RUNTIME_DIR is",
     open_disturbs_nothing},
    {"peer.killed_processes_go", "S-29", "no process outlives a killed owner and the next open",
     killed_processes_go},
    {"peer.killed_ephemeral_goes", "S-29", "nor does an ephemeral workspace", killed_ephemeral_goes},
    {"peer.killed_persistent_stays", "S-29", "a persistent workspace does", killed_persistent_stays},
    {"peer.killed_removal_fulfilled", "S-25 S-29", "but for one that was to be removed",
     killed_removal_fulfilled},
};

}  // namespace

std::span<const Check> peer_checks() { return table; }

}  // namespace caisson::kit::conformance
