// The processes of a box, by proc(5).
#include "init/process_table.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>

#include "os/files.h"

namespace caisson::init {
namespace {

constexpr std::size_t longest_stat = 4096;

struct Entry {
  pid_t pid = 0;
  pid_t parent = 0;
};

// The next number of a text, which loses it.
std::optional<pid_t> take_number(std::string_view& text) noexcept {
  text.remove_prefix(std::min(text.size(), text.find_first_not_of(' ')));
  pid_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

std::optional<pid_t> parent_of(os::FdRef proc, pid_t pid) {
  const auto text = os::read_file_at(proc, std::to_string(pid) + "/stat", longest_stat);
  if (!text) return std::nullopt;
  // "PID (NAME) STATE PARENT": the name is of any bytes.
  const std::size_t end = text->rfind(") ");
  if (end == std::string::npos || end + 4 > text->size()) return std::nullopt;
  std::string_view rest = std::string_view(*text).substr(end + 4);
  return take_number(rest);
}

std::vector<Entry> all_processes(os::FdRef proc) {
  std::vector<Entry> all;
  const auto names = os::names_in(proc);
  if (!names) return all;
  for (const std::string& name : *names) {
    std::string_view rest = name;
    const auto pid = take_number(rest);
    if (!pid || !rest.empty()) continue;
    if (const auto parent = parent_of(proc, *pid)) all.push_back({*pid, *parent});
  }
  return all;
}

// The number may be another process's since we looked: one with another parent is left alone.
void kill_one(os::FdRef proc, const Entry& entry) {
  const os::Fd pidfd = os::Fd::adopt(static_cast<int>(::syscall(SYS_pidfd_open, entry.pid, 0)));
  if (!pidfd || parent_of(proc, entry.pid) != entry.parent) return;
  ::syscall(SYS_pidfd_send_signal, pidfd.number(), SIGKILL, nullptr, 0);
}

}  // namespace

os::Result<ProcessTable> ProcessTable::open(os::FdRef proc) noexcept {
  os::Fd children = os::Fd::adopt(::openat(proc.number, "thread-self/children", O_RDONLY | O_CLOEXEC));
  if (!children) return os::last_error();
  return ProcessTable(proc, std::move(children));
}

// Only who reaps takes from this list, so that a read of it, in whatever pieces, leaves none out.
std::vector<pid_t> ProcessTable::children() const {
  std::string text;
  char piece[4096];
  for (;;) {
    const auto count = os::read_at(children_, piece, sizeof piece, text.size());
    if (!count || *count == 0) break;
    text.append(piece, *count);
  }
  std::vector<pid_t> pids;
  std::string_view rest = text;
  while (const auto pid = take_number(rest)) pids.push_back(*pid);
  return pids;
}

void ProcessTable::kill_trees(const std::vector<pid_t>& roots) const {
  if (roots.empty()) return;
  const std::vector<Entry> all = all_processes(proc_);
  std::vector<Entry> doomed;
  for (const Entry& entry : all) {
    if (std::find(roots.begin(), roots.end(), entry.pid) != roots.end()) doomed.push_back(entry);
  }
  for (std::size_t i = 0; i < doomed.size(); ++i) {
    const pid_t parent = doomed[i].pid;
    for (const Entry& entry : all) {
      if (entry.parent == parent) doomed.push_back(entry);
    }
    kill_one(proc_, doomed[i]);
  }
}

}  // namespace caisson::init
