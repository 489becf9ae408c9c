// guest_tree leave|stay SHAPE...: makes a tree of processes of each shape, prints "pid N" for every one of
// them once it is as it is to be, then "ready"; then the leader exits or stays for ever.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace {

// What floods the output waits here, so that it does not cut into what the leader says.
int go[2];

// One write, so that lines of several processes do not mix.
void say(const char* word, long number) {
  char line[64];
  const int length = std::snprintf(line, sizeof line, "%s %ld\n", word, number);
  if (::write(1, line, static_cast<std::size_t>(length)) != length) std::_Exit(9);
}

[[noreturn]] void stay() {
  for (;;) ::pause();
}

void ignore_everything() {
  for (int number = 1; number <= 64; ++number) ::signal(number, SIG_IGN);
}

// Each process forks the next and exits: nobody who looks sees it for long. It ends by itself, for where
// nobody reaps the orphans as fast a machine runs out of process numbers.
[[noreturn]] void relay(useconds_t pause, int hops) {
  for (int hop = 0; hop < hops; ++hop) {
    const pid_t next = ::fork();
    if (next > 0) std::_Exit(0);
    if (next == 0) ::usleep(pause);
  }
  std::_Exit(0);
}

[[noreturn]] void be(std::string_view shape, int ready) {
  if (shape == "setsid") ::setsid();
  if (shape == "ignore") ignore_everything();
  if (shape == "silent") {
    for (int number = 0; number < 3; ++number) ::close(number);
  }
  if (shape == "flood") {
    char block[4096];
    std::memset(block, 'x', sizeof block);
    if (::write(ready, "r", 1) != 1 || ::read(go[0], block, 1) != 1) std::_Exit(9);
    while (::write(1, block, sizeof block) >= 0) {
    }
    stay();
  }
  if (::write(ready, "r", 1) != 1) std::_Exit(9);
  if (shape == "relay") relay(2000, 10000);
  if (shape == "sprint") relay(0, 200000);
  if (shape == "stop") ::raise(SIGSTOP);
  stay();
}

void make(std::string_view shape) {
  int ready[2];
  if (::pipe(ready) != 0) std::_Exit(9);
  const pid_t child = ::fork();
  if (child < 0) std::_Exit(9);
  if (child == 0) {
    ::close(ready[0]);
    if (shape == "double") {
      ::setsid();
      const pid_t grandchild = ::fork();
      if (grandchild > 0) {
        say("pid", grandchild);
        std::_Exit(0);
      }
    }
    if (shape == "deep") {
      // A chain of living processes, each the parent of the next.
      for (int depth = 0; depth < 5; ++depth) {
        if (::fork() > 0) stay();
        say("pid", ::getpid());  // each its own, before the last one is ready
      }
    }
    be(shape, ready[1]);
  }
  ::close(ready[1]);
  char byte;
  if (::read(ready[0], &byte, 1) != 1) std::_Exit(9);
  ::close(ready[0]);
  if (shape == "double") {
    ::waitpid(child, nullptr, 0);
  } else if (shape == "stop") {
    int status = 0;
    ::waitpid(child, &status, WUNTRACED);
    say("pid", child);
  } else if (shape != "relay" && shape != "sprint") {
    say("pid", child);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  if (::pipe(go) != 0) return 9;
  for (int i = 2; i < argc; ++i) make(argv[i]);
  say("ready", argc - 2);
  for (int i = 2; i < argc; ++i) {
    if (std::string_view(argv[i]) == "flood" && ::write(go[1], "g", 1) != 1) return 9;
  }
  if (std::string_view(argv[1]) == "stay") stay();
  return 0;
}
