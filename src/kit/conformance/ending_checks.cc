// Checks of what is left of a session once it has ended, by whatever way.
#include <set>

#include "kit/conformance/check.h"
#include "kit/conformance/sessions.h"

namespace caisson::kit::conformance {
namespace {

using namespace std::chrono_literals;

/// Every call but destroy and release, each refused.
Awaitable<void> all_refused(Context context, SessionPtr session) {
  Argv argv = shell("echo x >made");
  co_await refuses("exec", session->exec(argv, options(context)));
  co_await refuses("exec_start", session->exec_start(argv, options(context)));
  co_await refuses("put_file", session->put_file("made", "x"));
  co_await refuses("get_file", session->get_file("kept"));
  co_await refuses("open_writer", session->open_writer("made"));
  co_await refuses("open_reader", session->open_reader("kept"));
  co_await session->release();
  co_await session->destroy();
}

/// The workspace of the key as the next session finds it: one file, untouched by refused calls.
Awaitable<void> expect_kept(Context context) {
  auto again = co_await context.create(context.persistent_spec());
  const std::string names = co_await output_of(context, again, "ls -A");
  expect_equal("names in the persistent workspace after refused calls", names, "kept\n");
}

Awaitable<void> refuses_after_release(Context context) {
  auto session = co_await context.create(context.persistent_spec());
  co_await session->put_file("kept", "");
  co_await session->release();
  co_await all_refused(context, session);
  co_await expect_kept(context);
}

Awaitable<void> refuses_after_reap(Context context) {
  auto session = co_await context.create(brief(context.persistent_spec()));
  co_await session->put_file("kept", "");
  co_await context.elapse(past_short_ttl);
  co_await context.sandbox().reap();
  co_await all_refused(context, session);
  co_await expect_kept(context);
}

Awaitable<void> ended_is_not_found(Context context) {
  auto session = co_await context.session();
  co_await session->release();
  Refusal refusal =
      co_await refused("info of an ended session", session->info(), ErrorCode::session_not_found);
  expect_equal("session_id() of info's error", refusal.missing_session, session->id());
  refusal = co_await refused("touch of an ended session", session->touch(), ErrorCode::session_not_found);
  expect_equal("session_id() of touch's error", refusal.missing_session, session->id());
}

Awaitable<void> random_ids(Context context) {
  // 16 ids of random digits: that any place holds one digit in all of them comes once in 10^17 runs.
  std::vector<std::set<char>> digits(32);
  for (int count = 0; count < 16; ++count) {
    auto session = co_await context.session();
    const SandboxSessionInfo info = co_await session->info();
    expect_equal("digits of an id", info.id.size(), digits.size());
    for (std::size_t at = 0; at < digits.size(); ++at) digits[at].insert(info.id[at]);
    co_await session->release();
  }
  for (std::size_t at = 0; at < digits.size(); ++at) {
    expect(digits[at].size() > 1,
           "expected ids of 128 random bits, saw the same digit at place " + show(at) + " in 16 of them");
  }
}

Awaitable<void> handle_after_destroy(Context context) {
  auto session = co_await context.session();
  HandlePtr handle = co_await start_shell(context, session, "cat");
  co_await session->destroy();
  const std::vector<ErrorCode> closed{ErrorCode::stdin_closed, ErrorCode::session_destroyed};
  co_await refused("write_stdin to an exec of a destroyed session", handle->write_stdin("x"), closed);
  co_await refused("output of it", handle->output().next(), ErrorCode::session_destroyed);
  co_await refused("output of it, asked again", handle->output().next(), ErrorCode::session_destroyed);
  co_await handle->kill();
  co_await handle->close_stdin();
}

Awaitable<void> open_transfers_end(Context context) {
  auto session = co_await context.create(context.persistent_spec());
  co_await session->put_file("file", "x");
  auto reader = co_await session->open_reader("file");
  auto writer = co_await session->open_writer("new");
  co_await writer->write("x");
  co_await session->destroy();
  co_await refuses("read of a reader that was open", reader->read(10));
  co_await refuses("write of a writer that was open", writer->write("x"));
  co_await refuses("commit of that writer", writer->commit());
  auto again = co_await context.create(context.persistent_spec());
  const std::string names = co_await output_of(context, again, "ls -A");
  expect_equal("names in the workspace after refused transfers", names, "");
}

Awaitable<void> processes_first(Context context) {
  auto session = co_await context.create(context.persistent_spec());
  // Makes its own directory anew as fast as it can, should that be removed while it runs.
  HandlePtr handle = co_await start_shell_for(
      no_deadline, session,
      "n=0; while :; do n=$((n+1)); mkdir -p \"$PWD/again\" 2>/dev/null; echo x >\"$PWD/again/$n\"; "
      "if test $n = 20; then echo busy >busy; fi; done 2>/dev/null");
  co_await await_file(context, session, "busy", "busy\n", "expected the command to run");
  co_await session->destroy();
  auto again = co_await context.create(context.persistent_spec());
  const std::string names = co_await output_of(context, again, "ls -A");
  expect_equal("names in the workspace after destroy, which a process kept making anew", names, "");
}

Awaitable<void> reap_fulfils_removal(Context context) {
  auto one = co_await context.create(context.persistent_spec());
  auto last = co_await context.create(brief(context.persistent_spec()));
  co_await one->put_file("file", "shared");
  co_await one->destroy();
  co_await context.elapse(past_short_ttl);
  const std::vector<std::string> reaped = co_await context.sandbox().reap();
  expect_equal("reaped", reaped, std::vector<std::string>(1, last->id()));
  auto again = co_await context.create(context.persistent_spec());
  co_await refused("the file once the last session was reaped", again->get_file("file"),
                   ErrorCode::file_missing);
}

Awaitable<void> provider_end_fulfils_removal(Context context) {
  auto one = co_await context.create(context.persistent_spec());
  auto last = co_await context.create(context.persistent_spec());
  co_await one->put_file("file", "shared");
  co_await one->destroy();
  const std::string seen = co_await last->get_file("file");
  expect_equal("the file while a session is left", seen, "shared");
  one.reset();
  last.reset();
  co_await context.reopen();
  auto again = co_await context.create(context.persistent_spec());
  co_await refused("the file once the provider has ended", again->get_file("file"), ErrorCode::file_missing);
}

Awaitable<void> refused_create_disturbs_nothing(Context context) {
  auto one = co_await context.create(context.persistent_spec());
  auto last = co_await context.create(context.persistent_spec());
  co_await last->put_file("file", "shared");
  co_await one->destroy();
  for (int count = 0; count < 3; ++count) {
    co_await refused("create on a workspace that is to be removed", context.create(context.persistent_spec()),
                     ErrorCode::workspace_conflict);
  }
  // An ephemeral session of the same key is none of its business.
  auto scratch = co_await context.session();
  co_await scratch->release();
  const std::string out = co_await output_of(context, last, "cat file");
  expect_equal("the file in the session that is left", out, "shared");
  const std::vector<SandboxSessionInfo> listed = co_await context.sandbox().list_sessions();
  expect_equal("sessions listed", listed.size(), std::size_t{1});
  co_await last->destroy();
  auto again = co_await context.create(context.persistent_spec());
  co_await refused("the file once the last session has gone", again->get_file("file"),
                   ErrorCode::file_missing);
}

Awaitable<void> ephemeral_removed(Context context) {
  need_shared_paths(context);
  auto witness = co_await context.create(context.spec("witness"));
  auto destroyed = co_await context.create(context.spec("destroyed"));
  auto released = co_await context.create(context.spec("released"));
  auto reaped = co_await context.create(brief(context.spec("reaped")));
  for (const SessionPtr& session : {destroyed, released, reaped}) {
    co_await session->put_file("file", "x");
    co_await expect_path(context, witness, session->workspace_path() + "/file", true,
                         "the file of a live session");
  }
  co_await destroyed->destroy();
  co_await released->release();
  co_await context.elapse(past_short_ttl);
  co_await context.sandbox().reap();
  for (const SessionPtr& session : {destroyed, released, reaped}) {
    co_await expect_path(context, witness, session->workspace_path(), false,
                         "the workspace of an ended ephemeral session");
  }
}

constexpr Check table[] = {
    {"release.refuses_calls_after", "S-26 S-32", "a released session refuses every call, recreates nothing",
     refuses_after_release},
    {"reap.refuses_calls_after", "S-26", "a reaped session refuses every call, recreates nothing",
     refuses_after_reap},
    {"session.ended_is_not_found", "S-28", "info and touch of an ended session carry its id",
     ended_is_not_found},
    {"session.random_ids", "S-28", "ids are random, every digit of them", random_ids},
    {"destroy.handle_calls_after", "S-26 S-62 S-63", "handles of a destroyed session answer typed",
     handle_after_destroy},
    {"destroy.open_transfers_end", "S-26", "open readers and writers of a destroyed session refuse typed",
     open_transfers_end},
    {"destroy.processes_before_files", "S-26", "no process outlives the removal of its files",
     processes_first},
    {"persistent.reap_fulfils_removal", "S-25", "a removal waits for the last session, reaped or not",
     reap_fulfils_removal},
    {"persistent.provider_end_fulfils_removal", "S-25", "a removal comes with the provider's end too",
     provider_end_fulfils_removal},
    {"persistent.conflict_disturbs_nothing", "S-25 S-26",
     "a create that is refused meanwhile disturbs no session", refused_create_disturbs_nothing},
    {"ephemeral.removed_at_every_end", "S-24 S-26 S-32",
     "an ephemeral workspace goes with its session, by whatever way", ephemeral_removed},
};

}  // namespace

std::span<const Check> ending_checks() { return table; }

}  // namespace caisson::kit::conformance
