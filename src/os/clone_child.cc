// clone3 with a stack of the child's own, by hand: libc has no wrapper for it.
#include "os/clone_child.h"

#include <linux/sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <cstdint>

#include "os/raw_syscall.h"

namespace caisson::os {

namespace {

constexpr std::size_t page_size = 4096;
constexpr std::size_t stack_size = 8 * page_size;

// The child's stack, above a guard page. One a thread, since the thread waits as long as a child is on it.
class ChildStack {
 public:
  ChildStack() noexcept {
    void* memory =
        ::mmap(nullptr, page_size + stack_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED) return;
    memory_ = static_cast<char*>(memory);
    if (::mprotect(memory_ + page_size, stack_size, PROT_READ | PROT_WRITE) != 0) reset();
  }
  ~ChildStack() { reset(); }
  ChildStack(const ChildStack&) = delete;
  ChildStack& operator=(const ChildStack&) = delete;

  char* bottom() const noexcept { return memory_ == nullptr ? nullptr : memory_ + page_size; }

 private:
  void reset() noexcept {
    if (memory_ != nullptr) ::munmap(std::exchange(memory_, nullptr), page_size + stack_size);
  }
  char* memory_ = nullptr;
};

// glibc hides signals 32 and 33 from sigprocmask; a handler for either (pthread_cancel, setuid) must not run
// in the child.
class AllSignalsBlocked {
 public:
  AllSignalsBlocked() noexcept {
    const std::uint64_t all = ~std::uint64_t{0};
    raw_syscall(SYS_rt_sigprocmask, SIG_SETMASK, raw(&all), raw(&before_), sizeof all);
  }
  ~AllSignalsBlocked() { raw_syscall(SYS_rt_sigprocmask, SIG_SETMASK, raw(&before_), 0, sizeof before_); }
  AllSignalsBlocked(const AllSignalsBlocked&) = delete;
  AllSignalsBlocked& operator=(const AllSignalsBlocked&) = delete;

 private:
  std::uint64_t before_ = 0;
};

// The child comes out of the system call on its own stack, whose two topmost words are the function and its
// argument.
CAISSON_CHILD_CODE __attribute__((noinline)) long clone_onto_stack(clone_args* arguments) noexcept {
  long result;
  asm volatile(
      "syscall\n\t"
      "test %%rax, %%rax\n\t"
      "jnz 1f\n\t"
      "xor %%ebp, %%ebp\n\t"
      "pop %%rax\n\t"
      "pop %%rdi\n\t"
      "call *%%rax\n\t"
      "ud2\n"
      "1:"
      : "=a"(result)
      : "0"(static_cast<long>(SYS_clone3)), "D"(arguments), "S"(sizeof *arguments)
      : "rcx", "r11", "memory", "cc");
  return result;
}

}  // namespace

Result<ClonedChild> clone_child(void (*function)(void*), void* argument, FdRef cgroup,
                                std::uint64_t flags) noexcept {
  static thread_local const ChildStack stack;
  if (stack.bottom() == nullptr) return error_of(ENOMEM);
  auto* top = reinterpret_cast<std::uintptr_t*>(stack.bottom() + stack_size);
  top[-2] = reinterpret_cast<std::uintptr_t>(function);
  top[-1] = reinterpret_cast<std::uintptr_t>(argument);

  int pidfd = -1;
  clone_args arguments{};
  arguments.flags = CLONE_VM | CLONE_VFORK | CLONE_PIDFD | flags;
  arguments.pidfd = raw(&pidfd);
  arguments.exit_signal = SIGCHLD;
  arguments.stack = raw(stack.bottom());
  arguments.stack_size = stack_size - 2 * sizeof *top;
  if (cgroup.number >= 0) {
    arguments.flags |= CLONE_INTO_CGROUP;
    arguments.cgroup = raw(cgroup.number);
  }

  long pid;
  {
    const AllSignalsBlocked blocked;
    pid = clone_onto_stack(&arguments);
  }
  if (pid < 0) return error_of(static_cast<int>(-pid));
  Fd owned = Fd::adopt(pidfd);
  if (pidfd < 3) {
    // Where there is no room for a move, the low number serves too.
    auto moved = duplicate(owned);
    if (moved) owned = std::move(*moved);
  }
  return ClonedChild{std::move(owned), static_cast<pid_t>(pid)};
}

}  // namespace caisson::os
