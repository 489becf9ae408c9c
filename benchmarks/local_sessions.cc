// Sessions made and thrown away, beside the reference provider where it is installed.
#include "benchmarks/local.h"
#include "benchmarks/peer.h"

namespace caisson::bench {
namespace {

constexpr int sessions_a_round = 100;

Awaitable<void> create_and_destroy(Sandbox* sandbox, std::vector<double>* samples) {
  for (int i = 0; i < sessions_a_round; ++i) {
    SandboxSessionSpec wanted = spec();
    const auto start = Steady::now();
    const auto session = co_await sandbox->create_session(std::move(wanted));
    co_await session->destroy();
    samples->push_back(milliseconds_since(start));
  }
}

}  // namespace

std::vector<Row> session_rows(Bed& bed, const std::string& peer_python) {
  std::vector<double> ours;
  std::vector<double> theirs;
  std::optional<Peer> peer;
  if (!peer_python.empty()) peer.emplace(peer_python);
  for (int round = 0; round < 10; ++round) {
    bed.run(create_and_destroy(&bed.sandbox(), &ours));
    if (!peer) continue;
    const auto samples = peer->measure("create_destroy", sessions_a_round);
    theirs.insert(theirs.end(), samples.begin(), samples.end());
  }
  Row row{"create and destroy of a session, p50",
          quantile(ours, 0.5),
          "ms",
          "tai42-sandbox-local",
          std::nullopt,
          0.5,
          true};
  if (peer) row.other = quantile(theirs, 0.5);
  return {row};
}

}  // namespace caisson::bench
