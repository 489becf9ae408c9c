// Faults of paths that are meant to confuse.
#include "kit/conformance/shared_faults.h"

namespace caisson::kit::conformance {
namespace {

/// By a command, which nothing holds back.
Awaitable<std::string> got_by_cat(SessionPtr session, std::string path) {
  Argv argv{"cat", path};
  const ExecResult result = co_await session->exec(std::move(argv), ExecOptions(std::chrono::seconds(10)));
  if (result.exit_code != 0) throw SandboxError(ErrorCode::file_missing, "a miss, says cat");
  co_return result.out;
}

/// Looks first and opens afterwards: in between the path may come to lead elsewhere.
Awaitable<void> put_after_a_look(SessionPtr session, std::string path, std::string data, FileMode mode) {
  if (!path.starts_with("d/")) {
    co_await session->put_file(std::move(path), std::move(data), mode);
    co_return;
  }
  Argv argv{"sh", "-c", "until test -h d && cat >\"$0\"; do :; done 2>/dev/null", path};
  ExecOptions options(std::chrono::seconds(10));
  options.input(std::move(data));
  co_await session->exec(std::move(argv), std::move(options));
}

Awaitable<void> bad_name_ignored(SessionPtr session, std::string path, std::string data, FileMode mode) {
  try {
    co_await session->put_file(std::move(path), std::move(data), mode);
  } catch (const SandboxError&) {
    co_return;
  }
}

Awaitable<std::string> prefix_by_letters(SessionPtr session, std::string path) {
  const std::string& workspace = session->workspace_path();
  if (path.starts_with(workspace)) path = "./" + path.substr(workspace.size());
  co_return co_await session->get_file(std::move(path));
}

constexpr Fault table[] = {
    {"files.escape_by_magic_link", "files are read by a command", {.get_file = got_by_cat}},
    {"files.escape_by_nested_links", "a way out is answered", {.get_file = any_failure_is_empty}},
    {"files.escape_by_swap", "a path is looked at, then used", {.put_file = put_after_a_look}},
    {"files.symlink_to_itself", "a circle of symlinks is an empty file", {.get_file = any_failure_is_empty}},
    {"files.names_at_their_limits", "a name that is none is ignored", {.put_file = bad_name_ignored}},
    {"files.parent_is_no_directory", "a put that fails succeeds", {.put_file = bad_name_ignored}},
    {"files.workspace_prefix",
     "the workspace's path is taken letter by letter",
     {.get_file = prefix_by_letters}},
};

}  // namespace

std::span<const Fault> hostile_path_faults() { return table; }

}  // namespace caisson::kit::conformance
