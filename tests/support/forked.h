// Running a piece of a test in a process of its own, in new namespaces too.
#pragma once

#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "os/fd.h"

namespace caisson::test {

/// Writes a text to a file that is there, in one write(2), as files of /proc want it.
inline bool write_text(const std::string& path, std::string_view text) {
  const os::Fd file = os::Fd::adopt(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  return file && ::write(file.number(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

/// Runs `body`, which returns a text, in a fork that is in new `namespaces` (CLONE_NEW*), and returns that
/// text, or how the fork ended without one. A new user namespace has `id_map` for users and groups, in the
/// format of user_namespaces(7), before `body` runs.
template <class Body>
std::string in_child(Body body, std::uint64_t namespaces = 0, const char* id_map = "0 0 65536") {
  auto start = os::make_pipe();
  auto answer = os::make_pipe();
  if (!start || !answer) return "no pipes";
  clone_args arguments{};
  arguments.flags = namespaces;
  arguments.exit_signal = SIGCHLD;
  const auto child = static_cast<pid_t>(::syscall(SYS_clone3, &arguments, sizeof arguments));
  if (child < 0) return "clone: " + os::last_error().message();
  if (child == 0) {
    char byte = 0;
    start->write.reset();
    if (os::read_some(start->read, &byte, 1).value() != 1) _exit(1);
    _exit(os::write_all(answer->write, body()) ? 0 : 1);
  }
  answer->write.reset();
  std::string outcome;
  if ((namespaces & CLONE_NEWUSER) != 0) {
    const std::string process = "/proc/" + std::to_string(child);
    if (!write_text(process + "/uid_map", id_map) || !write_text(process + "/gid_map", id_map)) {
      outcome = "no id map: " + os::last_error().message();
      start->write.reset();
    }
  }
  if (start->write) static_cast<void>(os::write_all(start->write, "x"));
  outcome += os::read_all(answer->read, 1 << 20).value();
  int end = 0;
  ::waitpid(child, &end, 0);
  if (WIFSIGNALED(end)) outcome += " (died of signal " + std::to_string(WTERMSIG(end)) + ")";
  if (WIFEXITED(end) && WEXITSTATUS(end) != 0)
    outcome += " (exited with " + std::to_string(WEXITSTATUS(end)) + ")";
  return outcome;
}

}  // namespace caisson::test
