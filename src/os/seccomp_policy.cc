// The lists of system calls, with the numbers that libseccomp knows them by, and the rules about arguments.
#include "os/seccomp_policy.h"

#include <asm/unistd.h>
#include <linux/audit.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/socket.h>

#include <span>
#include <vector>

#include "os/seccomp_filter.h"

namespace caisson::os {
namespace {

// Of what is missing, io_setup and its like are known to every kernel: their contexts come out of one number
// for the whole machine (/proc/sys/fs/aio-max-nr), which one box could use up. A name that the installed
// libseccomp does not know stays ENOSYS, as on a kernel before it.
constexpr const char* allowed[] = {
    // Reading, writing and waiting.
    "read", "write", "readv", "writev", "pread64", "pwrite64", "preadv", "pwritev", "preadv2", "pwritev2",
    "lseek", "sendfile", "splice", "tee", "vmsplice", "copy_file_range", "readahead", "fadvise64", "poll",
    "ppoll", "select", "pselect6", "epoll_create", "epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait",
    "epoll_pwait2", "eventfd", "eventfd2", "signalfd", "signalfd4", "timerfd_create", "timerfd_settime",
    "timerfd_gettime", "inotify_init", "inotify_init1", "inotify_add_watch", "inotify_rm_watch",
    // Descriptors.
    "open", "openat", "openat2", "creat", "close", "close_range", "dup", "dup2", "dup3", "fcntl", "flock",
    "ioctl", "pipe", "pipe2", "memfd_create", "name_to_handle_at",
    // Files and directories.
    "stat", "lstat", "fstat", "newfstatat", "statx", "statfs", "fstatfs", "access", "faccessat", "faccessat2",
    "getdents", "getdents64", "getcwd", "chdir", "fchdir", "mkdir", "mkdirat", "rmdir", "rename", "renameat",
    "renameat2", "link", "linkat", "unlink", "unlinkat", "symlink", "symlinkat", "readlink", "readlinkat",
    "mknod", "mknodat", "chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat",
    "umask", "utime", "utimes", "utimensat", "futimesat", "truncate", "ftruncate", "fallocate", "sync",
    "syncfs", "fsync", "fdatasync", "sync_file_range", "cachestat", "setxattr", "lsetxattr", "fsetxattr",
    "setxattrat", "getxattr", "lgetxattr", "fgetxattr", "getxattrat", "listxattr", "llistxattr", "flistxattr",
    "listxattrat", "removexattr", "lremovexattr", "fremovexattr", "removexattrat",
    // Memory.
    "mmap", "munmap", "mremap", "mprotect", "msync", "mincore", "madvise", "brk", "mlock", "mlock2",
    "munlock", "mlockall", "munlockall", "remap_file_pages", "pkey_alloc", "pkey_free", "pkey_mprotect",
    "membarrier", "map_shadow_stack", "mseal",
    // Processes and threads. clone and personality: with what is below.
    "fork", "vfork", "clone", "execve", "execveat", "exit", "exit_group", "wait4", "waitid", "getpid",
    "getppid", "gettid", "getpgid", "setpgid", "getpgrp", "getsid", "setsid", "prctl", "arch_prctl",
    "personality", "set_tid_address", "set_thread_area", "get_thread_area", "set_robust_list",
    "get_robust_list", "rseq", "futex", "futex_waitv", "futex_wait", "futex_wake", "futex_requeue", "getcpu",
    "pidfd_open", "pidfd_send_signal", "process_mrelease", "ptrace", "process_vm_readv", "process_vm_writev",
    "seccomp", "landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self", "restart_syscall",
    // Signals.
    "kill", "tkill", "tgkill", "rt_sigaction", "rt_sigprocmask", "rt_sigpending", "rt_sigreturn",
    "rt_sigsuspend", "rt_sigtimedwait", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "sigaltstack", "pause",
    // Ids, limits and scheduling, within what the kernel lets the box's user do.
    "getuid", "geteuid", "getgid", "getegid", "getresuid", "getresgid", "getgroups", "setuid", "setgid",
    "setreuid", "setregid", "setresuid", "setresgid", "setgroups", "setfsuid", "setfsgid", "capget", "capset",
    "getrlimit", "setrlimit", "prlimit64", "getrusage", "getpriority", "setpriority", "ioprio_get",
    "ioprio_set", "sched_yield", "sched_getparam", "sched_setparam", "sched_getscheduler",
    "sched_setscheduler", "sched_getattr", "sched_setattr", "sched_getaffinity", "sched_setaffinity",
    "sched_get_priority_max", "sched_get_priority_min", "sched_rr_get_interval",
    // Time. adjtimex and clock_adjtime read; to write they need CAP_SYS_TIME over the machine.
    "time", "gettimeofday", "times", "clock_gettime", "clock_getres", "clock_nanosleep", "nanosleep", "alarm",
    "getitimer", "setitimer", "timer_create", "timer_settime", "timer_gettime", "timer_getoverrun",
    "timer_delete", "adjtimex", "clock_adjtime",
    // Sockets. socket and socketpair: with what is below.
    "socket", "socketpair", "bind", "connect", "listen", "accept", "accept4", "getsockname", "getpeername",
    "getsockopt", "setsockopt", "shutdown", "sendto", "recvfrom", "sendmsg", "recvmsg", "sendmmsg",
    "recvmmsg",
    // Between processes.
    "shmget", "shmat", "shmdt", "shmctl", "semget", "semop", "semtimedop", "semctl", "msgget", "msgsnd",
    "msgrcv", "msgctl", "mq_open", "mq_unlink", "mq_timedsend", "mq_timedreceive", "mq_notify",
    "mq_getsetattr",
    // The system.
    "uname", "sysinfo", "getrandom"};

constexpr const char* refused[] = {
    // Mounts, roots and namespaces.
    "mount", "umount2", "pivot_root", "chroot", "fsopen", "fsconfig", "fsmount", "fspick", "move_mount",
    "open_tree", "open_tree_attr", "mount_setattr", "unshare", "setns", "sethostname", "setdomainname",
    "open_by_handle_at", "quotactl", "quotactl_fd", "swapon", "swapoff", "acct",
    // The kernel itself.
    "init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "reboot", "syslog",
    "bpf", "perf_event_open", "iopl", "ioperm", "settimeofday", "clock_settime", "vhangup", "lookup_dcookie",
    // Keyrings are not held by any namespace but the user's.
    "add_key", "request_key", "keyctl",
    // Ways into the kernel that ordinary programs do without.
    "io_uring_setup", "io_uring_enter", "io_uring_register", "userfaultfd", "fanotify_init", "fanotify_mark",
    "pidfd_getfd", "kcmp", "process_madvise",
    // Where memory lies slows others.
    "mbind", "set_mempolicy", "get_mempolicy", "set_mempolicy_home_node", "migrate_pages", "move_pages"};

constexpr SeccompAnswer answer_eperm = SECCOMP_RET_ERRNO | EPERM;
constexpr SeccompAnswer answer_no_family = SECCOMP_RET_ERRNO | EAFNOSUPPORT;
constexpr std::uint32_t new_namespaces =
    CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;

// Adds the calls of these names to the rules.
void add(SeccompRules& rules, std::span<const char* const> names, SeccompAnswer answer) {
  for (const char* const name : names) {
    const int number = ::seccomp_syscall_resolve_name(name);
    // Negative ones are other architectures' alone.
    if (number >= 0) rules.calls[static_cast<std::uint32_t>(number)].answer = answer;
  }
}

void add_argument_checks(SeccompRules& rules) {
  using Test = ArgumentCheck::Test;
  const auto check = [&rules](int call, ArgumentCheck each) {
    rules.calls.at(static_cast<std::uint32_t>(call)).checks.push_back(std::move(each));
  };
  check(__NR_clone, {0, Test::has_bit, {new_namespaces}, answer_eperm});
  for (const int call : {__NR_socket, __NR_socketpair}) {
    check(call, {0, Test::is_none_of, {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK}, answer_no_family});
  }
  // The limits of another with the same id: init's too, in a box of one id.
  check(__NR_prlimit64, {0, Test::is_none_of, {0}, answer_eperm});
  check(__NR_ioctl, {1, Test::equals, {TIOCSTI, TIOCLINUX}, answer_eperm});
  // All bits set asks for the present one and changes nothing.
  constexpr std::uint32_t query = 0xffffffff;
  constexpr std::uint32_t layout = ADDR_NO_RANDOMIZE;
  constexpr std::uint32_t version = UNAME26;
  constexpr std::uint32_t machine = PER_LINUX32;
  check(__NR_personality, {0,
                           Test::is_none_of,
                           {query, PER_LINUX, layout, version, machine, layout | version, layout | machine,
                            version | machine, layout | version | machine},
                           answer_eperm});
}

}  // namespace

std::string compile_seccomp_policy() {
  SeccompRules rules{AUDIT_ARCH_X86_64, {}, SECCOMP_RET_ERRNO | ENOSYS};
  add(rules, allowed, SECCOMP_RET_ALLOW);
  add(rules, refused, answer_eperm);
  add_argument_checks(rules);
  const std::vector<sock_filter> program = compile_seccomp_rules(rules);
  return {static_cast<const char*>(static_cast<const void*>(program.data())),
          program.size() * sizeof(sock_filter)};
}

}  // namespace caisson::os
