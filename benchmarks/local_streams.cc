// Output and input beside a plain read loop.
#include <sched.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <stdexcept>

#include "benchmarks/floor/child.h"
#include "benchmarks/floor/require.h"
#include "benchmarks/local.h"

namespace caisson::bench {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t mib = 1 << 20;
constexpr std::size_t captured_bytes = 256 * mib;
constexpr std::size_t streamed_bytes = 1024 * mib;

std::string head_count(std::size_t bytes) { return std::to_string(bytes); }

void expect_bytes(std::size_t seen, std::size_t wanted) {
  if (seen != wanted)
    throw std::runtime_error("a stream of " + std::to_string(wanted) + " bytes had " + std::to_string(seen));
}

double mib_a_second(std::size_t bytes, Steady::time_point start) {
  return static_cast<double>(bytes) / static_cast<double>(mib) / (milliseconds_since(start) / 1000);
}

// The most memory that this process has had since reset_peak(), in MiB (VmHWM of proc_pid_status(5)).
double peak_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    double kib = 0;
    if (word == "VmHWM:" && status >> kib) return kib / 1024;
  }
  throw std::runtime_error("/proc/self/status has no VmHWM");
}
void reset_peak() { std::ofstream("/proc/self/clear_refs") << "5"; }

Awaitable<void> capture(std::shared_ptr<SandboxSession> session, double* rate) {
  Argv argv{"head", "-c", head_count(captured_bytes), "/dev/zero"};
  ExecOptions options(60s);
  options.output_cap(captured_bytes);
  const auto start = Steady::now();
  const ExecResult result = co_await session->exec(std::move(argv), std::move(options));
  *rate = mib_a_second(captured_bytes, start);
  expect_bytes(result.out.size(), captured_bytes);
}

double floor_capture() {
  const std::string count = head_count(captured_bytes);
  const char* const argv[] = {"head", "-c", count.c_str(), "/dev/zero"};
  const auto start = Steady::now();
  const std::unique_ptr<char, decltype(&std::free)> memory(
      static_cast<char*>(std::malloc(captured_bytes + mib)), &std::free);
  expect_bytes(floor::Child(argv).drain(memory.get()), captured_bytes);
  return mib_a_second(captured_bytes, start);
}

Awaitable<void> stream(std::shared_ptr<SandboxSession> session, double* rate) {
  Argv argv{"head", "-c", head_count(streamed_bytes), "/dev/zero"};
  ExecOptions options(60s);
  const auto start = Steady::now();
  const auto exec = co_await session->exec_start(std::move(argv), std::move(options));
  std::size_t seen = 0;
  for (;;) {
    const auto item = co_await exec->output().next();
    if (!item) break;
    if (const auto* chunk = std::get_if<SandboxStreamChunk>(&*item)) seen += chunk->data.size();
  }
  *rate = mib_a_second(streamed_bytes, start);
  expect_bytes(seen, streamed_bytes);
}

double floor_stream() {
  const std::string count = head_count(streamed_bytes);
  const char* const argv[] = {"head", "-c", count.c_str(), "/dev/zero"};
  const auto start = Steady::now();
  expect_bytes(floor::Child(argv).drain(), streamed_bytes);
  return mib_a_second(streamed_bytes, start);
}

constexpr int pings_a_round = 500;
const std::string ping_line = "a line of sixty-four bytes, as a line protocol would send them.\n";

Awaitable<void> echo(std::shared_ptr<SandboxExecHandle> exec, std::vector<double>* samples) {
  for (int i = 0; i < pings_a_round; ++i) {
    const auto start = Steady::now();
    co_await exec->write_stdin(ping_line);
    for (std::size_t got = 0; got < ping_line.size();) {
      const auto item = co_await exec->output().next();
      if (!item) throw std::runtime_error("the echo ended");
      got += std::get<SandboxStreamChunk>(*item).data.size();
    }
    samples->push_back(milliseconds_since(start));
  }
}

// Left to itself the scheduler puts the two of a pipe on one CPU or on two, and stays with it: ten times in
// one direction or the other, by chance. So it is said where they run.
class PinnedToFirstCpu {
 public:
  PinnedToFirstCpu() {
    CPU_ZERO(&before_);
    floor::require(sched_getaffinity(0, sizeof before_, &before_) == 0, errno, "sched_getaffinity");
    cpu_set_t first;
    CPU_ZERO(&first);
    CPU_SET(0, &first);
    floor::require(sched_setaffinity(0, sizeof first, &first) == 0, errno, "sched_setaffinity");
  }
  ~PinnedToFirstCpu() { sched_setaffinity(0, sizeof before_, &before_); }
  PinnedToFirstCpu(const PinnedToFirstCpu&) = delete;
  PinnedToFirstCpu& operator=(const PinnedToFirstCpu&) = delete;

 private:
  cpu_set_t before_;
};

Awaitable<std::shared_ptr<SandboxExecHandle>> start_cat(std::shared_ptr<SandboxSession> session,
                                                        const char* cpu) {
  Argv argv{"taskset", "-c", cpu, "cat"};
  ExecOptions options(600s);
  co_return co_await session->exec_start(std::move(argv), std::move(options));
}

Row echo_row(Bed& bed, const char* cpu, std::string name, std::optional<double> target) {
  std::vector<double> ours;
  std::vector<double> floors;
  const PinnedToFirstCpu pinned;
  const auto exec = bed.run(start_cat(bed.session(), cpu));
  const char* const argv[] = {"taskset", "-c", cpu, "cat"};
  floor::Child cat(argv);
  std::string back = ping_line;
  for (int round = 0; round < 20; ++round) {
    bed.run(echo(exec, &ours));
    for (int i = 0; i < pings_a_round; ++i) {
      const auto start = Steady::now();
      cat.ping(ping_line.data(), ping_line.size(), back.data());
      floors.push_back(milliseconds_since(start));
    }
  }
  bed.run(exec->kill());
  return {
      std::move(name), quantile(ours, 0.5), "ms", "raw pipe ping-pong", quantile(floors, 0.5), target, true};
}

}  // namespace

std::vector<Row> stream_rows(Bed& bed) {
  std::vector<double> captures;
  std::vector<double> floor_captures;
  std::vector<double> peaks;
  for (int round = 0; round < 7; ++round) {
    reset_peak();
    const double before = peak_memory();
    double rate = 0;
    bed.run(capture(bed.session(), &rate));
    captures.push_back(rate);
    peaks.push_back(peak_memory() - before);
    floor_captures.push_back(floor_capture());
  }
  std::vector<double> streams;
  std::vector<double> floor_streams;
  for (int round = 0; round < 5; ++round) {
    double rate = 0;
    bed.run(stream(bed.session(), &rate));
    streams.push_back(rate);
    floor_streams.push_back(floor_stream());
  }
  constexpr double cap_mib = captured_bytes / mib;
  return {
      {"capture of 256 MiB", quantile(captures, 0.5), "MiB/s", "read loop into memory",
       quantile(floor_captures, 0.5), 0.9, false},
      {"capture of 256 MiB, peak memory", quantile(peaks, 1), "MiB", "its cap", cap_mib,
       (cap_mib + 16) / cap_mib, true},
      {"interactive stream of 1 GiB", quantile(streams, 0.5), "MiB/s", "read loop",
       quantile(floor_streams, 0.5), 0.9, false},
      echo_row(bed, "1", "stdin to stdout echo of 64 bytes, p50", 1.3),
      echo_row(bed, "0", "the same on one CPU, p50", std::nullopt),
  };
}

}  // namespace caisson::bench
