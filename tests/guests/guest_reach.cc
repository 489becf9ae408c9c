// guest_reach PROBE [ARGUMENT]: tries one thing that a box forbids, and prints what came of it: "done", or
// the error's name. Each is harmless where it succeeds, so that it can be seen to succeed on the host.
#include <dirent.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/io_uring.h>
#include <linux/keyctl.h>
#include <linux/perf_event.h>
#include <linux/vm_sockets.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <string_view>

namespace {

const char* argument = "";

// What a call that gave `result` came to; a descriptor is not kept.
int outcome(long result) { return result < 0 ? errno : 0; }

int new_mount() { return outcome(::syscall(SYS_fsopen, "tmpfs", 0)); }
int copy_mount() { return outcome(::syscall(SYS_open_tree, AT_FDCWD, "/", 1 /* OPEN_TREE_CLONE */)); }
int new_user_namespace() { return outcome(::unshare(CLONE_NEWUSER)); }
int new_mount_namespace() { return outcome(::unshare(CLONE_NEWNS)); }
int clone_user_namespace() {
  const long child = ::syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, nullptr, nullptr, nullptr, nullptr);
  if (child == 0) ::_exit(0);
  if (child > 0) ::waitpid(static_cast<pid_t>(child), nullptr, 0);
  return outcome(child);
}
// As new as it is, it could make namespaces that no filter sees: they stand in memory.
int clone_by_structure() {
  struct {
    unsigned long long flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
  } arguments = {};
  arguments.exit_signal = SIGCHLD;
  const long child = ::syscall(SYS_clone3, &arguments, sizeof arguments);
  if (child == 0) ::_exit(0);
  if (child > 0) ::waitpid(static_cast<pid_t>(child), nullptr, 0);
  return outcome(child);
}
int enter_namespace() {
  const int own = ::open("/proc/self/ns/uts", O_RDONLY | O_CLOEXEC);
  return own < 0 ? errno : outcome(::setns(own, 0));
}
int change_root() { return outcome(::chroot("/")); }
int open_by_handle() {
  alignas(file_handle) char memory[sizeof(file_handle) + 128] = {};
  auto* const handle = new (memory) file_handle;
  handle->handle_bytes = 128;
  int mount = 0;
  if (::name_to_handle_at(AT_FDCWD, *argument != '\0' ? argument : "/tmp", handle, &mount, 0) != 0) {
    // A file system that has none still says whether one may ask.
    handle->handle_bytes = 8;
  }
  const int directory = ::open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const int result = outcome(::open_by_handle_at(directory, handle, O_RDONLY));
  return result == ESTALE || result == EINVAL || result == EOPNOTSUPP ? 0 : result;
}
int add_key() {
  return outcome(::syscall(SYS_add_key, "user", "caisson-test", "x", 1, KEY_SPEC_PROCESS_KEYRING));
}
int read_keyring() {
  return outcome(::syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_PROCESS_KEYRING, 1));
}
int socket_of(int family) { return outcome(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)); }
int vsock_socket() { return socket_of(AF_VSOCK); }
int packet_socket() { return outcome(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0)); }
int internet_socket() { return socket_of(AF_INET); }
// getpid by the gate of 32-bit programs, to which the native rules do not apply.
int old_gate() {
  int result = 20;
  asm volatile("int $0x80" : "+a"(result) : : "memory", "cc", "r8", "r9", "r10", "r11");
  return result < 0 ? -result : 0;
}
// The same as x32, by a bit in the number.
int x32_call() {
  constexpr long x32_bit = 0x40000000;
  return outcome(::syscall(x32_bit | SYS_getpid));
}
int io_uring() {
  io_uring_params parameters = {};
  return outcome(::syscall(SYS_io_uring_setup, 1, &parameters));
}
int set_up_aio() {
  unsigned long context = 0;
  const int result = outcome(::syscall(SYS_io_setup, 1, &context));
  if (result == 0) ::syscall(SYS_io_destroy, context);
  return result;
}
int userfaultfd() { return outcome(::syscall(SYS_userfaultfd, O_CLOEXEC)); }
int perf_event() {
  perf_event_attr attributes = {};
  attributes.size = sizeof attributes;
  attributes.type = PERF_TYPE_SOFTWARE;
  attributes.config = PERF_COUNT_SW_TASK_CLOCK;
  return outcome(::syscall(SYS_perf_event_open, &attributes, 0, -1, -1, 0));
}
int bpf_map() {
  bpf_attr attributes = {};
  attributes.map_type = BPF_MAP_TYPE_ARRAY;
  attributes.key_size = 4;
  attributes.value_size = 4;
  attributes.max_entries = 1;
  return outcome(::syscall(SYS_bpf, BPF_MAP_CREATE, &attributes, sizeof attributes));
}
// To what it is already, more or less.
int set_clock() {
  timespec now = {};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return outcome(::clock_settime(CLOCK_REALTIME, &now));
}
int make_device() {
  const std::string path = std::string(argument) + "/null";
  const int result = outcome(::mknod(path.c_str(), S_IFCHR | 0666, 0x103));
  ::unlink(path.c_str());
  return result;
}
int open_to_write() { return outcome(::open(argument, O_WRONLY | O_CLOEXEC)); }
// A byte of it; a masked file has none.
int read_file() {
  const int file = ::open(argument, O_RDONLY | O_CLOEXEC);
  if (file < 0) return errno;
  char byte = 0;
  const ssize_t count = ::read(file, &byte, 1);
  if (count < 0) return errno;
  return count == 0 ? ENODATA : 0;
}
int list_directory() {
  DIR* const directory = ::opendir(argument);
  if (directory == nullptr) return errno;
  int entries = 0;
  while (const dirent* entry = ::readdir(directory)) entries += entry->d_name[0] == '.' ? 0 : 1;
  return entries == 0 ? ENODATA : 0;
}
int read_link() {
  char target[4096];
  return outcome(::readlink(argument, target, sizeof target));
}
int connect_to(const sockaddr* address, socklen_t size) {
  const int socket = ::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  return socket < 0 ? errno : outcome(::connect(socket, address, size));
}
int connect_abstract() {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path + 1, argument, sizeof address.sun_path - 2);
  return connect_to(reinterpret_cast<const sockaddr*>(&address),
                    static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + std::strlen(argument)));
}
int connect_loopback() {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<in_port_t>(std::atoi(argument)));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return connect_to(reinterpret_cast<const sockaddr*>(&address), sizeof address);
}
int signal_process() { return outcome(::kill(std::atoi(argument), 0)); }
int limit_process() {
  // Asks only.
  rlimit64 present = {};
  return outcome(::syscall(SYS_prlimit64, std::atoi(argument), RLIMIT_NOFILE, nullptr, &present));
}
int trace_process() {
  const pid_t pid = std::atoi(argument);
  if (::ptrace(PTRACE_SEIZE, pid, nullptr, nullptr) != 0) return errno;
  ::ptrace(PTRACE_DETACH, pid, nullptr, nullptr);
  return 0;
}
// A child of one's own, which everybody may.
int trace_child() {
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  const int result = ::ptrace(PTRACE_SEIZE, child, nullptr, nullptr) == 0 ? 0 : errno;
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  return result;
}
int type_into_terminal() {
  const char letter = 'x';
  return outcome(::ioctl(0, TIOCSTI, &letter));
}
// From each descriptor that it was given, the directory above.
int climb_from_descriptors() {
  for (int number = 0; number < 1024; ++number) {
    if (::openat(number, "..", O_PATH | O_CLOEXEC) >= 0) return 0;
  }
  return ENOTDIR;
}
int climb_from_directory() {
  std::string path = "/proc/self/cwd";
  for (int i = 0; i < 40; ++i) path += "/..";
  path += argument;
  return outcome(::open(path.c_str(), O_PATH | O_CLOEXEC));
}
int drop_privileges_lost() { return ::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ? EPERM : 0; }
int trust_setuid_files() {
  struct statvfs is = {};
  if (::statvfs(argument, &is) != 0) return errno;
  return (is.f_flag & ST_NOSUID) != 0 ? EPERM : 0;
}
int trust_device_files() {
  struct statvfs is = {};
  if (::statvfs(argument, &is) != 0) return errno;
  return (is.f_flag & ST_NODEV) != 0 ? EPERM : 0;
}

struct Probe {
  std::string_view name;
  int (*run)();
};
constexpr Probe probes[] = {{"new_mount", new_mount},
                            {"copy_mount", copy_mount},
                            {"new_user_namespace", new_user_namespace},
                            {"new_mount_namespace", new_mount_namespace},
                            {"clone_user_namespace", clone_user_namespace},
                            {"clone3", clone_by_structure},
                            {"enter_namespace", enter_namespace},
                            {"change_root", change_root},
                            {"open_by_handle", open_by_handle},
                            {"add_key", add_key},
                            {"read_keyring", read_keyring},
                            {"vsock_socket", vsock_socket},
                            {"packet_socket", packet_socket},
                            {"internet_socket", internet_socket},
                            {"old_gate", old_gate},
                            {"x32_call", x32_call},
                            {"io_uring", io_uring},
                            {"set_up_aio", set_up_aio},
                            {"userfaultfd", userfaultfd},
                            {"perf_event", perf_event},
                            {"bpf_map", bpf_map},
                            {"set_clock", set_clock},
                            {"make_device", make_device},
                            {"open_to_write", open_to_write},
                            {"read_file", read_file},
                            {"list_directory", list_directory},
                            {"read_link", read_link},
                            {"connect_abstract", connect_abstract},
                            {"connect_loopback", connect_loopback},
                            {"signal_process", signal_process},
                            {"limit_process", limit_process},
                            {"trace_process", trace_process},
                            {"trace_child", trace_child},
                            {"type_into_terminal", type_into_terminal},
                            {"climb_from_descriptors", climb_from_descriptors},
                            {"climb_from_directory", climb_from_directory},
                            {"gain_privileges", drop_privileges_lost},
                            {"trust_setuid_files", trust_setuid_files},
                            {"trust_device_files", trust_device_files}};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  if (argc > 2) argument = argv[2];
  for (const Probe& probe : probes) {
    if (probe.name != argv[1]) continue;
    errno = 0;
    const int error = probe.run();
    std::puts(error == 0 ? "done" : ::strerrorname_np(error));
    return 0;
  }
  return 2;
}
