// Faults of how a command is found, and of what it is given.
#include "kit/conformance/shared_faults.h"

namespace caisson::kit::conformance {
namespace {

/// Looks no further than the first place of the PATH that there is.
void first_place_only(Argv&, ExecOptions& options) {
  const auto at = options.env().find("PATH");
  if (at == options.env().end()) return;
  const std::string path(at->second.reveal());
  const std::size_t second = path.find(':') + 1;
  options.env("PATH", path.substr(second, path.find(':', second) - second));
}

Awaitable<SessionPtr> spec_path_lost(BenchPtr bench, SandboxSessionSpec spec) {
  spec.env.erase("PATH");
  return bench->sandbox().create_session(std::move(spec));
}

void command_from_workspace(Argv& argv, ExecOptions& options) {
  if (argv.words().front().starts_with("./")) options.cwd("");
}

void nameless_is_true(Argv& argv, ExecOptions&) {
  if (argv.words().front().empty()) argv = Argv{"true"};
}

Awaitable<ExecResult> message_tells_argv(BenchPtr, SessionPtr session, Argv argv, ExecOptions options) {
  const std::string name = argv.words().front();
  try {
    co_return co_await session->exec(std::move(argv), std::move(options));
  } catch (const SandboxError& error) {
    throw SandboxError(error.code(), std::string(error.what()) + " (" + name + ")");
  }
}

/// A shell that starts whatever it is given, and tells of failure by its exit.
void shell_starts(Argv& argv, ExecOptions&) { run_by_shell(argv, "exec \"$@\""); }

void cwd_made_first(Argv& argv, ExecOptions& options) {
  if (options.cwd().empty()) return;
  std::vector<std::string> words{"sh", "-c", "cd \"$0\"; exec \"$@\"", options.cwd()};
  words.insert(words.end(), argv.words().begin(), argv.words().end());
  argv = Argv(std::move(words));
  options.cwd("");
}

void absolute_is_workspace(Argv&, ExecOptions& options) {
  if (options.cwd().starts_with('/')) options.cwd("");
}

void descriptor_and_umask(Argv& argv, ExecOptions&) {
  run_by_shell(argv, "umask 077; exec 9</dev/null; exec \"$@\"");
}

/// Every exec has what the first was given.
Awaitable<ExecResult> env_of_the_first(BenchPtr bench, SessionPtr session, Argv argv, ExecOptions options) {
  if (options.env().contains("NAME") && bench->count++ > 0) options.env("NAME", "one");
  return session->exec(std::move(argv), std::move(options));
}

constexpr Fault table[] = {
    {"exec.path_lookup_goes_on", "the lookup ends at a hit of any kind", {.request = first_place_only}},
    {"exec.env_path_order", "the spec's PATH is lost", {.create = spec_path_lost}},
    {"exec.relative_command_in_cwd",
     "a command with a slash is found from the workspace",
     {.request = command_from_workspace}},
    {"exec.missing_interpreter", "what cannot be run is exit code 127", {.exec = error_is_exit_code<127>}},
    {"exec.directory_is_no_command",
     "what cannot be run is exit code 126",
     {.exec = error_is_exit_code<126>}},
    {"exec.empty_command_name", "an empty name does nothing, successfully", {.request = nameless_is_true}},
    {"exec.long_name_shortened", "messages hold the whole name", {.exec = message_tells_argv}},
    {"exec.environment_too_long", "what cannot be run is exit code 126", {.exec = error_is_exit_code<126>}},
    {"interactive.start_failures", "a shell starts commands", {.request = shell_starts}},
    {"exec.cwd_dangling", "a cwd that leads nowhere is passed by", {.request = cwd_made_first}},
    {"exec.cwd_symlink_absolute", "an absolute cwd is the workspace", {.request = absolute_is_workspace}},
    {"interactive.process_state",
     "a descriptor leaks and the umask is 077",
     {.request = descriptor_and_umask}},
    {"exec.apart", "execs share their environment", {.exec = env_of_the_first}},
};

}  // namespace

std::span<const Fault> lookup_faults() { return table; }

}  // namespace caisson::kit::conformance
