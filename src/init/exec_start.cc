// Starting one command: its working directory, terminal, environment and program, each with the user's
// rights.
#include "init/exec_start.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "init/user_rights.h"
#include "init/wire.h"
#include "os/beneath.h"
#include "os/files.h"
#include "os/spawn.h"
#include "os/tty.h"

namespace caisson::init {
namespace {

std::string_view name_of(std::string_view variable) noexcept {
  return variable.substr(0, variable.find('='));
}

std::string_view value_of(const std::vector<std::string>& environment, std::string_view name) noexcept {
  for (const std::string& variable : environment) {
    if (name_of(variable) == name) return std::string_view(variable).substr(name.size() + 1);
  }
  return {};
}

Step step_of(os::SpawnStep step) noexcept {
  switch (step) {
    case os::SpawnStep::clone:
      return Step::clone;
    case os::SpawnStep::session:
      return Step::session;
    case os::SpawnStep::terminal:
      return Step::tty;
    case os::SpawnStep::directory:
      return Step::cwd;
    case os::SpawnStep::descriptors:
      return Step::descriptors;
    case os::SpawnStep::limits:
      return Step::limits;
    case os::SpawnStep::credentials:
      return Step::capabilities;
    case os::SpawnStep::cgroup:
      return Step::cgroup;
    case os::SpawnStep::exec:
    case os::SpawnStep::shim:
      break;
  }
  return Step::exec;
}

// S-42. By no magic link, for those of /proc/self are init's own.
os::Result<os::Fd> open_cwd(const Box& box, const std::string& cwd) {
  if (cwd.starts_with('/')) return os::open_directory_in(box.root, cwd);
  auto workspace = os::open_directory_in(box.root, box.workspace);
  if (!workspace || cwd.empty()) return workspace;
  return os::Beneath(std::move(*workspace), box.workspace).open(cwd, O_PATH | O_DIRECTORY);
}

// Not of /dev/null, which is the box's to put something else in its place.
os::Result<os::Fd> open_empty_input() {
  auto pipe = os::make_pipe();
  if (!pipe) return pipe.error();
  return std::move(pipe->read);
}

// Pointers to strings, ended by a null.
std::vector<const char*> pointers_to(const std::vector<std::string>& strings) {
  std::vector<const char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (const std::string& string : strings) pointers.push_back(string.c_str());
  pointers.push_back(nullptr);
  return pointers;
}

// What becomes of the descriptors that rode along, and the terminal.
struct Streams {
  os::Fd input, output, error;
  std::vector<os::Fd> joined;
  os::PseudoTerminal tty;
};

BoxResult<Streams> streams_of(const Box& box, const StartExec& request, std::vector<os::Fd> descriptors) {
  Streams streams;
  auto next = descriptors.begin();
  if (request.tty) {
    if (!box.terminals) return failure(Step::tty, ENODEV, "the box has no devpts");
    auto tty = os::open_pty(box.terminals, request.tty->columns, request.tty->rows);
    if (!tty) return failure(Step::tty, tty.error(), "");
    streams.tty = std::move(*tty);
  } else {
    if (request.input) {
      streams.input = std::move(*next++);
    } else {
      auto empty = open_empty_input();
      if (!empty) return failure(Step::descriptors, empty.error(), "");
      streams.input = std::move(*empty);
    }
    streams.output = std::move(*next++);
    streams.error = std::move(*next++);
  }
  streams.joined.assign(std::make_move_iterator(next), std::make_move_iterator(descriptors.end()));
  return streams;
}

// A pipe's other end, opened anew: an end without this one's flags and position. Nothing where it is no pipe,
// or one that the box's user may not open.
os::Fd other_end(const Box& box, os::FdRef end, int access) {
  const auto is = os::status(end);
  if (!is || !S_ISFIFO(is->st_mode)) return {};
  const std::string path = "self/fd/" + std::to_string(end.number);
  return os::Fd::adopt(::openat(box.proc.number(), path.c_str(), access | O_NONBLOCK | O_CLOEXEC));
}

// A program that is there, seen from the working directory, and yet was not found: its interpreter is
// missing.
std::string without_interpreter(const Box& box, const std::vector<std::string>& candidates) {
  const auto rights = UserRights::take(box);
  if (!rights) return {};
  for (const std::string& candidate : candidates) {
    if (os::candidate_exists({}, candidate)) return candidate;
  }
  return {};
}

// None for no name.
os::Result<os::Fd> open_cgroup(const Box& box, const std::string& name) {
  if (name.empty()) return os::Fd();
  if (!box.cgroups) return os::error_of(ENODEV);
  os::Fd cgroup = os::Fd::adopt(
      ::openat(box.cgroups.number(), name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!cgroup) return os::last_error();
  return cgroup;
}

struct Ready {
  Streams streams;
  Command command;  // All but the process.
};

// While it lives the working directory is a command's, who is born in it; afterwards nothing of the box is
// held.
class WorkingDirectory {
 public:
  explicit WorkingDirectory(const Box& box) noexcept : box_(&box) {}
  ~WorkingDirectory() { static_cast<void>(::fchdir(box_->root.number())); }
  WorkingDirectory(const WorkingDirectory&) = delete;
  WorkingDirectory& operator=(const WorkingDirectory&) = delete;

 private:
  const Box* box_;
};

// What is done with the user's rights: also goes to the command's working directory, as WorkingDirectory
// says.
BoxResult<Ready> prepare(const Box& box, const StartExec& request, std::vector<os::Fd> descriptors,
                         bool keep) {
  const auto rights = UserRights::take(box);
  if (!rights) return failure(Step::ids, rights.error(), "");
  const auto cwd = open_cwd(box, request.cwd);
  if (!cwd) return failure(Step::cwd, cwd.error(), request.cwd);
  if (::fchdir(cwd->number()) != 0) return failure(Step::cwd, os::last_error(), request.cwd);
  auto streams = streams_of(box, request, std::move(descriptors));
  if (!streams) return streams.error();
  Ready ready{std::move(*streams), {}};
  if (keep && !request.tty) {
    if (request.input) ready.command.input = other_end(box, ready.streams.input, O_WRONLY);
    ready.command.output = other_end(box, ready.streams.output, O_RDONLY);
    ready.command.error = other_end(box, ready.streams.error, O_RDONLY);
  }
  return ready;
}

}  // namespace

std::vector<std::string> merged_environment(const std::string& home, const std::vector<std::string>& base,
                                            const std::vector<std::string>& more) {
  std::vector<std::string> merged;
  // Strings that move to larger memory would leave copies.
  merged.reserve(1 + base.size() + more.size());
  if (!home.empty()) merged.push_back("HOME=" + home);
  for (const auto* list : {&base, &more}) {
    for (const std::string& variable : *list) {
      const auto same = std::find_if(merged.begin(), merged.end(), [&](const std::string& other) {
        return name_of(other) == name_of(variable);
      });
      if (same == merged.end()) {
        merged.push_back(variable);
      } else {
        wipe(*same);
        *same = variable;
      }
    }
  }
  return merged;
}

void wipe_all(std::vector<std::string>& strings) noexcept {
  for (std::string& string : strings) wipe(string);
  strings.clear();
}

BoxResult<Command> start_command(const Box& box, const StartExec& request, std::vector<os::Fd> descriptors,
                                 bool keep) {
  const WorkingDirectory directory(box);
  auto ready = prepare(box, request, std::move(descriptors), keep);
  if (!ready) return ready.error();
  auto& streams = ready->streams;
  const auto cgroup = open_cgroup(box, request.cgroup);
  if (!cgroup) return failure(Step::cgroup, cgroup.error(), request.cgroup);
  const std::vector<os::FdRef> joined(streams.joined.begin(), streams.joined.end());

  std::vector<std::string> environment = merged_environment(box.user.home, box.environment, request.env);
  const auto candidates = os::exec_candidates(request.argv.front(), value_of(environment, "PATH"));
  const auto argv = pointers_to(request.argv);
  const auto envp = pointers_to(environment);
  const auto paths = pointers_to(candidates);
  std::vector<os::ResourceLimit> limits;
  for (const Rlimit& limit : box.rlimits) {
    limits.push_back({static_cast<int>(limit.resource), limit.soft, limit.hard});
  }

  os::SpawnPlan plan;
  plan.candidates = {paths.data(), candidates.size()};
  plan.argv = argv.data();
  plan.envp = envp.data();
  plan.terminal = request.tty.has_value();
  plan.descriptors[0] = plan.terminal ? streams.tty.terminal : streams.input;
  plan.descriptors[1] = plan.terminal ? streams.tty.terminal : streams.output;
  plan.descriptors[2] = plan.terminal ? streams.tty.terminal : streams.error;
  plan.cgroup = *cgroup;
  plan.joined = joined;
  plan.descriptor_limit_soft = request.descriptor_limit_soft;
  plan.limits = limits;
  os::SpawnIds ids{box.user.uid, box.user.gid, std::nullopt};
  if (box.groups_settable) ids.groups = box.user.groups;
  plan.ids = ids;
  plan.capability_mask = box.capabilities;
  plan.no_new_privileges = true;
  plan.seccomp = box.seccomp;
  // With init's own ids: they are what may clone into the cgroups of the box.
  auto process = os::spawn(plan);
  wipe_all(environment);
  if (process) {
    ready->command.process = std::move(*process);
    ready->command.terminal = std::move(streams.tty.master);
    return std::move(ready->command);
  }
  const auto [step, number] = process.error();
  const bool there = step == os::SpawnStep::exec && number == ENOENT;
  return failure(step_of(step), number, there ? without_interpreter(box, candidates) : request.argv.front());
}

}  // namespace caisson::init
