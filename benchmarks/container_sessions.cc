// Sessions that are there: their execs, what they cost while they do nothing, and thousands of them.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "benchmarks/container.h"

namespace caisson::bench {
namespace {

using Sessions = std::vector<std::shared_ptr<SandboxSession>>;

Awaitable<void> create(Sandbox* sandbox, int count, Sessions* sessions) {
  for (int i = 0; i < count; ++i) {
    SandboxSessionSpec wanted = spec(Isolation::container);
    sessions->push_back(co_await sandbox->create_session(std::move(wanted)));
  }
}

Awaitable<void> exec_in_each(const Sessions* sessions) {
  for (const auto& session : *sessions) co_await exec_true(session);
}

Awaitable<void> destroy(Sessions* sessions) {
  for (const auto& session : *sessions) co_await session->destroy();
  sessions->clear();
}

// The processes that this one began, and those that they did.
std::vector<std::string> descendants_of(const std::string& pid) {
  std::vector<std::string> found;
  for (const auto& task : std::filesystem::directory_iterator("/proc/" + pid + "/task")) {
    std::ifstream children(task.path() / "children");
    for (std::string child; children >> child;) {
      found.push_back(child);
      for (std::string& below : descendants_of(child)) found.push_back(std::move(below));
    }
  }
  return found;
}

// In MiB; private_dirty and private_clean of proc_pid_smaps_rollup(5).
double private_memory(const std::string& pid) {
  std::ifstream rollup("/proc/" + pid + "/smaps_rollup");
  double kilobytes = 0;
  for (std::string word; rollup >> word;) {
    if (word != "Private_Clean:" && word != "Private_Dirty:") continue;
    double more = 0;
    rollup >> more;
    kilobytes += more;
  }
  return kilobytes / 1024;
}

// Of this process and all that it began.
struct Use {
  double memory = 0;
  double processes = 0;
};
Use own_use() {
  const std::string self = std::to_string(getpid());
  Use use{private_memory(self), 0};
  for (const std::string& pid : descendants_of(self)) {
    use.memory += private_memory(pid);
    ++use.processes;
  }
  return use;
}

}  // namespace

std::vector<Row> container_exec_rows(const std::string& peers) {
  std::vector<double> ours;
  std::vector<double> local;
  std::vector<double> docker;
  Bed box(Isolation::container);
  Bed host;
  for (int round = 0; round < 40; ++round) {
    box.run(time_execs(box.session(), 50, &ours));
    host.run(time_execs(host.session(), 50, &local));
    if (round % 4 == 0) time_peer(peers, "docker-exec", 2, docker);
  }
  return {beside("container exec of /bin/true, p50", ours, "local exec", local, 1.3),
          beside("container exec of /bin/true, p50", ours, "docker exec", docker, 1.0 / 80)};
}

std::vector<Row> idle_rows() {
  constexpr int count = 50;
  Bed bed(Isolation::container);
  bed.run(exec_true(bed.session()));
  const Use before = own_use();
  Sessions sessions;
  bed.run(create(&bed.sandbox(), count, &sessions));
  bed.run(exec_in_each(&sessions));
  const Use after = own_use();
  bed.run(destroy(&sessions));
  return {{"idle container session, private memory", (after.memory - before.memory) / count, "MiB",
           "the bound", 1, 1, true},
          {"idle container session, processes", (after.processes - before.processes) / count, "", "the bound",
           1, 1, true}};
}

std::vector<Row> many_rows() {
  constexpr int total = 2000;
  constexpr int step = 200;
  Bed bed(Isolation::container);
  Sessions sessions;
  std::vector<double> rates;
  for (int made = 0; made < total; made += step) {
    const auto start = Steady::now();
    bed.run(create(&bed.sandbox(), step, &sessions));
    rates.push_back(step * 1000 / milliseconds_since(start));
  }
  bed.run(exec_in_each(&sessions));
  bed.run(destroy(&sessions));
  return {{"2,000 sessions alive, the last 200 created", rates.back(), "1/s", "the first 200", rates.front(),
           0.7, false}};
}

}  // namespace caisson::bench
