// Sessions made and thrown away, beside the reference provider where it is installed.
#include "benchmarks/local.h"
#include "benchmarks/peer.h"

namespace caisson::bench {
namespace {

constexpr int sessions_a_round = 100;
constexpr int execs_a_round = 50;

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
  struct Side {
    std::vector<double> sessions, execs;
  } ours, theirs;
  const auto append = [](std::vector<double>& all, const std::vector<double>& some) {
    all.insert(all.end(), some.begin(), some.end());
  };
  std::optional<Peer> peer;
  if (!peer_python.empty()) peer.emplace(peer_python);
  for (int round = 0; round < 10; ++round) {
    bed.run(create_and_destroy(&bed.sandbox(), &ours.sessions));
    bed.run(time_execs(bed.session(), execs_a_round, &ours.execs));
    if (!peer) continue;
    append(theirs.sessions, peer->measure("create_destroy", sessions_a_round));
    append(theirs.execs, peer->measure("exec_true", execs_a_round));
  }
  const std::string peer_name = "tai42-sandbox-local";
  return {beside("create and destroy of a session, p50", ours.sessions, peer_name, theirs.sessions, 0.5),
          beside("exec of /bin/true beside the reference, p50", ours.execs, peer_name, theirs.execs,
                 std::nullopt)};
}

}  // namespace caisson::bench
