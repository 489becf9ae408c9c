// Prints what a program finds itself with, one "key value" a line: arguments, environment, descriptors,
// signals, capabilities, ids, session, terminal, limits, umask and working directory.
#include <dirent.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace {

void print_descriptors() {
  DIR* directory = ::opendir("/proc/self/fd");
  if (directory == nullptr) return;
  while (const dirent* entry = ::readdir(directory)) {
    const int number = std::atoi(entry->d_name);
    if (entry->d_name[0] != '.' && number != ::dirfd(directory)) std::printf("descriptor %d\n", number);
  }
  ::closedir(directory);
}

void print_signals_and_capabilities() {
  std::FILE* status = std::fopen("/proc/self/status", "re");
  if (status == nullptr) return;
  char line[512];
  while (std::fgets(line, sizeof line, status) != nullptr) {
    unsigned long long mask = 0;
    if (std::sscanf(line, "SigBlk: %llx", &mask) == 1) std::printf("blocked %llx\n", mask);
    if (std::sscanf(line, "SigIgn: %llx", &mask) == 1) std::printf("ignored %llx\n", mask);
    if (std::sscanf(line, "SigCgt: %llx", &mask) == 1) std::printf("caught %llx\n", mask);
    if (std::sscanf(line, "SigPnd: %llx", &mask) == 1) std::printf("pending %llx\n", mask);
    if (std::sscanf(line, "CapEff: %llx", &mask) == 1) std::printf("effective %llx\n", mask);
    if (std::sscanf(line, "CapAmb: %llx", &mask) == 1) std::printf("ambient %llx\n", mask);
    if (std::sscanf(line, "CapInh: %llx", &mask) == 1) std::printf("inheritable %llx\n", mask);
    if (std::sscanf(line, "CapBnd: %llx", &mask) == 1) std::printf("bounding %llx\n", mask);
    if (std::sscanf(line, "Seccomp: %llx", &mask) == 1) std::printf("seccomp %llx\n", mask);
    if (std::sscanf(line, "NoNewPrivs: %llx", &mask) == 1) std::printf("no_new_privileges %llx\n", mask);
  }
  std::fclose(status);
}

void print_credentials() {
  uid_t users[3];
  gid_t groups[3];
  ::getresuid(&users[0], &users[1], &users[2]);
  ::getresgid(&groups[0], &groups[1], &groups[2]);
  std::printf("users %u %u %u\n", users[0], users[1], users[2]);
  std::printf("groups %u %u %u\n", groups[0], groups[1], groups[2]);
  gid_t more[64];
  const int count = ::getgroups(64, more);
  for (int i = 0; i < count; ++i) std::printf("supplementary %u\n", more[i]);
}

void print_terminal() {
  const int terminal = ::open("/dev/tty", O_RDWR | O_CLOEXEC);
  std::printf("terminal %s\n", terminal >= 0 ? "yes" : "no");
  winsize size{};
  if (::ioctl(0, TIOCGWINSZ, &size) == 0) std::printf("size %d %d\n", size.ws_col, size.ws_row);
  if (terminal >= 0) ::close(terminal);
}

}  // namespace

int main(int argc, char** argv, char** environment) {
  print_descriptors();
  for (int i = 0; i < argc; ++i) std::printf("argument %s\n", argv[i]);
  for (char** variable = environment; *variable != nullptr; ++variable)
    std::printf("variable %s\n", *variable);
  print_signals_and_capabilities();
  print_credentials();
  std::printf("session %s\n", ::getsid(0) == ::getpid() ? "own" : "other");
  print_terminal();
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  std::printf("descriptor_limit %llu\n", static_cast<unsigned long long>(limit.rlim_cur));
  std::printf("umask %03o\n", static_cast<unsigned>(::umask(0)));
  for (const int resource : {RLIMIT_CORE, RLIMIT_STACK}) {
    ::getrlimit(static_cast<__rlimit_resource_t>(resource), &limit);
    std::printf("limit %d %llu %llu\n", resource, static_cast<unsigned long long>(limit.rlim_cur),
                static_cast<unsigned long long>(limit.rlim_max));
  }
  std::printf("process %d\n", static_cast<int>(::getpid()));
  int death_signal = 0;
  ::prctl(PR_GET_PDEATHSIG, &death_signal);
  std::printf("parent_death_signal %d\n", death_signal);
  int subreaper = 0;
  ::prctl(PR_GET_CHILD_SUBREAPER, &subreaper);
  std::printf("subreaper %d\n", subreaper);
  char directory[4096];
  if (::getcwd(directory, sizeof directory) != nullptr) std::printf("directory %s\n", directory);
  return 0;
}
