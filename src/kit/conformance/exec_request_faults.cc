// Faults of what exec is asked: argv, environment, working directory.
#include <cstdlib>

#include "caisson/contract/text.h"
#include "kit/conformance/shared_faults.h"

namespace caisson::kit::conformance {
namespace {

void empty_words_lost(Argv& argv, ExecOptions&) {
  std::vector<std::string> words = argv.words();
  std::erase(words, std::string());
  argv = Argv(std::move(words));
}

void empty_is_true(Argv& argv, ExecOptions&) {
  if (argv.words().empty()) argv = Argv{"true"};
}

void shell_in_between(Argv& argv, ExecOptions&) { run_by_shell(argv, "exec \"$@\""); }

void host_env(Argv&, ExecOptions& options) {
  const std::string name(canary_variable);
  const char* value = std::getenv(name.c_str());
  options.env(name, value == nullptr ? "" : value);
}

void call_env_lost(Argv&, ExecOptions& options) { options.env(SecretEnv()); }

void text_env(Argv&, ExecOptions& options) {
  SecretEnv changed;
  for (const auto& [name, value] : options.env()) changed.emplace(name, to_text(value.reveal()));
  options.env(std::move(changed));
}

void fixed_path(Argv&, ExecOptions& options) {
  SecretEnv changed = clone(options.env());
  changed.erase("PATH");
  options.env(std::move(changed));
}

Awaitable<ExecResult> errors_tell_all(BenchPtr, SessionPtr session, Argv argv, ExecOptions options) {
  std::string told = " with";
  for (const auto& [name, value] : options.env()) told += " " + name + "=" + std::string(value.reveal());
  try {
    co_return co_await session->exec(std::move(argv), std::move(options));
  } catch (const SandboxError& error) {
    throw SandboxError(error.code(), error.what() + told);
  }
}

void elsewhere(Argv&, ExecOptions& options) {
  if (options.cwd().empty()) options.cwd("/");
}

bool is_relative(const std::string& cwd) { return !cwd.empty() && cwd.front() != '/'; }

void relative_ignored(Argv&, ExecOptions& options) {
  if (is_relative(options.cwd())) options.cwd("");
}

void absolute_taken_relative(Argv&, ExecOptions& options) {
  if (options.cwd().starts_with('/')) options.cwd("." + options.cwd());
}

void shell_changes_directory(Argv& argv, ExecOptions& options) {
  if (!is_relative(options.cwd())) return;
  std::vector<std::string> words{"sh", "-c", "cd \"$0\" && exec \"$@\"", options.cwd()};
  words.insert(words.end(), argv.words().begin(), argv.words().end());
  argv = Argv(std::move(words));
  options.cwd("");
}

Awaitable<ExecResult> missing_is_workspace(BenchPtr, SessionPtr session, Argv argv, ExecOptions options) {
  ExecResult result;
  const std::exception_ptr error = co_await failure_of(session->exec(argv, options.clone()), &result);
  if (!error) co_return result;
  if (!is_code(error, ErrorCode::cwd_missing)) std::rethrow_exception(error);
  options.cwd("");
  co_return co_await session->exec(std::move(argv), std::move(options));
}

constexpr Fault table[] = {
    {"exec.argv_intact", "empty arguments are lost", {.request = empty_words_lost}},
    {"exec.bad_argv", "an empty argv does nothing, successfully", {.request = empty_is_true}},
    {"exec.command_not_found", "an unknown command is exit code 127", {.exec = error_is_exit_code<127>}},
    {"exec.not_executable",
     "a file that may not be executed is exit code 126",
     {.exec = error_is_exit_code<126>}},
    {"exec.bad_format", "a shell tries what the kernel cannot run", {.request = shell_in_between}},
    {"exec.argument_list_too_long",
     "too many arguments are exit code 126",
     {.exec = error_is_exit_code<126>}},
    {"exec.env_is_clean", "a variable of the host is passed on", {.request = host_env}},
    {"exec.env_overlay", "the call's env is lost", {.request = call_env_lost}},
    {"exec.env_bytes", "values are taken for text", {.request = text_env}},
    {"exec.env_path_finds_command", "the call's PATH is not looked at", {.request = fixed_path}},
    {"exec.env_bad_name", "variables are dropped in silence", {.request = call_env_lost}},
    {"exec.env_never_in_errors", "messages hold the env", {.exec = errors_tell_all}},
    {"exec.cwd_default", "the default cwd is /", {.request = elsewhere}},
    {"exec.cwd_relative", "a relative cwd is ignored", {.request = relative_ignored}},
    {"exec.cwd_absolute",
     "an absolute cwd is taken under the workspace",
     {.request = absolute_taken_relative}},
    {"exec.cwd_escape", "the cwd is whatever cd makes of it", {.request = shell_changes_directory}},
    {"exec.cwd_missing", "a missing cwd is the workspace", {.exec = missing_is_workspace}},
};

}  // namespace

std::span<const Fault> exec_request_faults() { return table; }

}  // namespace caisson::kit::conformance
