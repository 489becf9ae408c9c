// The commands of a box: whose a process is, and how they end.
#include "init/exec_server.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "init/exec_start.h"
#include "os/tty.h"

namespace caisson::init {
namespace {

constexpr int eager_rounds = 50;
constexpr int longest_pause_ms = 20;

Failed no_such_exec() { return failure(Step::protocol, 0, "no such exec"); }

bool holds(const std::vector<pid_t>& pids, pid_t pid) noexcept {
  return std::find(pids.begin(), pids.end(), pid) != pids.end();
}

Exited end_of(std::uint64_t exec, const siginfo_t& info) noexcept {
  Exited end;
  end.exec = exec;
  end.signaled = info.si_code != CLD_EXITED;
  end.code = static_cast<std::uint32_t>(info.si_status);
  end.core = info.si_code == CLD_DUMPED;
  return end;
}

}  // namespace

BoxResult<ExecServer> ExecServer::create(const Box& box, bool keep) {
  auto processes = ProcessTable::open(box.proc);
  if (!processes) return failure(Step::proc, processes.error(), "children");
  return ExecServer(box, keep, std::move(*processes));
}

BoxResult<ExecServer::Execs::iterator> ExecServer::find(std::uint64_t id) {
  const auto found = execs_.find(id);
  if (found == execs_.end()) return no_such_exec();
  return found;
}

BoxResult<ExecServer::StartedExec> ExecServer::start(const StartExec& request,
                                                     std::vector<os::Fd> descriptors) {
  // Not reaped are those that ended just now; they are none of the new one's either.
  std::vector<pid_t> before = orphans();
  auto command = start_command(*box_, request, std::move(descriptors), keep_);
  if (!command) return command.error();
  Exec exec;
  exec.leader = std::move(command->process);
  exec.before = std::move(before);
  exec.input = std::move(command->input);
  exec.output = std::move(command->output);
  exec.error = std::move(command->error);
  StartedExec started;
  started.started = {next_, static_cast<std::uint32_t>(exec.leader.pid()),
                     static_cast<bool>(command->terminal)};
  if (command->terminal) {
    auto copy = os::duplicate(command->terminal);
    // Without it there is no resizing, and nothing else is lost.
    if (copy) exec.terminal = std::move(*copy);
    started.terminal = std::move(command->terminal);
  }
  execs_.emplace(next_++, std::move(exec));
  return started;
}

BoxResult<void> ExecServer::signal(const SignalExec& request) {
  const auto exec = find(request.exec);
  if (!exec) return exec.error();
  const auto sent = (*exec)->second.leader.signal(static_cast<int>(request.signal));
  if (!sent) return failure(Step::signal, sent.error(), "");
  return {};
}

BoxResult<void> ExecServer::kill(const KillExec& request) {
  const auto exec = find(request.exec);
  if (!exec) return exec.error();
  if ((*exec)->second.empty) return {};
  (*exec)->second.killing = true;
  rounds_ = 0;
  go_on_killing();
  return {};
}

BoxResult<void> ExecServer::acknowledge(const AckExit& request) {
  const auto exec = find(request.exec);
  if (!exec) return exec.error();
  if (!(*exec)->second.end) return failure(Step::protocol, 0, "the exec has not ended");
  (*exec)->second.acknowledged = true;
  for (os::Fd* kept : {&(*exec)->second.input, &(*exec)->second.output, &(*exec)->second.error})
    kept->reset();
  if ((*exec)->second.empty) execs_.erase(*exec);
  return {};
}

BoxResult<void> ExecServer::resize(const ResizeTty& request) {
  const auto exec = find(request.exec);
  if (!exec) return exec.error();
  if (!(*exec)->second.terminal) return failure(Step::tty, ENOTTY, "");
  const auto set = os::set_tty_size((*exec)->second.terminal, request.size.columns, request.size.rows);
  if (!set) return failure(Step::tty, set.error(), "");
  return {};
}

BoxResult<ExecServer::TakenStreams> ExecServer::take_streams(const TakeStreams& request) {
  const auto found = find(request.exec);
  if (!found) return found.error();
  const Exec& exec = (*found)->second;
  TakenStreams taken;
  const auto take = [&](const os::Fd& kept, bool& there) {
    auto copy = kept ? os::duplicate(kept) : os::Result<os::Fd>(os::Fd());
    if (!copy) return copy.error().value();
    there = static_cast<bool>(*copy);
    if (there) taken.descriptors.push_back(std::move(*copy));
    return 0;
  };
  int number = take(exec.terminal, taken.streams.terminal);
  if (number == 0) number = take(exec.input, taken.streams.input);
  if (number == 0) number = take(exec.output, taken.streams.output);
  if (number == 0) number = take(exec.error, taken.streams.error);
  if (number != 0) return failure(Step::descriptors, number, "");
  return taken;
}

BoxResult<void> ExecServer::close_input(const CloseInput& request) {
  const auto exec = find(request.exec);
  if (!exec) return exec.error();
  (*exec)->second.input.reset();
  return {};
}

ExecList ExecServer::list() const {
  ExecList list;
  for (const auto& [id, exec] : execs_) {
    list.execs.push_back({id, static_cast<std::uint32_t>(exec.leader.pid()), exec.end.has_value()});
  }
  return list;
}

std::vector<ExecServer::News> ExecServer::reap() {
  std::vector<std::uint64_t> ended;
  reap_ended(ended);
  go_on_killing();
  std::vector<News> news;
  for (auto at = execs_.begin(); at != execs_.end();) {
    auto& [id, exec] = *at;
    const bool just_ended = std::find(ended.begin(), ended.end(), id) != ended.end();
    if (exec.end && !exec.empty) {
      exec.empty = orphans_of(exec, false).empty();
      exec.end->left = !exec.empty;
      if (just_ended) news.emplace_back(*exec.end);
      if (!just_ended && exec.empty) news.emplace_back(TreeEmpty{id});
    }
    at = exec.empty && exec.acknowledged ? execs_.erase(at) : std::next(at);
  }
  return news;
}

void ExecServer::reap_ended(std::vector<std::uint64_t>& ended) {
  for (;;) {
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | __WALL) != 0) {
      if (errno == EINTR) continue;
      return;  // ECHILD: there are none.
    }
    if (info.si_pid == 0) return;
    rounds_ = 0;
    for (auto& [id, exec] : execs_) {
      if (!exec.end && exec.leader.pid() == info.si_pid) {
        exec.end = end_of(id, info);
        ended.push_back(id);
      }
      // The number comes free for another.
      std::erase(exec.before, info.si_pid);
    }
  }
}

int ExecServer::pause_ms() const noexcept {
  const bool killing = std::any_of(execs_.begin(), execs_.end(), [](const auto& each) {
    return each.second.killing && !each.second.empty;
  });
  if (!killing) return -1;
  return rounds_ < eager_rounds ? 1 : longest_pause_ms;
}

std::vector<Exited> ExecServer::unacknowledged() const {
  std::vector<Exited> all;
  for (const auto& [id, exec] : execs_) {
    if (exec.end && !exec.acknowledged) all.push_back(*exec.end);
  }
  return all;
}

// Our children that are no leader.
std::vector<pid_t> ExecServer::orphans() const {
  std::vector<pid_t> pids = processes_.children();
  std::erase_if(pids, [this](pid_t pid) {
    return std::any_of(execs_.begin(), execs_.end(), [pid](const auto& each) {
      return !each.second.end && each.second.leader.pid() == pid;
    });
  });
  return pids;
}

// A session is one exec's when its leader began it; who began one of his own may be any's. Its number stays
// taken as long as there is anybody in it.
bool ExecServer::may_own(const Exec& exec, pid_t orphan, pid_t session) const {
  if (exec.empty || holds(exec.before, orphan)) return false;
  if (session == exec.leader.pid()) return true;
  return std::none_of(execs_.begin(), execs_.end(), [session](const auto& each) {
    return !each.second.empty && each.second.leader.pid() == session;
  });
}

// The roots of what its leader's end has left of an exec. `certain`: that can be of no other.
std::vector<pid_t> ExecServer::orphans_of(const Exec& exec, bool certain) const {
  std::vector<pid_t> own;
  for (const pid_t orphan : orphans()) {
    const pid_t session = ::getsid(orphan);
    if (!may_own(exec, orphan, session)) continue;
    const auto owners = std::count_if(execs_.begin(), execs_.end(), [&](const auto& each) {
      return may_own(each.second, orphan, session);
    });
    if (!certain || owners == 1) own.push_back(orphan);
  }
  return own;
}

void ExecServer::go_on_killing() {
  std::vector<pid_t> roots;
  for (const auto& [id, exec] : execs_) {
    if (!exec.killing || exec.empty) continue;
    if (!exec.end) roots.push_back(exec.leader.pid());
    const std::vector<pid_t> own = orphans_of(exec, true);
    roots.insert(roots.end(), own.begin(), own.end());
  }
  if (roots.empty()) return;
  ++rounds_;
  processes_.kill_trees(roots);
}

}  // namespace caisson::init
