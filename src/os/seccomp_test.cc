// Tests of the system call policy: each denial beside what the same call answers without the filter.
#include "os/seccomp.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <thread>

#include "os/seccomp_policy.h"
#include "tests/support/forked.h"

namespace caisson::os {
namespace {

using test::in_child;
using testing::HasSubstr;

constexpr long upper = 1L << 32;

const std::string& policy() {
  static const std::string program = compile_seccomp_policy();
  return program;
}

std::string install() {
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return "no no-new-privileges";
  const auto done = install_seccomp(policy());
  return done ? std::string() : done.error().message();
}

// What `body` says in a fork, under the filter or without it.
std::string said(bool filtered, const std::function<std::string()>& body) {
  static_cast<void>(policy());
  return in_child([&] {
    if (filtered) {
      if (std::string failed = install(); !failed.empty()) return failed;
    }
    return body();
  });
}

std::string answer_of(long result) { return result < 0 ? ::strerrorname_np(errno) : "fine"; }

// One raw call; what it makes ends with the fork.
struct Call {
  const char* name;
  long number;
  long arguments[5] = {};
};
std::string answer(bool filtered, const Call& call) {
  return said(filtered, [&] {
    const long* const a = call.arguments;
    const long result = ::syscall(call.number, a[0], a[1], a[2], a[3], a[4]);
    if (call.number == SYS_clone && result == 0) _exit(0);
    if (call.number == SYS_clone && result > 0) ::waitpid(static_cast<pid_t>(result), nullptr, __WALL);
    return answer_of(result);
  });
}

class Seccomp : public testing::Test {
 protected:
  void SetUp() override {
    // Without privilege many calls are EPERM anyway, and nothing would be seen.
    if (::geteuid() != 0) GTEST_SKIP() << "needs root, whom the kernel would let";
  }
};

// Calls with arguments that do nothing, or nothing outside the fork.
const Call forbidden[] = {
    {"mount", SYS_mount, {0, 0, 0, 0, 0}},
    {"umount2", SYS_umount2, {0, 0}},
    {"pivot_root", SYS_pivot_root, {0, 0}},
    {"chroot", SYS_chroot, {0}},
    {"fsopen", SYS_fsopen, {0, 0}},
    {"fsconfig", SYS_fsconfig, {-1, 0, 0, 0, 0}},
    {"fsmount", SYS_fsmount, {-1, 0, 0}},
    {"fspick", SYS_fspick, {-1, 0, 0}},
    {"move_mount", SYS_move_mount, {-1, 0, -1, 0, 0}},
    {"open_tree", SYS_open_tree, {-1, 0, 0}},
    {"mount_setattr", SYS_mount_setattr, {-1, 0, 0, 0, 0}},
    {"unshare user", SYS_unshare, {CLONE_NEWUSER}},
    {"unshare uts", SYS_unshare, {CLONE_NEWUTS}},
    {"setns", SYS_setns, {-1, 0}},
    {"open_by_handle_at", SYS_open_by_handle_at, {-1, 0, 0}},
    {"bpf", SYS_bpf, {-1, 0, 0}},
    {"perf_event_open", SYS_perf_event_open, {0, 0, -1, -1, 0}},
    {"keyctl", SYS_keyctl, {-1}},
    {"add_key", SYS_add_key, {0, 0, 0, 0, 0}},
    {"request_key", SYS_request_key, {0, 0, 0, 0}},
    {"userfaultfd", SYS_userfaultfd, {0}},
    {"io_uring_setup", SYS_io_uring_setup, {0, 0}},
    {"io_uring_enter", SYS_io_uring_enter, {-1, 0, 0, 0, 0}},
    {"io_uring_register", SYS_io_uring_register, {-1, 0, 0, 0}},
    {"syslog", SYS_syslog, {10}},
    {"fanotify_init", SYS_fanotify_init, {-1, 0}},
    {"pidfd_getfd", SYS_pidfd_getfd, {-1, 0, 0}},
    {"mbind", SYS_mbind, {0, 0, 0, 0, 0}},
    {"swapon", SYS_swapon, {0, 0}},
    {"acct", SYS_acct, {-1}},
    {"quotactl", SYS_quotactl, {-1, 0, 0, 0}},
    {"kcmp", SYS_kcmp, {0, 0, 0, 0, 0}},
    {"clone user", SYS_clone, {CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0}},
    {"clone mnt", SYS_clone, {CLONE_NEWNS | SIGCHLD, 0, 0, 0, 0}},
    {"clone pid", SYS_clone, {CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0}},
    {"clone net", SYS_clone, {CLONE_NEWNET | SIGCHLD, 0, 0, 0, 0}},
    {"clone ipc", SYS_clone, {CLONE_NEWIPC | SIGCHLD, 0, 0, 0, 0}},
    {"clone uts", SYS_clone, {CLONE_NEWUTS | SIGCHLD, 0, 0, 0, 0}},
    {"clone cgroup", SYS_clone, {CLONE_NEWCGROUP | SIGCHLD, 0, 0, 0, 0}},
    {"clone two", SYS_clone, {CLONE_NEWUTS | CLONE_NEWIPC | SIGCHLD, 0, 0, 0, 0}},
    {"prlimit64 of another", SYS_prlimit64, {1, RLIMIT_NOFILE, 0, 0}},
    {"TIOCSTI", SYS_ioctl, {-1, TIOCSTI, 0}},
    {"TIOCLINUX", SYS_ioctl, {-1, TIOCLINUX, 0}},
    {"TIOCSTI with a bit above", SYS_ioctl, {-1, upper | TIOCSTI, 0}},
    {"personality", SYS_personality, {READ_IMPLIES_EXEC}},
    {"personality with a bit above", SYS_personality, {upper | READ_IMPLIES_EXEC}},
    {"personality ADDR_COMPAT_LAYOUT", SYS_personality, {ADDR_COMPAT_LAYOUT}},
};

TEST_F(Seccomp, D12_ForbiddenCallsAreEpermAndWouldNotBeWithoutTheFilter) {
  for (const Call& call : forbidden) {
    EXPECT_EQ(answer(true, call), "EPERM") << call.name;
    const std::string control = answer(false, call);
    // What this kernel was built without shows nothing.
    if (control == "ENOSYS") continue;
    EXPECT_NE(control, "EPERM") << call.name << ": without the filter";
  }
}

TEST_F(Seccomp, D12_Clone3AndUnknownCallsAreEnosys) {
  const Call clone3{"clone3", SYS_clone3, {0, 0}};
  EXPECT_EQ(answer(false, clone3), "EINVAL");
  EXPECT_EQ(answer(true, clone3), "ENOSYS");
  const Call ustat{"ustat", SYS_ustat, {0, 0}};
  EXPECT_NE(answer(false, ustat), "ENOSYS");
  EXPECT_EQ(answer(true, ustat), "ENOSYS");
  for (const long number : {600L, 100000L}) EXPECT_EQ(answer(true, {"unknown", number}), "ENOSYS") << number;
}

// Their contexts are counted for the whole machine.
TEST_F(Seccomp, AsynchronousFileAccessIsEnosys) {
  const Call io_setup{"io_setup", SYS_io_setup, {0, 0}};
  EXPECT_NE(answer(false, io_setup), "ENOSYS");
  EXPECT_EQ(answer(true, io_setup), "ENOSYS");
}

TEST_F(Seccomp, D12_SocketsAreOfFourFamilies) {
  for (const long family : {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK}) {
    EXPECT_EQ(answer(true, {"socket", SYS_socket, {family, SOCK_DGRAM, 0}}), "fine") << family;
  }
  const Call packet{"packet", SYS_socket, {AF_PACKET, SOCK_RAW, 0}};
  if (answer(false, packet) != "fine") GTEST_SKIP() << "this kernel makes no packet sockets";
  EXPECT_EQ(answer(true, packet), "EAFNOSUPPORT");
  for (const long family : {AF_UNSPEC, AF_VSOCK, AF_ALG, AF_TIPC, AF_XDP, AF_BLUETOOTH, -1}) {
    EXPECT_EQ(answer(true, {"socket", SYS_socket, {family, SOCK_STREAM, 0}}), "EAFNOSUPPORT") << family;
    EXPECT_EQ(answer(true, {"above", SYS_socket, {upper | family, SOCK_STREAM, 0}}), "EAFNOSUPPORT")
        << family;
  }
  EXPECT_EQ(answer(true, {"socketpair", SYS_socketpair, {AF_TIPC, SOCK_STREAM, 0, 0}}), "EAFNOSUPPORT");
  const Call pair{"socketpair", SYS_socketpair, {AF_UNIX, SOCK_STREAM, 0, 0}};
  EXPECT_EQ(answer(true, pair), "EFAULT");
}

TEST_F(Seccomp, OtherArgumentsOfTheSameCallsPass) {
  EXPECT_EQ(answer(true, {"ioctl", SYS_ioctl, {-1, TIOCGWINSZ, 0}}), "EBADF");
  EXPECT_EQ(answer(true, {"prlimit64", SYS_prlimit64, {0, RLIMIT_NOFILE, 0, 0}}), "fine");
  EXPECT_EQ(answer(true, {"clone", SYS_clone, {SIGCHLD, 0, 0, 0, 0}}), "fine");
  for (const long persona : {0xffffffffL, long{PER_LINUX}, long{ADDR_NO_RANDOMIZE},
                             long{UNAME26} | PER_LINUX32, long{ADDR_NO_RANDOMIZE} | PER_LINUX32}) {
    EXPECT_EQ(answer(true, {"personality", SYS_personality, {persona}}), "fine") << persona;
  }
}

// getpid by another ABI's door. The gate faults where the kernel has none.
long call_by_i386_gate(long number) {
  long result = number;
  asm volatile("int $0x80" : "+a"(result)::"memory", "r8", "r9", "r10", "r11");
  return result;
}

TEST_F(Seccomp, D12_OtherAbisAreRefused) {
  constexpr long i386_getpid = 20;
  const auto by_gate = [] {
    return std::string(call_by_i386_gate(i386_getpid) == ::getpid() ? "fine" : "refused");
  };
  EXPECT_EQ(said(true, by_gate), "refused");
  if (said(false, by_gate) != "fine") GTEST_SKIP() << "this kernel runs no i386 programs";
  constexpr long x32_bit = 0x40000000;
  EXPECT_EQ(answer(true, {"x32", x32_bit | SYS_getpid}), "ENOSYS");
  EXPECT_EQ(answer(true, {"x32", x32_bit | SYS_unshare, {CLONE_NEWUTS}}), "ENOSYS");
  EXPECT_EQ(answer(true, {"-1", -1}), "ENOSYS");
}

// Ordinary programs find all that they need.
TEST_F(Seccomp, ThreadsProcessesAndTracingWork) {
  EXPECT_EQ(said(true,
                 [] {
                   std::string text;
                   std::thread([&] { text = "thread "; }).join();
                   const pid_t child = ::fork();
                   if (child == 0) {
                     ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
                     ::raise(SIGSTOP);
                     _exit(7);
                   }
                   int status = 0;
                   if (::waitpid(child, &status, 0) == child && WIFSTOPPED(status)) text += "traced ";
                   ::ptrace(PTRACE_CONT, child, nullptr, nullptr);
                   if (::waitpid(child, &status, 0) == child && WIFEXITED(status)) text += "exited";
                   return text;
                 }),
            "thread traced exited");
}

TEST_F(Seccomp, ShellCommandsRunAndInheritTheFilter) {
  const auto run = [] {
    const int wrong = std::system(
        "ls -l / | sort >/dev/null && date >/dev/null && cat /proc/self/status | grep -q '^Seccomp:.2'");
    return std::string(wrong == 0 ? "under a filter" : "not");
  };
  EXPECT_EQ(said(true, run), "under a filter");
  EXPECT_EQ(said(false, run), "not");
}

TEST_F(Seccomp, InstallingNeedsNoNewPrivilegesOrPrivilege) {
  const auto as_user = [](bool no_new_privileges) {
    static_cast<void>(policy());
    return in_child([&] {
      if (::setresuid(54321, 54321, 54321) != 0) return std::string("ids");
      if (no_new_privileges) ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
      const auto done = install_seccomp(policy());
      return done ? std::string("fine") : done.error().message();
    });
  };
  EXPECT_EQ(as_user(true), "fine");
  EXPECT_EQ(as_user(false), error_of(EACCES).message());
}

TEST_F(Seccomp, WhatIsNoProgramIsRefused) {
  EXPECT_EQ(in_child([] { return install_seccomp("seven..").error().message(); }),
            error_of(EINVAL).message());
  EXPECT_EQ(in_child([] { return install_seccomp("").error().message(); }), error_of(EINVAL).message());
  const std::string long_one(sizeof(sock_filter) * (1 << 16), '\0');
  EXPECT_EQ(in_child([&] { return install_seccomp(long_one).error().message(); }),
            error_of(EINVAL).message());
}

}  // namespace
}  // namespace caisson::os
