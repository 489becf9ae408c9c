// spawn: the child's side of a process start, in raw system calls, and the caller's.
#include "os/spawn.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <type_traits>

#include "os/capability_calls.h"
#include "os/clone_child.h"
#include "os/fault_point.h"
#include "os/raw_syscall.h"
#include "os/seccomp.h"

namespace caisson::os {

// The child shares our memory and never returns: nothing of the plan may need an end.
static_assert(std::is_trivially_destructible_v<SpawnPlan>);

namespace {

constexpr int most_descriptors = 4;
constexpr int signal_count = 64;
constexpr std::size_t signal_set_size = 8;

// What the child reads, and where it leaves its failure.
struct Child {
  const char* const* candidates;
  std::size_t candidate_count;
  const char* const* argv;
  const char* const* envp;
  int directory;
  int program;
  int descriptors[most_descriptors];
  int descriptor_count;
  const FdRef* joined;
  std::size_t joined_count;
  bool terminal;
  bool subreaper;
  int parent_death_signal;
  std::uint64_t descriptor_limit_soft;
  const ResourceLimit* limits;
  std::size_t limit_count;
  bool raise_capabilities;
  const SpawnIds* ids;
  const gid_t* groups;  ///< Null leaves the supplementary groups.
  std::size_t group_count;
  bool limit_capabilities;
  std::uint64_t capability_mask;
  bool no_new_privileges;
  sock_fprog filter;  ///< No instructions: none.
  volatile SpawnStep step;
  volatile int number;  ///< 0 as long as nothing failed.
};

// struct sigaction as rt_sigaction(2) takes it; all zeros is the default disposition.
struct KernelSigaction {
  void* handler;
  std::uint64_t flags;
  void* restorer;
  std::uint64_t mask;
};

[[noreturn]] CAISSON_CHILD_CODE void fail(Child* child, SpawnStep step, long result) noexcept {
  child->step = step;
  child->number = static_cast<int>(-result);
  for (;;) raw_syscall(SYS_exit_group, raw(127));
}

CAISSON_CHILD_CODE void check(Child* child, SpawnStep step, long result) noexcept {
  if (result < 0) fail(child, step, result);
}

CAISSON_CHILD_CODE void reset_signals() noexcept {
  KernelSigaction by_default;
  by_default.handler = nullptr;
  by_default.flags = 0;
  by_default.restorer = nullptr;
  by_default.mask = 0;
  // SIGKILL and SIGSTOP are refused, and stay as they are.
  for (int number = 1; number <= signal_count; ++number) {
    raw_syscall(SYS_rt_sigaction, raw(number), raw(&by_default), 0, signal_set_size);
  }
}

// Descriptors 0 to count-1 become the given ones, which may themselves be among those numbers; all others but
// the program are closed.
CAISSON_CHILD_CODE void arrange_descriptors(Child* child) noexcept {
  const int count = child->descriptor_count;
  for (int target = 0; target < count; ++target) {
    const int source = child->descriptors[target];
    if (source >= count || source == target) continue;
    const long moved = raw_syscall(SYS_fcntl, raw(source), F_DUPFD_CLOEXEC, raw(count));
    check(child, SpawnStep::descriptors, moved);
    child->descriptors[target] = static_cast<int>(moved);
  }
  if (child->program >= 0 && child->program < count) {
    const long moved = raw_syscall(SYS_fcntl, raw(child->program), F_DUPFD_CLOEXEC, raw(count));
    check(child, SpawnStep::descriptors, moved);
    child->program = static_cast<int>(moved);
  }
  for (int target = 0; target < count; ++target) {
    const int source = child->descriptors[target];
    // dup3(2) refuses equal numbers, and a duplicate onto itself would not clear close-on-exec.
    const long done = source == target ? raw_syscall(SYS_fcntl, raw(source), F_SETFD, 0)
                                       : raw_syscall(SYS_dup3, raw(source), raw(target), 0);
    check(child, SpawnStep::descriptors, done);
  }
  int first = count;
  if (child->program >= 0) {
    if (child->program > first) {
      check(child, SpawnStep::descriptors,
            raw_syscall(SYS_close_range, raw(first), raw(child->program - 1), 0));
    }
    first = child->program + 1;
    check(child, SpawnStep::descriptors, raw_syscall(SYS_fcntl, raw(child->program), F_SETFD, FD_CLOEXEC));
  }
  check(child, SpawnStep::descriptors, raw_syscall(SYS_close_range, raw(first), ~0U, 0));
}

CAISSON_CHILD_CODE void set_limits(Child* child) noexcept {
  for (std::size_t i = 0; i < child->limit_count; ++i) {
    struct rlimit64 limit;
    limit.rlim_cur = child->limits[i].soft;
    limit.rlim_max = child->limits[i].hard;
    check(child, SpawnStep::limits,
          raw_syscall(SYS_prlimit64, 0, raw(child->limits[i].resource), raw(&limit), 0));
  }
  if (child->descriptor_limit_soft == 0) return;
  struct rlimit64 limit;
  check(child, SpawnStep::limits, raw_syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, 0, raw(&limit)));
  limit.rlim_cur =
      child->descriptor_limit_soft < limit.rlim_max ? child->descriptor_limit_soft : limit.rlim_max;
  check(child, SpawnStep::limits, raw_syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, raw(&limit), 0));
}

CAISSON_CHILD_CODE void take_credentials(Child* child) noexcept {
  const SpawnStep step = SpawnStep::credentials;
  if (child->raise_capabilities) check(child, step, raise_permitted_to_ambient());
  // The bounding set first, which takes a capability that the others lose.
  if (child->limit_capabilities) check(child, step, drop_from_bounding_set(child->capability_mask));
  if (child->ids != nullptr) {
    // By raw calls, for libc would change every thread of ours.
    const SpawnIds* const ids = child->ids;
    if (child->groups != nullptr) {
      check(child, step, raw_syscall(SYS_setgroups, child->group_count, raw(child->groups)));
    }
    check(child, step, raw_syscall(SYS_setresgid, ids->group, ids->group, ids->group));
    check(child, step, raw_syscall(SYS_setresuid, ids->user, ids->user, ids->user));
  }
  if (child->limit_capabilities) check(child, step, drop_capabilities(child->capability_mask));
  if (child->no_new_privileges) check(child, step, raw_syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1));
}

// As execvp(3), but for its fall-back to /bin/sh: whoever wants a shell says so.
[[noreturn]] CAISSON_CHILD_CODE void execute(Child* child) noexcept {
  if (child->program >= 0) {
    const char empty = '\0';
    fail(child, SpawnStep::exec,
         raw_syscall(SYS_execveat, raw(child->program), raw(&empty), raw(child->argv), raw(child->envp),
                     AT_EMPTY_PATH));
  }
  long result = -ENOENT;
  bool refused = false;
  for (std::size_t i = 0; i < child->candidate_count; ++i) {
    result = raw_syscall(SYS_execve, raw(child->candidates[i]), raw(child->argv), raw(child->envp));
    if (result == -EACCES) {
      refused = true;
    } else if (result != -ENOENT && result != -ENOTDIR && result != -ELOOP && result != -ENAMETOOLONG) {
      fail(child, SpawnStep::exec, result);
    }
  }
  fail(child, SpawnStep::exec, refused ? -EACCES : result);
}

CAISSON_CHILD_CODE void run_child(void* argument) noexcept {
  auto* child = static_cast<Child*>(argument);
  reset_signals();
  for (std::size_t i = 0; i < child->joined_count; ++i) {
    const char self = '0';
    check(child, SpawnStep::cgroup, raw_syscall(SYS_write, raw(child->joined[i].number), raw(&self), 1));
  }
  check(child, SpawnStep::session, raw_syscall(SYS_setsid));
  if (child->terminal) {
    check(child, SpawnStep::terminal, raw_syscall(SYS_ioctl, raw(child->descriptors[0]), TIOCSCTTY, 0));
  }
  if (child->directory >= 0)
    check(child, SpawnStep::directory, raw_syscall(SYS_fchdir, raw(child->directory)));
  arrange_descriptors(child);
  if (child->subreaper) check(child, SpawnStep::session, raw_syscall(SYS_prctl, PR_SET_CHILD_SUBREAPER, 1));
  set_limits(child);
  take_credentials(child);
  // A change of credentials clears it.
  if (child->parent_death_signal != 0) {
    check(child, SpawnStep::session,
          raw_syscall(SYS_prctl, PR_SET_PDEATHSIG, raw(child->parent_death_signal)));
  }
  raw_syscall(SYS_umask, 022);
  const std::uint64_t none = 0;
  raw_syscall(SYS_rt_sigprocmask, SIG_SETMASK, raw(&none), 0, signal_set_size);
  if (child->filter.len != 0) {
    check(child, SpawnStep::credentials,
          raw_syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, raw(&child->filter)));
  }
  execute(child);
}

// A change of ids makes the memory that it happens on undumpable (prctl(2), PR_SET_DUMPABLE), and the child's
// is ours.
class DumpableKept {
 public:
  explicit DumpableKept(bool at_stake) noexcept : before_(at_stake ? ::prctl(PR_GET_DUMPABLE) : -1) {}
  ~DumpableKept() {
    // 2 cannot be set, and is what the change itself sets where 0 is not.
    if (before_ == 0 || before_ == 1) ::prctl(PR_SET_DUMPABLE, before_);
  }
  DumpableKept(const DumpableKept&) = delete;
  DumpableKept& operator=(const DumpableKept&) = delete;

 private:
  int before_;
};

// A pointer that is not null even where there is nothing to point to.
const gid_t* pointer_to(std::span<const gid_t> groups) noexcept {
  static constexpr gid_t none = 0;
  return groups.empty() ? &none : groups.data();
}

}  // namespace

boost::system::result<Process, SpawnFailure> spawn(const SpawnPlan& plan) noexcept {
  Child child{};
  child.candidates = plan.candidates.data();
  child.candidate_count = plan.candidates.size();
  child.argv = plan.argv;
  child.envp = plan.envp;
  child.directory = plan.directory.number;
  child.program = plan.program.number;
  for (int i = 0; i < 3; ++i) child.descriptors[i] = plan.descriptors[i].number;
  child.descriptors[3] = plan.extra.number;
  child.descriptor_count = plan.extra.number >= 0 ? 4 : 3;
  child.joined = plan.joined.data();
  child.joined_count = plan.joined.size();
  child.terminal = plan.terminal;
  child.subreaper = plan.subreaper;
  child.parent_death_signal = plan.parent_death_signal;
  child.descriptor_limit_soft = plan.descriptor_limit_soft;
  child.limits = plan.limits.data();
  child.limit_count = plan.limits.size();
  child.raise_capabilities = plan.raise_capabilities;
  if (plan.ids) {
    child.ids = &*plan.ids;
    if (plan.ids->groups) child.groups = pointer_to(*plan.ids->groups);
    if (plan.ids->groups) child.group_count = plan.ids->groups->size();
  }
  child.limit_capabilities = plan.capability_mask.has_value();
  child.capability_mask = plan.capability_mask.value_or(0);
  child.no_new_privileges = plan.no_new_privileges;
  if (!plan.seccomp.empty()) {
    const auto filter = filter_of(plan.seccomp);
    if (!filter) return SpawnFailure{SpawnStep::credentials, filter.error().value()};
    child.filter = *filter;
  }

  if (const auto fault = fault_point("exec.spawn"); !fault) {
    return SpawnFailure{SpawnStep::clone, fault.error().value()};
  }
  const DumpableKept dumpable(plan.ids.has_value());
  auto cloned = clone_child(&run_child, &child, plan.cgroup, plan.namespaces);
  kill_point("exec.spawned");
  if (!cloned) return SpawnFailure{SpawnStep::clone, cloned.error().value()};
  Process process(std::move(cloned->pidfd), cloned->pid);
  if (child.number != 0) {
    process.reap();
    return SpawnFailure{child.step, child.number};
  }
  return process;
}

std::vector<std::string> exec_candidates(std::string_view name, std::string_view path) {
  if (name.empty()) return {};
  if (name.find('/') != std::string_view::npos) return {std::string(name)};
  std::vector<std::string> candidates;
  for (;;) {
    const std::size_t colon = path.find(':');
    const std::string_view directory = path.substr(0, colon);
    std::string candidate;
    candidate.reserve(directory.size() + name.size() + 2);
    candidate += directory.empty() ? "." : directory;
    candidate += '/';
    candidate += name;
    candidates.push_back(std::move(candidate));
    if (colon == std::string_view::npos) return candidates;
    path.remove_prefix(colon + 1);
  }
}

bool candidate_exists(FdRef directory, const std::string& path) noexcept {
  return ::faccessat(directory.number < 0 ? AT_FDCWD : directory.number, path.c_str(), F_OK, AT_EACCESS) == 0;
}

}  // namespace caisson::os
