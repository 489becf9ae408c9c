// Checks of the process that a command finds itself to be.
#include "kit/conformance/check.h"
#include "kit/conformance/shell.h"

namespace caisson::kit::conformance {
namespace {

Awaitable<void> own_session(Context context) {
  auto session = co_await context.session();
  // Fields 1, 5 and 6 of /proc/PID/stat, proc_pid_stat(5): pid, process group, session.
  const std::string out =
      co_await output_of(context, session,
                         "read -r pid name state parent group session rest </proc/self/stat\n"
                         "test \"$pid\" = \"$group\" && test \"$pid\" = \"$session\" && echo own || echo "
                         "$pid in group $group, session $session");
  expect_equal("pid, process group and session of a command", out, "own\n");
}

std::string field_of(const std::string& status, const std::string& name) {
  const std::size_t at = status.find("\n" + name + ":\t");
  if (at == std::string::npos) return "absent";
  const std::size_t begin = at + name.size() + 3;
  return status.substr(begin, status.find('\n', begin) - begin);
}

Awaitable<void> default_signals(Context context) {
  auto session = co_await context.session();
  // Not of a shell, which sets some itself. Fields of proc_pid_status(5), a bit a signal.
  Argv argv{"cat", "/proc/self/status"};
  const ExecResult result = co_await session->exec(argv, options(context));
  expect_equal("signals that a command finds ignored", field_of(result.out, "SigIgn"), "0000000000000000");
  expect_equal("signals that a command finds blocked", field_of(result.out, "SigBlk"), "0000000000000000");
}

Awaitable<void> descriptors(Context context) {
  auto session = co_await context.session();
  const std::string out = co_await output_of(context, session,
                                             "n=0; while test $n -lt 256; do if test -e /proc/self/fd/$n; "
                                             "then printf '%s ' $n; fi; n=$((n+1)); done");
  expect_equal("descriptors of a command", out, "0 1 2 ");
}

Awaitable<void> umask(Context context) {
  auto session = co_await context.session();
  const std::string out = co_await output_of(context, session, "umask");
  expect_equal("umask of a command", out.substr(out.find_first_not_of('0')), "22\n");
}

Awaitable<void> no_terminal(Context context) {
  auto session = co_await context.session();
  const std::string out = co_await output_of(context, session,
                                             "if test -t 0 || test -t 1 || test -t 2 || (: </dev/tty) "
                                             "2>/dev/null; then echo some; else echo none; fi");
  expect_equal("terminal of a command that asked for none", out, "none\n");
}

constexpr Check table[] = {
    {"exec.own_session", "S-44", "a command leads a process session of its own", own_session},
    {"exec.default_signals", "S-44", "no signal is ignored or blocked", default_signals},
    {"exec.descriptors", "S-44", "a command has descriptors 0, 1, 2 and no other", descriptors},
    {"exec.umask", "S-44", "the umask is 022", umask},
    {"exec.no_terminal", "S-44", "no terminal unless one was asked for", no_terminal},
};

}  // namespace

std::span<const Check> exec_process_checks() { return table; }

}  // namespace caisson::kit::conformance
