// Checks of what exec is asked: argv, environment, working directory.
#include <map>

#include "kit/conformance/check.h"
#include "kit/conformance/shell.h"

namespace caisson::kit::conformance {
namespace {

Awaitable<void> argv_intact(Context context) {
  auto session = co_await context.session();
  Argv argv = shell(R"(for word; do printf '<%s>' "$word"; done)",
                    {"two words", "", "a\nb", "$HOME `id` *", "quote\"'", "gr\xc3\xbc\xc3\x9f", "\xff"});
  const ExecResult result = co_await session->exec(argv, options(context));
  expect_equal("arguments as the command saw them", result.out,
               "<two words><><a\nb><$HOME `id` *><quote\"'><gr\xc3\xbc\xc3\x9f><\xff>");
}

Awaitable<void> bad_argv(Context context) {
  auto session = co_await context.session();
  Argv empty{std::vector<std::string>()};
  co_await refused("exec of an empty argv", session->exec(empty, options(context)),
                   ErrorCode::invalid_argument);
  Argv with_nul(std::vector<std::string>{"echo", std::string("a\0b", 3)});
  co_await refused("exec with a NUL in argv", session->exec(with_nul, options(context)),
                   ErrorCode::invalid_argument);
  co_await refused("exec_start of an empty argv", session->exec_start(empty, options(context)),
                   ErrorCode::invalid_argument);
}

Awaitable<void> command_not_found(Context context) {
  auto session = co_await context.session();
  Argv unknown{"no-such-command-here"};
  Refusal refusal = co_await refused("exec of an unknown command", session->exec(unknown, options(context)),
                                     ErrorCode::command_not_found);
  expect_contains("the message", refusal.message, "no-such-command-here");
  Argv path{"./no-such-file"};
  co_await refused("exec of a path that is not there", session->exec(path, options(context)),
                   ErrorCode::command_not_found);
  co_await refused("exec_start of an unknown command", session->exec_start(unknown, options(context)),
                   ErrorCode::command_not_found);
}

Awaitable<void> not_executable(Context context) {
  auto session = co_await context.session();
  co_await session->put_file("plain", "#!/bin/sh\necho ran\n", 0644);
  Argv argv{"./plain"};
  const Refusal refusal = co_await refused("exec of a file that may not be executed",
                                           session->exec(argv, options(context)), ErrorCode::not_executable);
  expect_contains("the message", refusal.message, "plain");
  co_await session->put_file("plain", "#!/bin/sh\necho ran\n", 0755);
  const ExecResult result = co_await session->exec(argv, options(context));
  expect_equal("stdout once it may be executed", result.out, "ran\n");
}

Awaitable<void> bad_format(Context context) {
  auto session = co_await context.session();
  co_await session->put_file("nonsense", std::string("\x01\x02\x03 no program\n"), 0755);
  Argv argv{"./nonsense"};
  const Refusal refusal = co_await refused("exec of an executable file that is no program",
                                           session->exec(argv, options(context)), ErrorCode::bad_format);
  expect_contains("the message", refusal.message, "nonsense");
}

Awaitable<void> too_long(Context context) {
  auto session = co_await context.session();
  // A single argument may have 128 KiB (MAX_ARG_STRLEN of execve(2)).
  Argv argv = shell("exit 0", {std::string(1U << 20U, 'x')});
  co_await refused("exec with an argument of 1 MiB", session->exec(argv, options(context)),
                   ErrorCode::argument_list_too_long);
  Argv less = shell("exit 0", {std::string(1U << 16U, 'x')});
  const ExecResult result = co_await session->exec(less, options(context));
  expect_equal("exit_code with an argument of 64 KiB", result.exit_code, 0);
}

Awaitable<std::map<std::string, std::string>> environment(SessionPtr session, ExecOptions with) {
  Argv argv{"env"};
  const ExecResult result = co_await session->exec(argv, std::move(with));
  std::map<std::string, std::string> variables;
  std::size_t begin = 0;
  while (begin < result.out.size()) {
    const std::size_t end = std::min(result.out.find('\n', begin), result.out.size());
    const std::string line = result.out.substr(begin, end - begin);
    const std::size_t equals = line.find('=');
    if (equals != std::string::npos) variables[line.substr(0, equals)] = line.substr(equals + 1);
    begin = end + 1;
  }
  co_return variables;
}

Awaitable<void> env_is_clean(Context context) {
  auto session = co_await context.session();
  const auto variables = co_await environment(session, options(context).env("OWN", "value"));
  expect(variables.contains("OWN"), "expected the call's own variable, saw none");
  expect(variables.contains("PATH"), "expected a PATH, saw none");
  expect(!variables.contains(std::string(canary_variable)),
         "expected nothing of the host's environment, saw " + std::string(canary_variable));
}

Awaitable<void> env_overlay(Context context) {
  SandboxSessionSpec spec = context.spec();
  spec.env.emplace("SPEC_ONLY", "spec");
  spec.env.emplace("BOTH", "spec");
  auto session = co_await context.create(std::move(spec));
  auto variables =
      co_await environment(session, options(context).env("BOTH", "call").env("CALL_ONLY", "call"));
  expect_equal("a variable of the spec", variables["SPEC_ONLY"], "spec");
  expect_equal("a variable of spec and call", variables["BOTH"], "call");
  expect_equal("a variable of the call", variables["CALL_ONLY"], "call");
  variables = co_await environment(session, options(context));
  expect_equal("a variable of spec and call, in the next exec", variables["BOTH"], "spec");
  expect(!variables.contains("CALL_ONLY"), "expected a call's variable to be gone in the next exec");
}

Awaitable<void> env_bytes(Context context) {
  auto session = co_await context.session();
  const std::string value = " a=b \"c\" $d\n\xff ";
  Argv argv = shell(R"(printf %s "$VALUE")");
  const ExecResult result = co_await session->exec(argv, options(context).env("VALUE", value));
  expect_equal("the variable's value", result.out, value);
}

Awaitable<void> env_path_finds_command(Context context) {
  auto session = co_await context.session();
  co_await session->put_file("bin/only-here", "#!/bin/sh\necho found \"$PATH\"\n", 0755);
  const std::string path = session->workspace_path() + "/bin";
  Argv argv{"only-here"};
  const ExecResult result = co_await session->exec(argv, options(context).env("PATH", path));
  expect_equal("stdout of a command on the call's own PATH", result.out, "found " + path + "\n");
  co_await refused("the same command on the session's PATH", session->exec(argv, options(context)),
                   ErrorCode::command_not_found);
}

Awaitable<void> env_bad_name(Context context) {
  auto session = co_await context.session();
  Argv argv{"true"};
  const std::vector<std::string> names{"", "A=B", std::string("A\0B", 3)};
  for (const std::string& name : names) {
    const Caught seen = co_await caught(session->exec(argv, options(context).env(name, "x")));
    expect_code("exec with the variable name " + show(name), seen, ErrorCode::invalid_argument);
  }
  const std::string with_nul("a\0b", 3);
  co_await refused("exec with a NUL in a variable", session->exec(argv, options(context).env("A", with_nul)),
                   ErrorCode::invalid_argument);
}

Awaitable<void> env_never_in_errors(Context context) {
  const std::string secret = "sw0rdfish-of-the-suite";
  SandboxSessionSpec spec = context.spec();
  spec.env.emplace("SPEC_SECRET", secret);
  auto session = co_await context.create(std::move(spec));
  Argv unknown{"no-such-command-here"};
  Caught seen = co_await caught(session->exec(unknown, options(context).env("CALL_SECRET", secret)));
  expect_typed("exec of an unknown command", seen);
  expect_lacks("its message", seen.what, secret);
  Argv argv = shell("printf %s \"$SPEC_SECRET\"; sleep 1000");
  seen = co_await caught(
      session->exec(argv, ExecOptions(std::chrono::milliseconds(300)).env("CALL_SECRET", secret)));
  expect_typed("exec past its timeout", seen);
  expect_lacks("its message", seen.what, secret);
}

Awaitable<void> cwd_default(Context context) {
  auto session = co_await context.session();
  const std::string out = co_await output_of(context, session, "pwd");
  expect_equal("pwd", out, session->workspace_path() + "\n");
}

Awaitable<std::string> pwd_in(Context context, SessionPtr session, std::string cwd) {
  Argv argv{"pwd"};
  const ExecResult result = co_await session->exec(argv, options(context).cwd(cwd));
  co_return result.out;
}

Awaitable<void> cwd_relative(Context context) {
  auto session = co_await context.session();
  co_await output_of(context, session, "mkdir -p a/b");
  const std::string wanted = session->workspace_path() + "/a/b\n";
  std::string seen = co_await pwd_in(context, session, "a/b");
  expect_equal("pwd in a/b", seen, wanted);
  seen = co_await pwd_in(context, session, "a/../a/./b/");
  expect_equal("pwd in a/../a/./b/", seen, wanted);
}

Awaitable<void> cwd_absolute(Context context) {
  auto session = co_await context.session();
  co_await output_of(context, session, "mkdir -p a/b");
  std::string seen = co_await pwd_in(context, session, session->workspace_path() + "/a/b");
  expect_equal("pwd in the workspace's a/b", seen, session->workspace_path() + "/a/b\n");
  seen = co_await pwd_in(context, session, "/");
  expect_equal("pwd in /", seen, "/\n");
}

Awaitable<void> cwd_escape(Context context) {
  auto session = co_await context.session();
  co_await output_of(context, session, "mkdir in; ln -s / out; ln -s in inside");
  const std::vector<std::string> escapes{"..", "in/../..", "out"};
  for (const std::string& cwd : escapes) {
    co_await refused("exec in the relative cwd " + cwd, pwd_in(context, session, cwd),
                     ErrorCode::path_escapes);
  }
  const std::string seen = co_await pwd_in(context, session, "inside");
  expect_equal("pwd in a symlink that stays inside", seen, session->workspace_path() + "/in\n");
}

Awaitable<void> cwd_missing(Context context) {
  auto session = co_await context.session();
  co_await session->put_file("file", "");
  const std::vector<std::string> unusable{"missing", "file"};
  for (const std::string& cwd : unusable) {
    co_await refused("exec in the cwd " + cwd, pwd_in(context, session, cwd), ErrorCode::cwd_missing);
  }
}

constexpr Check table[] = {
    {"exec.argv_intact", "S-40", "arguments arrive as given, no shell in between", argv_intact},
    {"exec.bad_argv", "S-40", "an empty argv or a NUL in it is refused", bad_argv},
    {"exec.command_not_found", "S-40", "an unknown command is typed and named", command_not_found},
    {"exec.not_executable", "S-40", "a file that may not be executed is typed and named", not_executable},
    {"exec.bad_format", "S-40", "what the kernel cannot run is typed, and no shell tries it", bad_format},
    {"exec.argument_list_too_long", "S-40", "arguments that execve does not take are typed", too_long},
    {"exec.env_is_clean", "S-41", "nothing of the host's environment reaches a command", env_is_clean},
    {"exec.env_overlay", "S-41", "the call's env is laid over the spec's, for that call", env_overlay},
    {"exec.env_bytes", "S-41", "a variable's value arrives as given", env_bytes},
    {"exec.env_path_finds_command", "S-40 S-41", "argv[0] is looked up on the PATH that the child sees",
     env_path_finds_command},
    {"exec.env_bad_name", "S-6", "variables that execve cannot carry are refused", env_bad_name},
    {"exec.env_never_in_errors", "S-6", "no message holds an env value", env_never_in_errors},
    {"exec.cwd_default", "S-42", "without a cwd a command runs in the workspace", cwd_default},
    {"exec.cwd_relative", "S-42", "a relative cwd is under the workspace", cwd_relative},
    {"exec.cwd_absolute", "S-42", "an absolute cwd is as given", cwd_absolute},
    {"exec.cwd_escape", "S-42", "a relative cwd may not leave the workspace, symlinks included", cwd_escape},
    {"exec.cwd_missing", "S-42", "a missing cwd is an error of its own", cwd_missing},
};

}  // namespace

std::span<const Check> exec_request_checks() { return table; }

}  // namespace caisson::kit::conformance
