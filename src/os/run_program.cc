// Programs run to their end, and what they say when they fail.
#include "os/run_program.h"

#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>

#include "os/files.h"
#include "os/spawn.h"

namespace caisson::os {
namespace {

using Deadline = std::chrono::steady_clock::time_point;

constexpr std::size_t longest_message = 4096;

std::vector<const char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<const char*> pointers;
  for (const std::string& text : texts) pointers.push_back(text.c_str());
  return pointers;
}

ExplainedError missing(const ProgramRun& run, const std::string& step) {
  return explained(ENOENT, step, "there is no such program: install the package " + run.package);
}

// What to run: the program itself, or a shell that waits until the maps are there and then becomes it. The
// shell has no PATH to look it up in, and is not to have one of its own making.
Result<std::vector<std::string>> words_to_run(const ProgramRun& run) {
  if (run.ids == nullptr) return run.argv;
  const std::vector<std::string> places = exec_candidates(run.argv.front(), run.directories);
  const auto found = std::find_if(places.begin(), places.end(),
                                  [](const std::string& path) { return ::access(path.c_str(), X_OK) == 0; });
  if (found == places.end()) return error_of(ENOENT);
  std::vector<std::string> words{"sh", "-c", "read -r go && exec \"$@\"", "sh", *found};
  words.insert(words.end(), run.argv.begin() + 1, run.argv.end());
  return words;
}

// Its first words, all others read and forgotten so that it need not wait; until it has ended or its time is
// over. What it leaves running and may still speak is not waited for.
Result<std::string> hear(const Process& process, FdRef words, Deadline deadline) {
  std::string text;
  for (;;) {
    const auto left = deadline - std::chrono::steady_clock::now();
    const auto timeout = std::chrono::ceil<std::chrono::milliseconds>(left).count();
    if (timeout <= 0) return error_of(ETIMEDOUT);
    pollfd both[] = {{process.pidfd().number, POLLIN, 0}, {words.number, POLLIN, 0}};
    if (::poll(both, 2, static_cast<int>(timeout)) < 0 && errno != EINTR) return last_error();
    if (both[1].revents != 0) {
      char piece[longest_message];
      const auto count = read_some(words, piece, sizeof piece);
      if (!count) return count.error();
      text.append(piece, std::min(*count, longest_message - text.size()));
      // It speaks no more: poll(2) passes a negative descriptor by.
      if (*count == 0) words.number = -1;
    } else if (both[0].revents != 0) {
      return text;
    }
  }
}

}  // namespace

ExplainedResult<void> run_program(const ProgramRun& run) {
  const std::string step = run.step + " by " + run.argv.front();
  const auto words = words_to_run(run);
  if (!words) return missing(run, step);
  std::vector<const char*> argv = pointers_to(*words);
  argv.push_back(nullptr);
  const char* const envp[] = {nullptr};
  const std::vector<std::string> paths = exec_candidates(words->front(), run.directories);
  const std::vector<const char*> candidates = pointers_to(paths);

  const auto empty = open_empty_input();
  auto pipe = make_pipe();
  auto go = make_pipe();
  if (!empty) return explained(empty.error(), step);
  if (!pipe || !go) return explained(pipe ? go.error() : pipe.error(), step);
  SpawnPlan plan;
  plan.candidates = candidates;
  plan.argv = argv.data();
  plan.envp = envp;
  plan.descriptors[0] = run.input.number < 0 ? FdRef(*empty) : run.input;
  plan.descriptors[1] = pipe->write;
  plan.descriptors[2] = pipe->write;
  plan.directory = run.directory;
  if (run.ids != nullptr) {
    plan.descriptors[0] = go->read;
    plan.namespaces = CLONE_NEWUSER;
    plan.raise_capabilities = true;
  }
  auto process = spawn(plan);
  pipe->write.reset();
  go->read.reset();
  if (!process) {
    const int number = process.error().number;
    return number == ENOENT ? missing(run, step) : explained(number, step);
  }
  const auto mapped = run.ids == nullptr ? ExplainedResult<void>() : write_id_maps(*process, *run.ids);
  // Without a word it ends.
  if (mapped) static_cast<void>(write_all(go->write, "go\n"));
  go->write.reset();
  auto said = hear(*process, pipe->read, std::chrono::steady_clock::now() + run.patience);
  if (!said) static_cast<void>(process->signal(SIGKILL));
  const Reaped end = process->reap();
  if (!mapped) return mapped.error();
  if (!said) return explained(said.error(), step);
  if (!end.status) return explained(end.lost, "waiting for " + run.argv.front());
  if (!end.status->signaled && end.status->code == 0) return {};
  while (!said->empty() && said->back() == '\n') said->pop_back();
  if (said->empty()) *said = end.status->signaled ? "it was killed" : "it failed, saying nothing";
  return explained(EIO, step, *said);
}

}  // namespace caisson::os
