// The floor of an exec.
#include "benchmarks/floor/exec.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "benchmarks/floor/require.h"

namespace caisson::bench::floor {

void run(std::span<const char* const> argv) {
  int out[2];
  int err[2];
  require(pipe2(out, O_CLOEXEC) == 0, errno, "pipe2");
  require(pipe2(err, O_CLOEXEC) == 0, errno, "pipe2");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out[1], 1);
  posix_spawn_file_actions_adddup2(&actions, err[1], 2);
  std::vector<char*> words;
  for (const char* word : argv) words.push_back(const_cast<char*>(word));
  words.push_back(nullptr);
  char path[] = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";
  char* envp[] = {path, nullptr};
  pid_t pid = -1;
  const int failure = posix_spawn(&pid, words[0], &actions, nullptr, words.data(), envp);
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
  require(status == 0, ECHILD, words[0]);
}

void exec_true() {
  static constexpr const char* argv[] = {"/bin/true"};
  run(argv);
}

}  // namespace caisson::bench::floor
