// Execs beside the floor, in alternating rounds so that both meet the same machine.
#include <atomic>
#include <thread>

#include "benchmarks/bed.h"
#include "benchmarks/floor/exec.h"
#include "benchmarks/local.h"

namespace caisson::bench {
namespace {

using namespace std::chrono_literals;

Awaitable<void> exec_until(std::shared_ptr<SandboxSession> session, Steady::time_point end, long* count) {
  while (Steady::now() < end) {
    co_await exec_true(session);
    ++*count;
  }
}

double floor_rate(Steady::duration time) {
  std::atomic<long> count = 0;
  const auto end = Steady::now() + time;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < std::max(1U, std::thread::hardware_concurrency()); ++i) {
    threads.emplace_back([&count, end] {
      while (Steady::now() < end) {
        floor::exec_true();
        ++count;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  return static_cast<double>(count) / std::chrono::duration<double>(time).count();
}

double caisson_rate(Bed& bed, int at_once, Steady::duration time) {
  std::vector<long> counts(static_cast<std::size_t>(at_once));
  std::vector<std::future<void>> ends;
  const auto start = Steady::now();
  for (auto& count : counts) {
    ends.push_back(boost::asio::co_spawn(bed.loop(), exec_until(bed.session(), start + time, &count),
                                         boost::asio::use_future));
  }
  for (auto& end : ends) {
    bed.run_until(end);
    end.get();
  }
  long sum = 0;
  for (const long count : counts) sum += count;
  return static_cast<double>(sum) / std::chrono::duration<double>(Steady::now() - start).count();
}

}  // namespace

std::vector<Row> exec_rows(Bed& bed) {
  constexpr int rounds = 40;
  constexpr int execs_a_round = 50;
  std::vector<double> ours;
  std::vector<double> blocking_ours;
  std::vector<double> floors;
  {
    auto blocking = blocking::open("local", options_for(bed.root()));
    auto blocking_session = blocking.create_session(spec());
    Argv argv{"/bin/true"};
    for (int round = 0; round < rounds; ++round) {
      bed.run(time_execs(bed.session(), execs_a_round, &ours));
      for (int i = 0; i < execs_a_round; ++i) {
        const auto start = Steady::now();
        floor::exec_true();
        floors.push_back(milliseconds_since(start));
      }
      for (int i = 0; i < execs_a_round; ++i) {
        const auto start = Steady::now();
        blocking_session.exec(argv, ExecOptions(60s));
        blocking_ours.push_back(milliseconds_since(start));
      }
    }
  }
  std::vector<double> rates;
  std::vector<double> floor_rates;
  for (int round = 0; round < 5; ++round) {
    rates.push_back(caisson_rate(bed, 64, 1s));
    floor_rates.push_back(floor_rate(1s));
  }
  return {
      {"exec of /bin/true, p50", quantile(ours, 0.5), "ms", "floor", quantile(floors, 0.5), 1.15, true},
      {"exec of /bin/true, p99", quantile(ours, 0.99), "ms", "floor", quantile(floors, 0.99), 1.5, true},
      {"execs per second, 64 at once", quantile(rates, 0.5), "1/s", "floor on all cores",
       quantile(floor_rates, 0.5), 0.85, false},
      {"blocking exec of /bin/true, p50", quantile(blocking_ours, 0.5), "ms", "floor", quantile(floors, 0.5),
       std::nullopt, true},
  };
}

}  // namespace caisson::bench
