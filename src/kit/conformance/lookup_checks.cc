// Checks of how a command is found, and of what it is given, beyond the plain cases.
#include "kit/conformance/check.h"
#include "kit/conformance/shell.h"
#include "kit/conformance/task.h"

namespace caisson::kit::conformance {
namespace {

constexpr unsigned executable = 0755;

/// A program that says `word`.
Awaitable<void> put_program(SessionPtr session, std::string path, std::string word,
                            unsigned mode = executable) {
  return session->put_file(std::move(path), "#!/bin/sh\necho " + word + "\n", mode);
}

Awaitable<void> lookup_goes_on(Context context) {
  auto session = co_await context.session();
  co_await put_program(session, "first/tool", "first", 0644);
  co_await put_program(session, "second/tool", "second");
  const std::string path = session->workspace_path();
  Argv argv{"tool"};
  ExecResult result = co_await session->exec(
      argv, options(context).env("PATH", path + "/none:" + path + "/first:" + path + "/second"));
  expect_equal("stdout of a command that two places on the PATH have, the first not executable", result.out,
               "second\n");
  co_await refused("exec of a command whose only place has it not executable",
                   session->exec(argv, options(context).env("PATH", path + "/none:" + path + "/first")),
                   ErrorCode::not_executable);
}

Awaitable<void> path_order(Context context) {
  SandboxSessionSpec spec = context.spec();
  auto probe = co_await context.session();
  // Where the base PATH finds it, and a place before that for each layer above.
  const std::string system = co_await output_of(context, probe, "printf %s \"$PATH\"");
  spec.env.emplace("PATH", "spec:" + system);
  auto session = co_await context.create(std::move(spec));
  co_await put_program(session, "spec/tr", "spec");
  co_await put_program(session, "call/tr", "call");
  Argv argv{"tr"};
  ExecResult result = co_await session->exec(argv, options(context));
  expect_equal("stdout of a command on the spec's PATH", result.out, "spec\n");
  result = co_await session->exec(argv, options(context).env("PATH", "call:" + system));
  expect_equal("stdout of it with the call's own PATH", result.out, "call\n");
  result = co_await session->exec(argv, options(context));
  expect_equal("stdout of it in the next exec", result.out, "spec\n");
}

Awaitable<void> relative_in_cwd(Context context) {
  auto session = co_await context.session();
  co_await put_program(session, "tool", "in the workspace");
  co_await put_program(session, "sub/tool", "in the directory");
  Argv argv{"./tool"};
  ExecResult result = co_await session->exec(argv, options(context).cwd("sub"));
  expect_equal("stdout of ./tool in the cwd sub", result.out, "in the directory\n");
  result = co_await session->exec(argv, options(context));
  expect_equal("stdout of ./tool in the workspace", result.out, "in the workspace\n");
}

Awaitable<void> missing_interpreter(Context context) {
  auto session = co_await context.session();
  co_await session->put_file("script", "#!/no/such/interpreter\n", executable);
  Argv argv{"./script"};
  const std::vector<ErrorCode> codes{ErrorCode::command_not_found, ErrorCode::not_executable,
                                     ErrorCode::bad_format};
  const Refusal refusal = co_await refused("exec of a script whose interpreter is missing",
                                           session->exec(argv, options(context)), codes);
  expect_contains("the message", refusal.message, "script");
}

Awaitable<void> directory_is_no_command(Context context) {
  auto session = co_await context.session();
  co_await output_of(context, session, "mkdir directory");
  Argv argv{"./directory"};
  co_await refused("exec of a directory", session->exec(argv, options(context)), ErrorCode::not_executable);
  Argv below{"./directory/none/none"};
  co_await refused("exec of a path through a directory that is not there",
                   session->exec(below, options(context)), ErrorCode::command_not_found);
}

Awaitable<void> empty_name(Context context) {
  auto session = co_await context.session();
  Argv argv(std::vector<std::string>{"", "word"});
  const std::vector<ErrorCode> codes{ErrorCode::invalid_argument, ErrorCode::command_not_found};
  co_await refused("exec of an empty command name", session->exec(argv, options(context)), codes);
}

Awaitable<void> long_name(Context context) {
  auto session = co_await context.session();
  const std::vector<std::string> names{"begin-" + std::string(100000, 'x'),
                                       "./begin-" + std::string(200, 'y') + "/" + std::string(200, 'z') +
                                           "/" + std::string(200, 'z') + "/" + std::string(200, 'z')};
  for (const std::string& name : names) {
    Argv argv(std::vector<std::string>{name});
    const std::vector<ErrorCode> codes{ErrorCode::command_not_found, ErrorCode::argument_list_too_long};
    const Refusal refusal =
        co_await refused("exec of a command with a long name", session->exec(argv, options(context)), codes);
    expect_contains("the message", refusal.message, "begin-");
    expect(refusal.message.size() <= 600, "expected a message that shortens the name, saw one of " +
                                              show(refusal.message.size()) + " bytes");
  }
}

Awaitable<void> environment_too_long(Context context) {
  auto session = co_await context.session();
  Argv argv{"true"};
  co_await refused("exec with a variable of 1 MiB",
                   session->exec(argv, options(context).env("LONG", std::string(1U << 20U, 'x'))),
                   ErrorCode::argument_list_too_long);
  const ExecResult result =
      co_await session->exec(argv, options(context).env("LONG", std::string(1U << 16U, 'x')));
  expect_equal("exit_code with a variable of 64 KiB", result.exit_code, 0);
}

/// Each failure of S-40 and S-42, by exec_start.
Awaitable<void> start_failures(Context context) {
  auto session = co_await context.session();
  co_await put_program(session, "plain", "x", 0644);
  co_await session->put_file("nonsense", std::string("\x01\x02\x03 no program\n"), executable);
  struct Row {
    Argv argv;
    ErrorCode code;
  };
  std::vector<Row> rows;
  rows.push_back({Argv{"no-such-command-here"}, ErrorCode::command_not_found});
  rows.push_back({Argv{"./plain"}, ErrorCode::not_executable});
  rows.push_back({Argv{"./nonsense"}, ErrorCode::bad_format});
  rows.push_back({shell("exit 0", {std::string(1U << 20U, 'x')}), ErrorCode::argument_list_too_long});
  for (Row& row : rows) {
    const std::string what = "exec_start of " + show(row.argv.words().front());
    co_await refused(what, session->exec_start(row.argv, options(context)), row.code);
  }
  Argv argv{"true"};
  co_await refused("exec_start in a missing cwd", session->exec_start(argv, options(context).cwd("missing")),
                   ErrorCode::cwd_missing);
  co_await refused("exec_start in a cwd outside", session->exec_start(argv, options(context).cwd("..")),
                   ErrorCode::path_escapes);
}

Awaitable<void> cwd_dangling(Context context) {
  auto session = co_await context.session();
  co_await output_of(context, session, "ln -s nowhere dangling; ln -s loop loop; : >file");
  const std::vector<std::string> unusable{"dangling", "file/below", "a/b/c"};
  Argv argv{"pwd"};
  for (const std::string& cwd : unusable) {
    co_await refused("exec in the cwd " + cwd, session->exec(argv, options(context).cwd(cwd)),
                     ErrorCode::cwd_missing);
  }
  const Caught looped = co_await caught(session->exec(argv, options(context).cwd("loop")));
  expect_typed("exec in a cwd that is a symlink to itself", looped);
}

Awaitable<void> cwd_absolute_symlink(Context context) {
  auto session = co_await context.session();
  co_await output_of(context, session, "ln -s / out");
  Argv argv = shell("pwd -P");
  const ExecResult result =
      co_await session->exec(argv, options(context).cwd(session->workspace_path() + "/out"));
  expect_equal("pwd -P in an absolute cwd that is a symlink to /", result.out, "/\n");
}

/// What S-44 says of exec, of exec_start.
Awaitable<void> process_state(Context context) {
  auto session = co_await context.session();
  // The descriptors and masks are a plain program's, not a shell's, which sets some itself.
  Argv status{"cat", "/proc/self/status", "/proc/self/stat"};
  std::unique_ptr<SandboxExecHandle> started = co_await session->exec_start(status, options(context));
  Drained drained = co_await drain(HandlePtr(std::move(started)));
  expect_contains("signals that a command finds ignored", drained.out, "SigIgn:\t0000000000000000");
  expect_contains("signals that a command finds blocked", drained.out, "SigBlk:\t0000000000000000");
  HandlePtr handle = co_await start_shell(
      context, session,
      "n=3; while test $n -lt 256; do test -e /proc/self/fd/$n && echo descriptor $n; n=$((n+1)); done; "
      "read -r pid name state parent group session rest </proc/self/stat; test $pid = $group && test $pid = "
      "$session && echo leader; umask; test -t 0 || test -t 1 || test -t 2 || (: </dev/tty) 2>/dev/null || "
      "echo no terminal");
  drained = co_await drain(handle);
  expect_equal("a command of exec_start: its descriptors, its process session, umask and terminal",
               drained.out, "leader\n0022\nno terminal\n");
}

Awaitable<ExecResult> one_of_two(Context context, SessionPtr session, std::string own, std::string other) {
  Argv argv = shell("echo \"$0 $NAME $(cat) ${PWD##*/}\" >../" + own + ".seen; : >../" + own +
                    ".up; until test -e ../" + other + ".up; do sleep 0.02; done; cat ../" + own + ".seen");
  ExecOptions with = options(context);
  with.env("NAME", own).cwd(own).input(own);
  return session->exec(std::move(argv), std::move(with));
}

Awaitable<void> apart(Context context) {
  auto session = co_await context.session();
  co_await output_of(context, session, "mkdir one two");
  Task<ExecResult> first(context.executor(), one_of_two(context, session, "one", "two"));
  Task<ExecResult> second(context.executor(), one_of_two(context, session, "two", "one"));
  const ExecResult one = co_await first.get();
  const ExecResult two = co_await second.get();
  expect_equal("env, stdin and cwd of one of two execs at once", one.out, "sh one one one\n");
  expect_equal("env, stdin and cwd of the other", two.out, "sh two two two\n");
}

constexpr Check table[] = {
    {"exec.path_lookup_goes_on", "S-40", "the lookup passes by what may not be executed", lookup_goes_on},
    {"exec.env_path_order", "S-40 S-41", "the spec's PATH is over the base's, the call's over both",
     path_order},
    {"exec.relative_command_in_cwd", "S-40", "a command with a slash is found from the child's cwd",
     relative_in_cwd},
    {"exec.missing_interpreter", "S-40", "a script without its interpreter is typed and named",
     missing_interpreter},
    {"exec.directory_is_no_command", "S-40", "a directory is not executable", directory_is_no_command},
    {"exec.empty_command_name", "S-40", "an empty command name is refused", empty_name},
    {"exec.long_name_shortened", "S-40", "a long name is shortened in the message", long_name},
    {"exec.environment_too_long", "S-40", "an environment that execve does not take is typed",
     environment_too_long},
    {"interactive.start_failures", "S-40 S-42", "exec_start types what cannot be started as exec does",
     start_failures},
    {"exec.cwd_dangling", "S-42", "a cwd that leads nowhere is typed", cwd_dangling},
    {"exec.cwd_symlink_absolute", "S-42", "an absolute cwd is as given, symlinks included",
     cwd_absolute_symlink},
    {"interactive.process_state", "S-44", "a command of exec_start finds the process that S-44 says",
     process_state},
    {"exec.apart", "S-51", "execs at once share no environment, cwd or stdin", apart},
};

}  // namespace

std::span<const Check> lookup_checks() { return table; }

}  // namespace caisson::kit::conformance
