// Boxes made, beside the floor's and beside what other runtimes make, in alternating rounds.
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <thread>

#include "benchmarks/container.h"
#include "benchmarks/floor/box.h"

namespace caisson::bench {
namespace {

using namespace std::chrono_literals;

Awaitable<void> time_creates(Sandbox* sandbox, int count, Steady::duration pause,
                             std::vector<double>* samples) {
  const auto executor = co_await boost::asio::this_coro::executor;
  for (int i = 0; i < count; ++i) {
    boost::asio::steady_timer timer(executor, pause);
    co_await timer.async_wait(boost::asio::use_awaitable);
    SandboxSessionSpec wanted = spec(Isolation::container);
    const auto start = Steady::now();
    const auto session = co_await sandbox->create_session(std::move(wanted));
    samples->push_back(milliseconds_since(start));
    co_await session->destroy();
  }
}

Awaitable<void> time_whole_lives(Sandbox* sandbox, int count, std::vector<double>* samples) {
  for (int i = 0; i < count; ++i) {
    SandboxSessionSpec wanted = spec(Isolation::container);
    const auto start = Steady::now();
    const auto session = co_await sandbox->create_session(std::move(wanted));
    co_await exec_true(session);
    co_await session->destroy();
    samples->push_back(milliseconds_since(start));
  }
}

void time_floor(const floor::BoxImage& image, int count, Steady::duration pause,
                std::vector<double>& samples) {
  for (int i = 0; i < count; ++i) {
    std::this_thread::sleep_for(pause);
    const auto start = Steady::now();
    const floor::Box box(image);
    samples.push_back(milliseconds_since(start));
  }
}

}  // namespace

std::vector<Row> create_rows() {
  constexpr int rounds = 20;
  constexpr int boxes_a_round = 20;
  const TemporaryRoot root;
  const floor::BoxImage image(root.path());
  // For a pool to be full again. A machine that was idle takes longer for everything, so the floor waits too.
  constexpr auto pause = 20ms;
  std::vector<double> without;
  std::vector<double> pooled;
  std::vector<double> floors;
  std::vector<double> paused_floors;
  Bed off(Isolation::container);
  Bed on(Isolation::container, 2);
  for (int round = 0; round < rounds; ++round) {
    off.run(time_creates(&off.sandbox(), boxes_a_round, 0ms, &without));
    time_floor(image, boxes_a_round, 0ms, floors);
    on.run(time_creates(&on.sandbox(), boxes_a_round / 4, pause, &pooled));
    time_floor(image, boxes_a_round / 4, pause, paused_floors);
  }
  return {beside("container create, pool off, p50", without, "floor's box", floors, 1.5),
          beside("container create, pool of 2, p50", pooled, "floor's box", paused_floors, 0.35)};
}

std::vector<Row> peer_rows(const std::string& peers) {
  std::vector<double> ours;
  std::vector<double> bwrap;
  std::vector<double> runc;
  std::vector<double> docker;
  Bed bed(Isolation::container);
  for (int round = 0; round < 10; ++round) {
    bed.run(time_whole_lives(&bed.sandbox(), 20, &ours));
    time_peer(peers, "bwrap", 10, bwrap);
    time_peer(peers, "runc", 3, runc);
    time_peer(peers, "docker-run", 1, docker);
  }
  const std::string name = "create, exec and destroy, pool off, p50";
  return {beside(name, ours, "bubblewrap", bwrap, 1.0 / 3), beside(name, ours, "runc run", runc, 1.0 / 15),
          beside(name, ours, "docker run", docker, 1.0 / 150)};
}

}  // namespace caisson::bench
