// guest_exhaust processes|descriptors|terminals|signals|memory|stopped: uses up what it can get, and prints
// how much that was, and why no more. `stopped` stops and slows all the others that it can reach, for ever.
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

namespace {

int processes() {
  std::vector<pid_t> children;
  int error = 0;
  // More than any cap under test.
  while (children.size() < 20000) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::pause();
      ::_exit(0);
    }
    if (child < 0) {
      error = errno;
      break;
    }
    children.push_back(child);
  }
  std::printf("%zu %s\n", children.size(), error == 0 ? "done" : ::strerrorname_np(error));
  for (const pid_t child : children) ::kill(child, SIGKILL);
  while (::wait(nullptr) > 0) continue;
  return 0;
}

int descriptors() {
  long count = 0;
  while (::open("/dev/null", O_RDONLY) >= 0) ++count;
  std::printf("%ld %s\n", count, ::strerrorname_np(errno));
  return 0;
}

int terminals() {
  long count = 0;
  while (::posix_openpt(O_RDWR | O_NOCTTY) >= 0) ++count;
  std::printf("%ld %s\n", count, ::strerrorname_np(errno));
  return 0;
}

// Those that wait to be taken.
int signals() {
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_BLOCK, &all, nullptr);
  long count = 0;
  while (count < 1000000 && ::sigqueue(::getpid(), SIGRTMIN, {}) == 0) ++count;
  std::printf("%ld %s\n", count, ::strerrorname_np(errno));
  return 0;
}

[[noreturn]] int memory() {
  constexpr std::size_t piece = 1 << 20;
  for (;;) {
    void* const more = ::mmap(nullptr, piece, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (more == MAP_FAILED) ::_exit(3);
    std::memset(more, 1, piece);
  }
}

[[noreturn]] int stopped() {
  std::puts("ready");
  std::fflush(stdout);
  for (int i = 0; i < 8; ++i) {
    if (::fork() == 0) break;
  }
  ::setpriority(PRIO_PROCESS, 0, -20);
  for (;;) {
    ::kill(-1, SIGSTOP);
    for (pid_t pid = 1; pid < 64; ++pid) {
      if (pid == ::getpid()) continue;
      ::kill(pid, SIGSTOP);
      ::ptrace(PTRACE_SEIZE, pid, nullptr, nullptr);
      ::ptrace(PTRACE_INTERRUPT, pid, nullptr, nullptr);
      ::setpriority(PRIO_PROCESS, static_cast<id_t>(pid), 19);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const std::string_view what = argv[1];
  if (what == "processes") return processes();
  if (what == "descriptors") return descriptors();
  if (what == "terminals") return terminals();
  if (what == "signals") return signals();
  if (what == "memory") memory();
  if (what == "stopped") stopped();
  return 2;
}
