// Checks of the removal of workspaces that do not want to be removed.
#include <boost/asio/cancellation_state.hpp>
#include <boost/asio/this_coro.hpp>

#include "kit/conformance/check.h"
#include "kit/conformance/sessions.h"
#include "kit/conformance/task.h"

namespace caisson::kit::conformance {
namespace {

using namespace std::chrono_literals;

/// Deeper than any path can say (PATH_MAX, 4,096 bytes): 40 levels of 200 bytes.
constexpr std::string_view deep_tree =
    "d=$(printf %0200d 0); n=0; while test $n -lt 40; do mkdir $d || exit 1; cd -P $d 2>/dev/null || "
    "exit 1; n=$((n+1)); done; echo x >file";

/// Names in any bytes, links that lead out, in circles and nowhere, what opening would block, and directories
/// that let nobody in.
std::string hostile_names(const Context& context) {
  return "set -e; printf x >./-rf; : >\"$(printf 'line\\nbreak')\"; : >\"$(printf 'bytes\\377\\376')\"; : >' "
         "'; "
         ": >'*'; ln -s '" +
         context.outside() + "' way-out; ln -s '" + context.outside() +
         "/canary' file-out; ln -s loop loop; ln -s nowhere dangling; ln -s .. up; mkfifo fifo; "
         "mkdir -p locked/in/it; : >locked/in/it/file; ln locked/in/it/file hard; "
         "chmod 0 locked/in/it; chmod 0500 locked/in; chmod 0 locked";
}

Awaitable<void> fill(Context context, SessionPtr session) {
  co_await output_of(context, session, hostile_names(context));
  co_await output_of(context, session, std::string(deep_tree));
}

Awaitable<void> destroy_hostile(Context context) {
  auto session = co_await context.create(context.persistent_spec());
  co_await fill(context, session);
  co_await session->destroy();
  const std::vector<SandboxSessionInfo> listed = co_await context.sandbox().list_sessions();
  expect_equal("sessions listed after destroy", listed.size(), std::size_t{0});
  auto again = co_await context.create(context.persistent_spec());
  const std::string names = co_await output_of(context, again, "ls -A");
  expect_equal("names in the workspace after destroy", names, "");
  expect_equal("the canary behind a symlink", context.canary_now(), context.canary());
}

Awaitable<void> release_hostile(Context context) {
  need_shared_paths(context);
  auto witness = co_await context.create(context.spec("witness"));
  auto session = co_await context.session();
  co_await fill(context, session);
  const std::string path = session->workspace_path();
  co_await expect_path(context, witness, path + "/fifo", true, "what the session made");
  co_await session->release();
  co_await expect_path(context, witness, path, false, "the workspace after release");
  expect_equal("the canary behind a symlink", context.canary_now(), context.canary());
}

Awaitable<void> others_write(Context context) {
  need_shared_paths(context);
  auto writer = co_await context.create(context.spec("writer"));
  auto session = co_await context.session();
  const std::string path = session->workspace_path();
  // Of another session, so that nothing ends it. It fills the tree while that is removed, and does not make
  // it anew.
  HandlePtr handle = co_await start_shell(
      context, writer,
      "n=0; until test -e stop; do n=$((n+1)); mkdir '" + path + "'/$n && : >'" + path +
          "'/$n/file; if test $n = 50; then echo busy >busy; fi; done 2>/dev/null; echo over");
  co_await await_file(context, writer, "busy", "busy\n", "expected the command to write");
  const Caught seen = co_await caught(session->destroy());
  if (seen.error) {
    expect_code("destroy while something still writes", seen, ErrorCode::removal_failed);
    const std::vector<SandboxSessionInfo> listed = co_await context.sandbox().list_sessions();
    expect_equal("sessions listed after a destroy that failed", listed.size(), std::size_t{2});
  }
  co_await writer->put_file("stop", "");
  co_await drain(handle);
  co_await session->destroy();
  co_await expect_path(context, writer, path, false, "the workspace after destroy");
}

/// Lets go of the file that nobody can remove, whatever became of the check.
Awaitable<void> unlock(Context context, SessionPtr witness, std::string file) {
  const ExecResult result = co_await run_shell(context, witness, "chattr -i '" + file + "'");
  expect_equal("exit_code of chattr -i", result.exit_code, 0);
}

Awaitable<void> reap_past_failure(Context context, SessionPtr stuck, SessionPtr before, SessionPtr after,
                                  SessionPtr witness, std::string file) {
  co_await context.elapse(past_short_ttl);
  const std::vector<std::string> wanted{before->id(), after->id()};
  std::vector<std::string> reaped = co_await context.sandbox().reap();
  expect_equal("reaped past one whose file cannot be removed", reaped, wanted);
  const std::vector<SandboxSessionInfo> listed = co_await context.sandbox().list_sessions();
  std::vector<std::string> ids;
  for (const SandboxSessionInfo& info : listed) ids.push_back(info.id);
  const std::vector<std::string> left{stuck->id(), witness->id()};
  expect_equal("sessions listed after that", ids, left);
  reaped = co_await context.sandbox().reap();
  expect_equal("reaped again", reaped, std::vector<std::string>());
  co_await refused("destroy of it", stuck->destroy(), ErrorCode::removal_failed);
  co_await unlock(context, witness, file);
  reaped = co_await context.sandbox().reap();
  expect_equal("reaped once its file can be removed", reaped, std::vector<std::string>(1, stuck->id()));
}

Awaitable<void> reap_goes_on(Context context) {
  need_shared_paths(context);
  auto before = co_await context.create(brief(context.spec("before")));
  co_await context.elapse(2ms);
  SandboxSessionSpec spec = brief(context.spec("stuck"));
  auto stuck = co_await context.create(std::move(spec));
  co_await context.elapse(2ms);
  auto after = co_await context.create(brief(context.spec("after")));
  co_await context.elapse(2ms);
  auto witness = co_await context.create(context.spec("witness"));
  const ExecResult made =
      co_await run_shell(context, stuck, ": >file && chattr +i file && ! rm -f file 2>/dev/null");
  if (made.exit_code != 0) throw NotRun("no file can be made here that cannot be removed (chattr +i)");
  const std::string file = stuck->workspace_path() + "/file";
  const Caught seen = co_await caught(reap_past_failure(context, stuck, before, after, witness, file));
  if (!seen.error) co_return;
  co_await boost::asio::this_coro::reset_cancellation_state(boost::asio::disable_cancellation());
  co_await caught(unlock(context, witness, file));
  std::rethrow_exception(seen.error);
}

constexpr Check table[] = {
    {"destroy.removes_hostile_tree", "S-30", "destroy removes whatever a command has made", destroy_hostile},
    {"release.removes_hostile_tree", "S-30 S-32", "release removes whatever a command has made",
     release_hostile},
    {"destroy.while_others_write", "S-30", "a removal is safe while something still writes", others_write},
    {"reap.goes_on_past_failure", "S-21 S-30",
     "a session that cannot be removed stays listed, is tried again, and holds up no other", reap_goes_on},
};

}  // namespace

std::span<const Check> hostile_tree_checks() { return table; }

}  // namespace caisson::kit::conformance
