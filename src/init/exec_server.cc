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

Exited end_of(std::uint64_t exec, const siginfo_t& info) noexcept {
  Exited end;
  end.exec = exec;
  end.signaled = info.si_code != CLD_EXITED;
  end.code = static_cast<std::uint32_t>(info.si_status);
  end.core = info.si_code == CLD_DUMPED;
  return end;
}

}  // namespace

BoxResult<ExecServer::Execs::iterator> ExecServer::find(std::uint64_t id) {
  const auto found = execs_.find(id);
  if (found == execs_.end()) return no_such_exec();
  return found;
}

BoxResult<ExecServer::StartedExec> ExecServer::start(const StartExec& request,
                                                     std::vector<os::Fd> descriptors) {
  auto mark = box_->cgroups ? os::Result<TreeMark>(TreeMark()) : TreeMark::renew(box_->proc);
  if (!mark) return failure(Step::clone, mark.error(), "marking the command's tree");
  auto command = start_command(*box_, request, std::move(descriptors), keep_);
  if (!command) return command.error();
  Exec exec;
  exec.leader = std::move(command->process);
  exec.mark = std::move(*mark);
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
  // What is left of a tree that lost its root has a child of ours at its own.
  const bool may_be_empty = reap_ended(ended);
  go_on_killing();
  std::vector<News> news;
  for (auto at = execs_.begin(); at != execs_.end();) {
    auto& [id, exec] = *at;
    const bool just_ended = std::find(ended.begin(), ended.end(), id) != ended.end();
    if (exec.end && !exec.empty && (may_be_empty || exec.killing)) {
      exec.empty = is_empty(exec);
      exec.end->left = !exec.empty;
      if (just_ended) news.emplace_back(*exec.end);
      if (!just_ended && exec.empty) news.emplace_back(TreeEmpty{id});
    }
    at = exec.empty && exec.acknowledged ? execs_.erase(at) : std::next(at);
  }
  return news;
}

bool ExecServer::is_empty(const Exec& exec) const {
  return exec.mark.link().empty() || processes_.none_bears(exec.mark);
}

// Whether any child has.
bool ExecServer::reap_ended(std::vector<std::uint64_t>& ended) {
  for (bool any = false;; any = true) {
    siginfo_t info{};
    int result;
    do {
      result = ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | __WALL);
    } while (result != 0 && errno == EINTR);
    // ECHILD: there are none.
    if (result != 0 || info.si_pid == 0) return any;
    rounds_ = 0;
    for (auto& [id, exec] : execs_) {
      if (exec.end || exec.leader.pid() != info.si_pid) continue;
      exec.end = end_of(id, info);
      ended.push_back(id);
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

void ExecServer::go_on_killing() {
  bool any = false;
  for (const auto& [id, exec] : execs_) {
    if (!exec.killing || exec.empty) continue;
    if (!exec.end) any = static_cast<bool>(exec.leader.signal(SIGKILL)) || any;
    if (!exec.mark.link().empty()) any = processes_.kill_bearers(exec.mark) || any;
  }
  if (any) ++rounds_;
}

}  // namespace caisson::init
