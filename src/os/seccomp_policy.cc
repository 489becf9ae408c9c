// The lists of system calls, by libseccomp, and the rules about arguments, by hand.
#include "os/seccomp_policy.h"

#include <asm/unistd.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

#include "os/fd.h"
#include "os/files.h"

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

constexpr std::uint32_t answer_eperm = SECCOMP_RET_ERRNO | EPERM;
constexpr std::uint32_t answer_no_family = SECCOMP_RET_ERRNO | EAFNOSUPPORT;
constexpr std::uint32_t new_namespaces =
    CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;

using Program = std::vector<sock_filter>;

// The rules about arguments, in front of the lists: they answer, or pass on to what follows. By hand, for
// libseccomp compares all 64 bits where the kernel takes an int from the lower 32: a bit set above would slip
// past a comparison.
class ArgumentRules {
 public:
  // Begins the rules for one call, which looks at the lower half of one argument.
  void on(std::uint32_t call, unsigned argument) {
    end_section();
    statement(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
    section_ = program_.size();
    jump(BPF_JEQ, call, 0, 0);  // Its way past the section is known at its end.
    // The lower half stands first on this little-endian machine.
    statement(BPF_LD | BPF_W | BPF_ABS,
              static_cast<std::uint32_t>(offsetof(seccomp_data, args) + argument * sizeof(std::uint64_t)));
  }
  // Answers when the argument is `value`, or has one of the bits.
  void answer_if_equal(std::uint32_t value, std::uint32_t answer) { answer_if(BPF_JEQ, value, answer); }
  void answer_if_any_bit(std::uint32_t bits, std::uint32_t answer) { answer_if(BPF_JSET, bits, answer); }
  // Answers unless it is one of these.
  void answer_if_none_of(std::initializer_list<std::uint32_t> values, std::uint32_t answer) {
    auto left = static_cast<std::uint8_t>(values.size());
    for (const std::uint32_t value : values) jump(BPF_JEQ, value, left--, 0);
    statement(BPF_RET | BPF_K, answer);
  }

  // The whole, for the native ABI; others go straight to what follows.
  Program finish() {
    end_section();
    Program all{{BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, arch)},
                {BPF_JMP | BPF_JEQ | BPF_K, 1, 0, AUDIT_ARCH_X86_64},
                {BPF_JMP | BPF_JA, 0, 0, static_cast<std::uint32_t>(program_.size())}};
    all.insert(all.end(), program_.begin(), program_.end());
    return all;
  }

 private:
  void statement(int code, std::uint32_t value) {
    program_.push_back({static_cast<std::uint16_t>(code), 0, 0, value});
  }
  void jump(int test, std::uint32_t value, std::uint8_t if_true, std::uint8_t if_false) {
    program_.push_back({static_cast<std::uint16_t>(BPF_JMP | test | BPF_K), if_true, if_false, value});
  }
  void answer_if(int test, std::uint32_t value, std::uint32_t answer) {
    jump(test, value, 0, 1);
    statement(BPF_RET | BPF_K, answer);
  }
  void end_section() {
    if (section_ != none) program_[section_].jf = static_cast<std::uint8_t>(program_.size() - section_ - 1);
    section_ = none;
  }

  static constexpr std::size_t none = ~std::size_t{0};
  Program program_;
  std::size_t section_ = none;
};

Program argument_rules() {
  ArgumentRules rules;
  rules.on(__NR_clone, 0);
  rules.answer_if_any_bit(new_namespaces, answer_eperm);
  for (const int call : {__NR_socket, __NR_socketpair}) {
    rules.on(static_cast<std::uint32_t>(call), 0);
    rules.answer_if_none_of({AF_UNIX, AF_INET, AF_INET6, AF_NETLINK}, answer_no_family);
  }
  // The limits of another with the same id: init's too, in a box of one id.
  rules.on(__NR_prlimit64, 0);
  rules.answer_if_none_of({0}, answer_eperm);
  rules.on(__NR_ioctl, 1);
  rules.answer_if_equal(TIOCSTI, answer_eperm);
  rules.answer_if_equal(TIOCLINUX, answer_eperm);
  rules.on(__NR_personality, 0);
  // All bits set asks for the present one and changes nothing.
  constexpr std::uint32_t query = 0xffffffff;
  constexpr std::uint32_t layout = ADDR_NO_RANDOMIZE;
  constexpr std::uint32_t version = UNAME26;
  constexpr std::uint32_t machine = PER_LINUX32;
  rules.answer_if_none_of({query, PER_LINUX, layout, version, machine, layout | version, layout | machine,
                           version | machine, layout | version | machine},
                          answer_eperm);
  return rules.finish();
}

using Filter = std::unique_ptr<void, void (*)(void*)>;

// libseccomp's functions return a negative errno.
int add_rules(scmp_filter_ctx filter, std::span<const char* const> names, std::uint32_t action) noexcept {
  for (const char* const name : names) {
    const int number = ::seccomp_syscall_resolve_name(name);
    // Negative ones are other architectures' alone.
    if (number < 0) continue;
    const int result = ::seccomp_rule_add(filter, action, number, 0);
    if (result < 0) return result;
  }
  return 0;
}

Result<std::string> exported(scmp_filter_ctx filter) {
  const Fd file = Fd::adopt(::memfd_create("caisson-seccomp", MFD_CLOEXEC));
  if (!file) return last_error();
  if (const int result = ::seccomp_export_bpf(filter, file.number()); result < 0) return error_of(-result);
  const auto is = status(file);
  if (!is) return is.error();
  std::string program(static_cast<std::size_t>(is->st_size), '\0');
  const auto count = read_at(file, program.data(), program.size(), 0);
  if (!count) return count.error();
  if (*count != program.size()) return error_of(EIO);
  return program;
}

}  // namespace

Result<std::string> compile_seccomp_policy() {
  const Filter filter(::seccomp_init(SCMP_ACT_ERRNO(ENOSYS)), ::seccomp_release);
  if (!filter) return error_of(ENOMEM);
  int result = ::seccomp_attr_set(filter.get(), SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS));
  if (result == 0) result = ::seccomp_attr_set(filter.get(), SCMP_FLTATR_CTL_OPTIMIZE, 2);
  if (result == 0) result = add_rules(filter.get(), allowed, SCMP_ACT_ALLOW);
  if (result == 0) result = add_rules(filter.get(), refused, SCMP_ACT_ERRNO(EPERM));
  if (result < 0) return error_of(-result);
  const auto lists = exported(filter.get());
  if (!lists) return lists.error();
  const Program rules = argument_rules();
  std::string program(static_cast<const char*>(static_cast<const void*>(rules.data())),
                      rules.size() * sizeof(sock_filter));
  program += *lists;
  return program;
}

}  // namespace caisson::os
