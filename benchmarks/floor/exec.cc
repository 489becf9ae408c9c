// The floor of an exec.
#include "benchmarks/floor/exec.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "benchmarks/floor/require.h"

namespace caisson::bench::floor {
void exec_true() {
  int out[2];
  int err[2];
  require(pipe2(out, O_CLOEXEC) == 0, errno, "pipe2");
  require(pipe2(err, O_CLOEXEC) == 0, errno, "pipe2");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out[1], 1);
  posix_spawn_file_actions_adddup2(&actions, err[1], 2);
  char name[] = "/bin/true";
  char path[] = "PATH=/usr/bin:/bin";
  char* argv[] = {name, nullptr};
  char* envp[] = {path, nullptr};
  pid_t pid = -1;
  const int failure = posix_spawn(&pid, name, &actions, nullptr, argv, envp);
  posix_spawn_file_actions_destroy(&actions);
  close(out[1]);
  close(err[1]);
  require(failure == 0, failure, "posix_spawn");
  pollfd streams[2] = {{out[0], POLLIN, 0}, {err[0], POLLIN, 0}};
  for (int open = 2; open > 0;) {
    require(poll(streams, 2, -1) >= 0 || errno == EINTR, errno, "poll");
    for (pollfd& stream : streams) {
      char buffer[65536];
      if (stream.fd < 0 || stream.revents == 0) continue;
      if (read(stream.fd, buffer, sizeof buffer) > 0) continue;
      close(stream.fd);
      stream.fd = -1;
      --open;
    }
  }
  int status = 0;
  require(waitpid(pid, &status, 0) == pid, errno, "waitpid");
  require(status == 0, ECHILD, "/bin/true");
}

}  // namespace caisson::bench::floor
