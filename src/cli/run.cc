// caisson run: one command in a session of its own.
#include <boost/asio/io_context.hpp>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>

#include "caisson/contract/json.h"
#include "caisson/kit/managed_sandbox.h"
#include "caisson/kit/settings.h"
#include "cli/one_shot.h"
#include "cli/report.h"
#include "cli/run_command.h"
#include "cli/run_request.h"
#include "cli/verbs.h"
#include "facade/providers.h"
#include "os/console.h"

namespace caisson::cli {
namespace {

RunRequest make_request(const RunOptions& options, SecretEnv env, const kit::DispatchSettings& dispatch) {
  RunRequest request{.spec = make_spec(options, dispatch),
                     .argv = Argv(options.argv),
                     .exec = make_exec_options(options, dispatch),
                     .put = {},
                     .get = {},
                     .input = options.input,
                     .tty = options.tty,
                     .capture = options.json};
  request.exec.env(std::move(env));
  for (const std::string& text : options.put) request.put.push_back(parse_put(text));
  for (const std::string& text : options.get) request.get.push_back(parse_get(text));
  return request;
}

SandboxError as_sandbox_error(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const SandboxError& error) {
    return error;
  } catch (const std::exception& error) {
    return {ErrorCode::internal, error.what()};
  }
}

// What a result that is a plain exit code does not show.
void explain(const ExecEnded& ended) {
  if (ended.how == ExecEnd::lost) complain("the command's exit status is lost: " + ended.lost_cause);
  if (ended.how == ExecEnd::out_of_memory) complain("the command was killed for want of memory");
}

void hint_at_unread_input(const RunOptions& options) {
  if (options.input || !os::is_pipe(os::standard_input)) return;
  const auto waiting = os::readable_bytes(os::standard_input);
  if (waiting && *waiting > 0) complain("the command did not get what is piped in here: -i passes it on");
}

SandboxError ended_by_signal(int number) {
  return {ErrorCode::session_destroyed, "caisson was ended by signal " + std::to_string(number) + " (" +
                                            strsignal(number) + "), and the command with it"};
}

int tell(const RunOptions& options, const RunOutcome& outcome) {
  int exit_code = outcome.exit_code;
  std::optional<SandboxError> problem;
  if (outcome.failure) {
    problem = as_sandbox_error(outcome.failure);
    exit_code = exit_code_of(problem->code());
    complain(problem->what());
  } else if (outcome.ended) {
    explain(*outcome.ended);
    hint_at_unread_input(options);
  }
  for (const std::exception_ptr& failure : outcome.later_failures) {
    SandboxError error = as_sandbox_error(failure);
    complain(error.what());
    // What ended the command, or its own failure, is what to act on first.
    if (exit_code != 0) continue;
    problem = std::move(error);
    exit_code = exit_failure;
  }
  if (outcome.signal && options.json) {
    // Without --json nothing is said: the exit code does, as of any program.
    problem = ended_by_signal(*outcome.signal);
    complain(problem->what());
  }
  if (options.json && problem) {
    print_json(to_json(*problem));
  } else if (outcome.result) {
    print_json(to_json(*outcome.result));
  }
  return exit_code;
}

}  // namespace

int run(const RunOptions& options) {
  if (options.persistent && !options.workspace) {
    throw UsageError("--persistent needs --workspace KEY: the key is what finds the workspace again");
  }
  if (options.json && options.tty)
    throw UsageError("--json and -t exclude each other: a terminal is not captured");
  SecretEnv env = read_env(options, kit::environment_settings());
  // The tier decides the provider, and no tier is ever given for another (S-16).
  const std::string_view provider = facade::provider_of(options.isolation);

  boost::asio::io_context context(1);
  RunCommand command(context);
  OpenOptions open;
  open.log = stderr_log(options.verbose);
  open.settings = &one_shot_setting;
  auto sandbox = facade::open_provider(context.get_executor(), provider, std::move(open));
  RunRequest request = make_request(options, std::move(env), sandbox->dispatch());
  const RunOutcome outcome = command.run(std::move(sandbox), std::move(request));

  int exit_code = exit_failure;
  try {
    exit_code = tell(options, outcome);
  } catch (const OutputClosed&) {
    exit_code = exit_output_closed;
  } catch (const OutputFailed& failure) {
    complain(failure.what());
  }
  if (outcome.held_up) std::_Exit(exit_code);
  return exit_code;
}

}  // namespace caisson::cli
