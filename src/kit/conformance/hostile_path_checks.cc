// Checks of paths that are meant to confuse: links of all kinds, trees that change, names that are none.
#include "kit/conformance/check.h"
#include "kit/conformance/outside.h"
#include "kit/conformance/task.h"

namespace caisson::kit::conformance {
namespace {

using Seconds = std::chrono::duration<double>;

Awaitable<void> magic_links(Context context) {
  auto session = co_await context.session();
  // Of the process that resolves them, so that they would lead to its root and working directory.
  co_await output_of(
      context, session,
      "ln -s /proc/self/root root; ln -s /proc/self/cwd cwd; ln -s /proc/thread-self/root/proc p");
  co_await no_way_out(context, session, "root" + context.outside());
  const std::vector<ErrorCode> codes{ErrorCode::path_escapes, ErrorCode::file_missing};
  co_await refused("get_file by a magic link", session->get_file("cwd/canary"), codes);
  co_await refused("get_file by /proc", session->get_file("p/self/environ"), codes);
}

Awaitable<void> nested_links(Context context) {
  auto session = co_await context.session();
  co_await output_of(
      context, session,
      "mkdir -p a/b; ln -s ../../.. a/b/up; ln -s b/up a/hop; ln -s a/hop far; ln -s \"$PWD/..\" "
      "absolute; ln -s far/.. further");
  const std::vector<std::string> ways{"a/b/up", "a/hop", "far", "absolute", "further"};
  const std::vector<ErrorCode> codes{ErrorCode::path_escapes, ErrorCode::file_missing};
  for (const std::string& way : ways) {
    co_await refused("get_file by " + way, session->get_file(way + "/canary"), codes);
    const Caught put = co_await caught(session->put_file(way + "/made", "x"));
    if (!context.profile().own_root) expect_code("put_file by " + way, put, codes);
  }
  expect_outside_untouched(context);
  co_await session->put_file("a/b/file", "inside");
  const std::string seen = co_await session->get_file("a/b/../b/file");
  expect_equal("a file by a path that turns back inside", seen, "inside");
}

/// What a command does meanwhile: one name is a directory and a link out, in turn, as fast as it goes. A put
/// may make the directory between two of its steps.
std::string swapping(const Context& context) {
  return "mkdir d; echo ready; until test -e stop; do rm -rf d; ln -s '" + context.outside() +
         "' d; rm -f d; mkdir d; echo own >new; mv new d/canary; done 2>/dev/null";
}

/// One transfer through the name that changes: its own bytes, nothing, or a typed refusal.
Awaitable<void> through_change(SessionPtr session, int round) {
  const std::vector<ErrorCode> codes{ErrorCode::path_escapes, ErrorCode::path_changed,
                                     ErrorCode::file_missing, ErrorCode::invalid_argument,
                                     ErrorCode::not_a_regular_file};
  try {
    const std::string seen = co_await session->get_file("d/canary");
    expect(seen == "own\n" || seen == "put",
           "get_file by a path that changes: expected the file inside, saw " + show(seen));
  } catch (const SandboxError&) {
    expect_code("get_file by a path that changes", {std::current_exception(), ""}, codes);
  }
  try {
    co_await session->put_file(round % 2 == 0 ? "d/canary" : "d/made", "put");
  } catch (const SandboxError&) {
    expect_code("put_file by a path that changes", {std::current_exception(), ""}, codes);
  }
}

Awaitable<void> swapped(Context context) {
  auto session = co_await context.session();
  HandlePtr handle = co_await start_shell(context, session, swapping(context));
  co_await read_until(handle, "ready\n");
  const auto until = std::chrono::steady_clock::now() + std::min(context.limit(), Seconds(1.5));
  int round = 0;
  while (std::chrono::steady_clock::now() < until) {
    co_await through_change(session, round++);
    expect_outside_untouched(context);
  }
  co_await session->put_file("stop", "");
  co_await drain(handle);
  expect_outside_untouched(context);
}

Awaitable<void> symlink_loop(Context context) {
  auto session = co_await context.session();
  co_await output_of(context, session, "ln -s loop loop; ln -s b a; ln -s a b");
  const std::vector<std::string> loops{"loop", "a/file"};
  for (const std::string& path : loops) {
    Caught seen = co_await caught(session->get_file(path));
    expect_typed("get_file of " + path + ", a symlink to itself", seen);
    seen = co_await caught(session->put_file(path, "x"));
    expect_typed("put_file to " + path + ", a symlink to itself", seen);
  }
}

Awaitable<void> no_names(Context context) {
  auto session = co_await context.session();
  std::string too_deep;
  while (too_deep.size() < 5000) too_deep += "directory/";
  const std::vector<std::string> paths{"", std::string("a\0b", 3), std::string(256, 'n'), too_deep + "file"};
  const std::vector<ErrorCode> missed{ErrorCode::invalid_argument, ErrorCode::file_missing};
  for (const std::string& path : paths) {
    co_await refused("get_file of " + show(path), session->get_file(path), missed);
    co_await refused("put_file to " + show(path), session->put_file(path, "x"), ErrorCode::invalid_argument);
    co_await refused("open_writer of " + show(path), session->open_writer(path), ErrorCode::invalid_argument);
  }
  const std::string longest(255, 'n');
  co_await session->put_file(longest, "long");
  const std::string seen = co_await session->get_file(longest);
  expect_equal("a file with a name of 255 bytes", seen, "long");
  const std::string odd = "- \n*\xff";
  co_await session->put_file(odd, "odd");
  const std::string out = co_await output_of(context, session, "cat ./-*");
  expect_equal("a file with an odd name, as a command sees it", out, "odd");
}

Awaitable<void> no_parents(Context context) {
  auto session = co_await context.session();
  co_await output_of(context, session, "echo x >file; mkdir directory; mkfifo fifo");
  co_await refused("get_file through a file", session->get_file("file/below"), ErrorCode::file_missing);
  const std::vector<ErrorCode> codes{ErrorCode::invalid_argument, ErrorCode::not_a_regular_file,
                                     ErrorCode::file_missing};
  co_await refused("put_file through a file", session->put_file("file/below", "x"), codes);
  co_await refused("put_file through a FIFO", session->put_file("fifo/below", "x"), codes);
  const std::vector<std::string> directories{".", "directory/", "directory/.", "new/"};
  for (const std::string& path : directories) {
    co_await refused("put_file to " + path, session->put_file(path, "x"), codes);
  }
  const std::string out = co_await output_of(context, session, "cat file; ls -A directory");
  expect_equal("the file in the way, and names in the directory", out, "x\n");
}

Awaitable<void> workspace_itself(Context context) {
  auto session = co_await context.session();
  const std::string path = session->workspace_path();
  co_await refused("get_file of the workspace", session->get_file(path), ErrorCode::not_a_regular_file);
  // A neighbour that only begins with the same letters is outside.
  co_await session->put_file("x/file", "inside");
  const std::vector<ErrorCode> codes{ErrorCode::path_escapes, ErrorCode::file_missing};
  co_await refused("get_file behind a longer name", session->get_file(path + "x/file"), codes);
  co_await session->put_file(path + "//sub/./file", "x");
  const std::string seen = co_await session->get_file("sub/file");
  expect_equal("a file put by an absolute path that is not tidy", seen, "x");
}

constexpr Check table[] = {
    {"files.escape_by_magic_link", "S-70", "no magic link of /proc leads out", magic_links},
    {"files.escape_by_nested_links", "S-70", "no chain of symlinks leads out", nested_links},
    {"files.escape_by_swap", "S-70", "a tree that changes under the resolution opens no way out", swapped},
    {"files.symlink_to_itself", "S-70", "a circle of symlinks is typed", symlink_loop},
    {"files.names_at_their_limits", "S-70 S-72", "what can be no name is typed, any other is taken",
     no_names},
    {"files.parent_is_no_directory", "S-71 S-72", "a path through what is no directory is typed", no_parents},
    {"files.workspace_prefix", "S-70", "the workspace's own path is taken as a whole", workspace_itself},
};

}  // namespace

std::span<const Check> hostile_path_checks() { return table; }

}  // namespace caisson::kit::conformance
