// Programs run to their end, and what they say when they fail.
#include "os/run_program.h"

#include <linux/sched.h>

#include "os/files.h"
#include "os/spawn.h"

namespace caisson::os {
namespace {

constexpr std::size_t longest_message = 4096;

std::vector<const char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<const char*> pointers;
  for (const std::string& text : texts) pointers.push_back(text.c_str());
  return pointers;
}

}  // namespace

ExplainedResult<void> run_program(const ProgramRun& run) {
  const std::string step = run.step + " by " + run.argv.front();
  std::vector<std::string> words_of_it = run.argv;
  // A shell waits until the maps are there.
  if (run.ids != nullptr)
    words_of_it.insert(words_of_it.begin(), {"sh", "-c", "read -r go && exec \"$@\"", "sh"});
  std::vector<const char*> argv = pointers_to(words_of_it);
  argv.push_back(nullptr);
  const char* const envp[] = {nullptr};
  const std::vector<std::string> paths = exec_candidates(words_of_it.front(), run.directories);
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
    return number == ENOENT
               ? explained(number, step, "there is no such program: install the package " + run.package)
               : explained(number, step);
  }
  const auto mapped = run.ids == nullptr ? ExplainedResult<void>() : write_id_maps(*process, *run.ids);
  // Without a word it ends.
  if (mapped) static_cast<void>(write_all(go->write, "go\n"));
  go->write.reset();
  auto message = read_all(pipe->read, longest_message);
  // A program that has not done with its words must not wait for us.
  pipe->read.reset();
  const Reaped end = process->reap();
  if (!mapped) return mapped.error();
  if (!end.status) return explained(end.lost, "waiting for " + run.argv.front());
  if (!end.status->signaled && end.status->code == 0) return {};
  std::string words = message ? std::move(*message) : std::string();
  while (!words.empty() && words.back() == '\n') words.pop_back();
  if (words.empty()) words = end.status->signaled ? "it was killed" : "it failed, saying nothing";
  return explained(EIO, step, words);
}

}  // namespace caisson::os
