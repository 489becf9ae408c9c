// The processes of a box, by proc(5).
#include "init/process_table.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "os/files.h"

namespace caisson::init {
namespace {

std::optional<pid_t> number_of(const std::string& name) noexcept {
  pid_t number = 0;
  const char* const end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data(), end, number);
  if (error != std::errc() || rest != end) return std::nullopt;
  return number;
}

bool is_gone(const os::Error& error) noexcept {
  return error == os::error_of(ENOENT) || error == os::error_of(ESRCH);
}

bool child_has_ended() noexcept {
  siginfo_t info{};
  return ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) == 0 && info.si_pid != 0;
}

}  // namespace

os::Result<TreeMark> TreeMark::renew(os::FdRef proc) {
  if (::unshare(CLONE_NEWUTS) != 0) return os::last_error();
  TreeMark mark;
  mark.keeps_ = os::Fd::adopt(::openat(proc.number, "self/ns/uts", O_RDONLY | O_CLOEXEC));
  if (!mark.keeps_) return os::last_error();
  auto link = os::read_link_at(proc, "self/ns/uts");
  if (!link) return link.error();
  mark.link_ = std::move(*link);
  return mark;
}

// All are looked at one after the other. One that is overlooked was born meanwhile, by one that was
// overlooked too; the first of those was there from the beginning and ended before it was looked at. The
// trees that have lost their roots have new ones among our children, so one of these has ended: it is not
// reaped yet.
bool ProcessTable::none_bears(const TreeMark& mark) const {
  const auto pids = others();
  return pids &&
         std::all_of(pids->begin(), pids->end(),
                     [&](const auto& pid) { return look(pid, mark) == Mark::another; }) &&
         !child_has_ended();
}

bool ProcessTable::kill_bearers(const TreeMark& mark) const {
  const auto pids = others();
  if (!pids) return false;
  bool any = false;
  for (const std::string& pid : *pids) {
    if (look(pid, mark) != Mark::this_one) continue;
    any = true;
    const os::Fd pidfd = os::Fd::adopt(static_cast<int>(::syscall(SYS_pidfd_open, *number_of(pid), 0)));
    // The number may be another process's since we looked.
    if (pidfd && look(pid, mark) == Mark::this_one)
      ::syscall(SYS_pidfd_send_signal, pidfd.number(), SIGKILL, nullptr, 0);
  }
  return any;
}

// Ended threads have no namespace any more, and the first may end before the others.
ProcessTable::Mark ProcessTable::look(const std::string& pid, const TreeMark& mark) const {
  const auto first = os::read_link_at(proc_, pid + "/ns/uts");
  if (first) return *first == mark.link() ? Mark::this_one : Mark::another;
  if (!is_gone(first.error())) return Mark::unknown;
  const auto tasks = os::open_at(proc_, pid + "/task", O_PATH | O_DIRECTORY);
  const auto threads = tasks ? os::names_in(*tasks) : os::Result<std::vector<std::string>>(tasks.error());
  if (!threads) return is_gone(threads.error()) ? Mark::another : Mark::unknown;
  Mark found = Mark::another;
  for (const std::string& thread : *threads) {
    const auto link = os::read_link_at(*tasks, thread + "/ns/uts");
    if (link && *link == mark.link()) return Mark::this_one;
    if (!link && !is_gone(link.error())) found = Mark::unknown;
  }
  return found;
}

os::Result<std::vector<std::string>> ProcessTable::others() const {
  auto names = os::names_in(proc_);
  if (!names) return names;
  const pid_t self = ::getpid();
  std::erase_if(*names, [self](const std::string& name) {
    const auto number = number_of(name);
    return !number || *number == self;
  });
  return names;
}

}  // namespace caisson::init
