// The shim program: starts one command, reaps every orphan of its tree, and kills the tree when told to.
//
// A static program without iostreams or allocation, so that it starts fast and can run anywhere.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/process.h"
#include "os/raw_syscall.h"
#include "os/shim_protocol.h"
#include "os/spawn.h"

namespace caisson::os {
namespace {

constexpr FdRef host{shim_socket};

// How often a tree is looked at again at once while it is being killed, before looks are spaced out.
constexpr int eager_rounds = 200;
constexpr int longest_pause_ms = 20;

[[noreturn]] void leave() { ::_exit(0); }

void report(const ShimReport& news) {
  // Four short reports always fit into the socket; a host that is gone reads none.
  static_cast<void>(::send(host.number, &news, sizeof news, MSG_NOSIGNAL | MSG_DONTWAIT));
}

[[noreturn]] void fail(SpawnStep step, int number) {
  report({ShimNews::failed, step, 0, 0, number});
  leave();
}

// Everything that the tree's processes may send us, as the same user, but SIGKILL and SIGSTOP. By hand, for
// libc keeps two signals to itself.
void ignore_signals() {
  struct {
    void (*handler)(int);
    std::uint64_t flags;
    void* restorer;
    std::uint64_t mask;
  } const ignore{SIG_IGN, 0, nullptr, 0};
  for (int number = 1; number <= 64; ++number) {
    if (number != SIGCHLD) raw_syscall(SYS_rt_sigaction, raw(number), raw(&ignore), 0, 8);
  }
}

// --- the plan
// -----------------------------------------------------------------------------------------------------

// Memory of the plan's own, wiped at its end: it holds the command's environment.
struct PlanMemory {
  char* data = nullptr;
  std::size_t size = 0;
};

PlanMemory allocate(std::size_t size) {
  void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) fail(SpawnStep::shim, ENOMEM);
  return {static_cast<char*>(memory), size};
}

void wipe(const PlanMemory& memory) {
  ::explicit_bzero(memory.data, memory.size);
  ::munmap(memory.data, memory.size);
}

void receive(void* data, std::size_t size) {
  char* to = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t count = ::recv(host.number, to, size, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) leave();
    to += count;
    size -= static_cast<std::size_t>(count);
  }
}

// The next `count` strings of the plan as a null-terminated array at `array`.
const char** point(const char** array, std::uint32_t count, const char*& string) {
  const char** const first = array;
  for (std::uint32_t i = 0; i < count; ++i) {
    *array++ = string;
    string += ::strlen(string) + 1;
  }
  *array = nullptr;
  return first;
}

// --- the tree
// -----------------------------------------------------------------------------------------------------

// /proc/PID/task/TID/children of the main thread, which is the parent of all we start and of all orphans.
int children_file = -1;

void kill_child(pid_t pid) {
  const int pidfd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (pidfd >= 0) {
    ::syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, nullptr, 0);
    ::close(pidfd);
  } else if (errno != ESRCH) {
    // No descriptors are left in the whole system. A child that we have not reaped keeps its number.
    ::kill(pid, SIGKILL);
  }
}

// Kills every child there is now; grandchildren come to us when their parents are gone.
void kill_children() {
  char text[8192];
  const ssize_t count = ::pread(children_file, text, sizeof text - 1, 0);
  if (count <= 0) return;
  text[count] = '\0';
  // A number that the end of the buffer cuts is left to the next round.
  const char* const last_space =
      static_cast<const char*>(::memrchr(text, ' ', static_cast<std::size_t>(count)));
  char* at = text;
  while (last_space != nullptr && at < last_space) {
    const long pid = ::strtol(at, &at, 10);
    if (pid <= 0) return;
    kill_child(static_cast<pid_t>(pid));
  }
}

// While the main thread starts the leader it stands still, perhaps for long, if somebody stops the child
// before it runs its program. Meanwhile this thread hears the order to kill.
struct Watch {
  FdRef parent;
  FdRef done;
};

void* kill_on_order(void* argument) {
  const Watch* const watch = static_cast<const Watch*>(argument);
  pollfd events[3] = {
      {host.number, POLLRDHUP, 0}, {watch->parent.number, POLLIN, 0}, {watch->done.number, POLLIN, 0}};
  while (::poll(events, 3, -1) < 0) {
  }
  while (events[2].revents == 0) {
    kill_children();
    ::poll(&events[2], 1, 1);
  }
  return nullptr;
}

boost::system::result<Process, SpawnFailure> spawn_watched(const SpawnPlan& plan, FdRef parent) {
  const Fd done = Fd::adopt(::eventfd(0, EFD_CLOEXEC));
  Watch watch{parent, done};
  pthread_t thread;
  if (!done || ::pthread_create(&thread, nullptr, &kill_on_order, &watch) != 0) {
    return SpawnFailure{SpawnStep::shim, EAGAIN};
  }
  auto process = spawn(plan);
  const std::uint64_t one = 1;
  static_cast<void>(::write(done.number(), &one, sizeof one));
  ::pthread_join(thread, nullptr);
  return process;
}

boost::system::result<Process, SpawnFailure> start_leader(FdRef parent) {
  ShimRequest request;
  receive(&request, sizeof request);
  const std::size_t pointers = request.candidates + request.arguments + request.variables + 3;
  const PlanMemory memory = allocate(pointers * sizeof(char*) + request.bytes);
  const char** const arrays = reinterpret_cast<const char**>(memory.data);
  receive(memory.data + pointers * sizeof(char*), request.bytes);

  SpawnPlan plan;
  const char* string = memory.data + pointers * sizeof(char*);
  const char** const candidates = point(arrays, request.candidates, string);
  plan.candidates = std::span<const char* const>(candidates, request.candidates);
  const char** const argv = point(candidates + request.candidates + 1, request.arguments, string);
  plan.argv = argv;
  plan.envp = point(argv + request.arguments + 1, request.variables, string);
  for (int i = 0; i < 3; ++i) plan.descriptors[i].number = i;
  plan.terminal = request.terminal != 0;
  plan.descriptor_limit_soft = request.descriptor_limit_soft;
  // Where we are killed first, at least the leader goes with us.
  plan.parent_death_signal = SIGKILL;
  auto leader = spawn_watched(plan, parent);
  wipe(memory);
  return leader;
}

// Reaps all that have ended. The end of the leader is reported; when nobody is left, that is, and we go.
void reap(pid_t& leader) {
  for (;;) {
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | __WALL) != 0) {
      if (errno == EINTR) continue;
      // ECHILD: nothing but this proves that all are gone.
      report({ShimNews::empty, {}, 0, 0, 0});
      leave();
    }
    if (info.si_pid == 0) return;
    if (info.si_pid != leader) continue;
    leader = -1;
    report({ShimNews::ended, {}, info.si_code != CLD_EXITED, info.si_code == CLD_DUMPED, info.si_status});
  }
}

// Hands signals on; false when Caisson closed its end, or has told us so by half.
bool take_orders(const Process& leader, bool leader_ended) {
  unsigned char signals[64];
  for (;;) {
    const ssize_t count = ::recv(host.number, signals, sizeof signals, MSG_DONTWAIT);
    if (count == 0) return false;
    if (count < 0) return errno == EAGAIN || errno == EINTR;
    for (ssize_t i = 0; i < count && !leader_ended; ++i) static_cast<void>(leader.signal(signals[i]));
  }
}

[[noreturn]] void serve(const Process& process, FdRef parent, FdRef child_signals) {
  pid_t leader = process.pid();
  bool killing = false;
  int rounds = 0;
  for (;;) {
    reap(leader);
    int pause_ms = -1;
    if (killing) {
      kill_children();
      // A child's end wakes us whatever the pause is; looks in between are for what forks faster than it is
      // seen.
      ++rounds;
      pause_ms = rounds < eager_rounds ? 0 : rounds < 2 * eager_rounds ? 1 : longest_pause_ms;
      if (pause_ms == 0) ::sched_yield();
    }
    pollfd events[3] = {{child_signals.number, POLLIN, 0},
                        {killing ? -1 : host.number, POLLIN | POLLRDHUP, 0},
                        {killing ? -1 : parent.number, POLLIN, 0}};
    if (::poll(events, 3, pause_ms) <= 0) continue;
    if (events[0].revents != 0) {
      signalfd_siginfo news;
      static_cast<void>(::read(child_signals.number, &news, sizeof news));
    }
    if (events[1].revents != 0 && !take_orders(process, leader < 0)) killing = true;
    if (events[2].revents != 0) killing = true;
  }
}

int shim_main() {
  ::prctl(PR_SET_NAME, "caisson-shim");
  ignore_signals();
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  ::sigprocmask(SIG_BLOCK, &child, nullptr);
  const Fd child_signals = Fd::adopt(::signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK));
  // A fork of the host program may hold the other end of the socket open: its own end ends the tree too.
  // Where it is out of sight, in another PID namespace, the number is 0 and the descriptor none.
  const Fd parent = Fd::adopt(static_cast<int>(::syscall(SYS_pidfd_open, ::getppid(), 0)));
  children_file = ::open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
  if (!child_signals || children_file < 0) fail(SpawnStep::shim, errno);

  const auto leader = start_leader(parent);
  if (!leader) fail(leader.error().step, leader.error().number);
  // Ends of the command's streams that we held would keep their readers from the end of file, and the working
  // directory from being unmounted.
  for (int number = 0; number < 3; ++number) ::close(number);
  static_cast<void>(::chdir("/"));
  report({ShimNews::started, {}, 0, 0, leader->pid()});
  serve(*leader, parent, child_signals);
}

}  // namespace
}  // namespace caisson::os

int main() { return caisson::os::shim_main(); }
