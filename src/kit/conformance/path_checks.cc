// Checks of paths: where the workspace is, and that no path leads out of it.
#include "kit/conformance/check.h"
#include "kit/conformance/outside.h"

namespace caisson::kit::conformance {
namespace {

Awaitable<void> workspace_path(Context context) {
  auto session = co_await context.session();
  const SandboxSessionInfo info = co_await session->info();
  expect(info.workspace_path.starts_with('/'),
         "expected an absolute workspace_path, saw " + show(info.workspace_path));
  expect_equal("workspace_path of info()", info.workspace_path, session->workspace_path());
  // A command reaches the workspace by that path, and a file put there by a relative one is in it.
  co_await session->put_file("mark", "here\n");
  const std::string out =
      co_await output_of(context, session, "cd / && cat '" + info.workspace_path + "/mark'");
  expect_equal("a put file under workspace_path", out, "here\n");
}

Awaitable<void> workspace_begins_empty(Context context) {
  auto session = co_await context.session();
  std::string names = co_await output_of(context, session, "ls -A");
  expect_equal("names in a new workspace", names, "");
  co_await output_of(context, session, "echo x >made");
  names = co_await output_of(context, session, "ls -A");
  expect_equal("names after a command made one", names, "made\n");
}

Awaitable<void> ephemeral_apart(Context context) {
  auto one = co_await context.create(context.spec("same-key"));
  auto two = co_await context.create(context.spec("same-key"));
  co_await one->put_file("file", "of one");
  co_await refused("the other session's file", two->get_file("file"), ErrorCode::file_missing);
  expect(one->workspace_path() != two->workspace_path() || context.profile().own_root,
         "expected two ephemeral sessions with one key to have a workspace each");
}

Awaitable<void> durabilities_apart(Context context) {
  auto kept = co_await context.create(context.persistent_spec("same-key"));
  auto scratch = co_await context.create(context.spec("same-key"));
  co_await kept->put_file("file", "kept");
  co_await refused("the persistent session's file in the ephemeral one", scratch->get_file("file"),
                   ErrorCode::file_missing);
  co_await scratch->destroy();
  const std::string seen = co_await kept->get_file("file");
  expect_equal("the persistent session's file after the ephemeral one's end", seen, "kept");
}

Awaitable<void> absolute_inside(Context context) {
  auto session = co_await context.session();
  const std::string path = session->workspace_path() + "/sub/file";
  co_await session->put_file(path, "absolute");
  std::string seen = co_await session->get_file("sub/file");
  expect_equal("a file put by its absolute path", seen, "absolute");
  seen = co_await session->get_file(path);
  expect_equal("a file got by its absolute path", seen, "absolute");
}

Awaitable<void> symlink_inside(Context context) {
  auto session = co_await context.session();
  co_await output_of(context, session,
                     "mkdir sub; echo old >sub/file; ln -s sub/file relative; ln -s \"$PWD/sub/file\" "
                     "absolute; ln -s sub dir");
  const std::vector<std::string> paths{"relative", "absolute", "dir/file", "sub/../relative"};
  for (const std::string& path : paths) {
    co_await session->put_file(path, "by " + path);
    std::string seen = co_await session->get_file("sub/file");
    expect_equal("the target of a put to " + path, seen, "by " + path);
    seen = co_await session->get_file(path);
    expect_equal("what get_file gives of " + path, seen, "by " + path);
  }
  const std::string kept =
      co_await output_of(context, session, "test -h relative && test -h absolute && echo links");
  expect_equal("symlinks after a put to them", kept, "links\n");
}

Awaitable<void> escape_dotdot(Context context) {
  auto session = co_await context.session();
  std::string climb = "..";
  for (int level = 0; level < 30; ++level) climb += "/..";
  co_await no_way_out(context, session, climb + context.outside());
}

Awaitable<void> escape_absolute(Context context) {
  auto session = co_await context.session();
  co_await no_way_out(context, session, context.outside());
}

Awaitable<void> escape_prefix(Context context) {
  auto session = co_await context.session();
  std::string climb = session->workspace_path();
  for (int level = 0; level < 30; ++level) climb += "/..";
  co_await no_way_out(context, session, climb + context.outside());
}

Awaitable<void> escape_symlink(Context context) {
  auto session = co_await context.session();
  co_await output_of(context, session, "ln -s '" + context.outside() + "' out");
  co_await no_way_out(context, session, "out");
}

Awaitable<void> escape_final_symlink(Context context) {
  auto session = co_await context.session();
  co_await output_of(context, session,
                     "mkdir sub; ln -s '" + context.outside() + "/canary' sub/canary; ln -s '" +
                         context.outside() + "/made' sub/made");
  co_await no_way_out(context, session, "sub");
}

constexpr Check table[] = {
    {"workspace.path", "S-7 S-42", "workspace_path is absolute and where the workspace is", workspace_path},
    {"workspace.begins_empty", "S-92", "a new workspace is empty", workspace_begins_empty},
    {"workspace.ephemeral_apart", "S-26", "ephemeral sessions with one key share nothing", ephemeral_apart},
    {"workspace.durabilities_apart", "S-26",
     "an ephemeral and a persistent session with one key share nothing", durabilities_apart},
    {"files.absolute_inside", "S-70", "an absolute path under workspace_path works", absolute_inside},
    {"files.symlink_inside", "S-70 S-71", "symlinks that stay inside are followed, and stay", symlink_inside},
    {"files.escape_by_dotdot", "S-70", "no path climbs out", escape_dotdot},
    {"files.escape_by_absolute_path", "S-70", "no absolute path leads out", escape_absolute},
    {"files.escape_by_prefix", "S-70", "no path climbs out behind the workspace's own", escape_prefix},
    {"files.escape_by_symlink", "S-70", "no symlink of a directory leads out", escape_symlink},
    {"files.escape_by_final_symlink", "S-70", "no symlink of a file leads out", escape_final_symlink},
};

}  // namespace

std::span<const Check> path_checks() { return table; }

}  // namespace caisson::kit::conformance
