// The floor of a container. The child shares this process's memory until it execs, so it makes no more than
// system calls, and the thread that made it waits (CLONE_VFORK).
#include "benchmarks/floor/box.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <filesystem>

#include "benchmarks/floor/require.h"

namespace caisson::bench::floor {
namespace {

constexpr const char* devices[] = {"null", "zero", "full", "random", "urandom", "tty"};

// What the child is told, and what it tells: the step that failed.
struct Plan {
  const char* scratch;
  std::string overlay;
  std::string uid_map;
  std::string gid_map;
  int input;
  int output;
  const char* failed = nullptr;
  int error = 0;
};

bool write_to(const char* path, const std::string& text) {
  const int file = open(path, O_WRONLY | O_CLOEXEC);
  if (file < 0) return false;
  const bool done = write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  close(file);
  return done;
}

bool bind_devices() {
  char from[] = "/dev/\0                ";
  char to[] = "root/dev/\0                ";
  for (const char* name : devices) {
    stpcpy(from + 5, name);
    stpcpy(to + 9, name);
    const int place = open(to, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    if (place < 0) return false;
    close(place);
    if (mount(from, to, nullptr, MS_BIND, nullptr) != 0) return false;
  }
  return true;
}

// The name of the step that failed, or null.
const char* build(const Plan& plan) {
  if (!write_to("/proc/self/setgroups", "deny")) return "setgroups";
  if (!write_to("/proc/self/uid_map", plan.uid_map) || !write_to("/proc/self/gid_map", plan.gid_map))
    return "id maps";
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return "propagation";
  if (mount("tmpfs", plan.scratch, "tmpfs", 0, nullptr) != 0 || chdir(plan.scratch) != 0) return "tmpfs";
  for (const char* made : {"upper", "work", "root"}) {
    if (mkdir(made, 0755) != 0) return "mkdir";
  }
  if (mount("overlay", "root", "overlay", 0, plan.overlay.c_str()) != 0) return "overlay";
  if (mount("proc", "root/proc", "proc", 0, nullptr) != 0) return "proc";
  if (mount("tmpfs", "root/dev", "tmpfs", 0, nullptr) != 0 || !bind_devices()) return "dev";
  if (chdir("root") != 0 || syscall(SYS_pivot_root, ".", ".") != 0) return "pivot_root";
  if (umount2(".", MNT_DETACH) != 0) return "the old root";
  if (dup2(plan.input, 0) < 0 || dup2(plan.output, 1) < 0) return "dup2";
  char name[] = "/init";
  char* argv[] = {name, nullptr};
  char* envp[] = {nullptr};
  execve(name, argv, envp);
  return "execve";
}

int child(void* argument) {
  auto& plan = *static_cast<Plan*>(argument);
  plan.failed = build(plan);
  plan.error = errno;
  _exit(127);
}

std::string map_of(unsigned id) { return "0 " + std::to_string(id) + " 1"; }

}  // namespace

BoxImage::BoxImage(std::string directory) : image_(directory + "/image"), scratch_(directory + "/scratch") {
  for (const char* made : {"/dev", "/proc"}) std::filesystem::create_directories(image_ + made);
  std::filesystem::create_directories(scratch_);
  const auto program = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "caisson-bench-init";
  std::filesystem::copy_file(program, image_ + "/init");
}

Box::Box(const BoxImage& image) {
  int in[2];
  int out[2];
  require(pipe2(in, O_CLOEXEC) == 0, errno, "pipe2");
  require(pipe2(out, O_CLOEXEC) == 0, errno, "pipe2");
  Plan plan{.scratch = image.scratch().c_str(),
            .overlay = "lowerdir=" + image.image() + ",upperdir=upper,workdir=work,userxattr",
            .uid_map = map_of(geteuid()),
            .gid_map = map_of(getegid()),
            .input = in[0],
            .output = out[1]};
  static thread_local std::array<char, 65536> stack;
  constexpr int namespaces = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC |
                             CLONE_NEWUTS | CLONE_NEWCGROUP;
  pid_ = clone(child, stack.data() + stack.size(), CLONE_VM | CLONE_VFORK | SIGCHLD | namespaces, &plan);
  const int failure = errno;
  input_ = in[1];
  close(in[0]);
  close(out[1]);
  char ready = 0;
  const bool said = pid_ > 0 && read(out[0], &ready, 1) == 1;
  close(out[0]);
  if (said) return;
  close(input_);
  require(pid_ > 0, failure, "clone");
  waitpid(pid_, nullptr, 0);
  require(false, plan.error, plan.failed != nullptr ? plan.failed : "the floor's init");
}

Box::~Box() {
  close(input_);
  waitpid(pid_, nullptr, 0);
}

}  // namespace caisson::bench::floor
