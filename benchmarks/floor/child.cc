// A child process with pipes.
#include "benchmarks/floor/child.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "benchmarks/floor/require.h"

namespace caisson::bench::floor {
namespace {

constexpr std::size_t piece = 65536;

}  // namespace

Child::Child(std::span<const char* const> argv) {
  int in[2];
  int out[2];
  require(pipe2(in, O_CLOEXEC) == 0, errno, "pipe2");
  require(pipe2(out, O_CLOEXEC) == 0, errno, "pipe2");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in[0], 0);
  posix_spawn_file_actions_adddup2(&actions, out[1], 1);
  std::vector<char*> words;
  for (const char* word : argv) words.push_back(const_cast<char*>(word));
  words.push_back(nullptr);
  char path[] = "PATH=/usr/bin:/bin";
  char* envp[] = {path, nullptr};
  const int failure = posix_spawnp(&pid_, words[0], &actions, nullptr, words.data(), envp);
  posix_spawn_file_actions_destroy(&actions);
  close(in[0]);
  close(out[1]);
  input_ = in[1];
  output_ = out[0];
  require(failure == 0, failure, "posix_spawn");
}

Child::~Child() {
  close(input_);
  close(output_);
  waitpid(pid_, nullptr, 0);
}

std::size_t Child::drain(char* into) {
  static char buffer[piece];
  std::size_t total = 0;
  for (;;) {
    const ssize_t count = read(output_, into != nullptr ? into + total : buffer, piece);
    require(count >= 0, errno, "read");
    if (count == 0) return total;
    total += static_cast<std::size_t>(count);
  }
}

void Child::ping(const char* data, std::size_t size, char* back) {
  require(write(input_, data, size) == static_cast<ssize_t>(size), errno, "write");
  for (std::size_t got = 0; got < size;) {
    const ssize_t count = read(output_, back + got, size - got);
    require(count > 0, errno, "read");
    got += static_cast<std::size_t>(count);
  }
}

std::string Child::ask(const std::string& line) {
  const std::string sent = line + "\n";
  require(write(input_, sent.data(), sent.size()) == static_cast<ssize_t>(sent.size()), errno, "write");
  std::string answer;
  for (char buffer[4096]; answer.empty() || answer.back() != '\n';) {
    const ssize_t count = read(output_, buffer, sizeof buffer);
    require(count > 0, count == 0 ? EPIPE : errno, "reading an answer");
    answer.append(buffer, static_cast<std::size_t>(count));
  }
  answer.pop_back();
  return answer;
}

}  // namespace caisson::bench::floor
