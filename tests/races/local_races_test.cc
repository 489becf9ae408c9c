// Calls that race on sessions of the local provider, on threads, with both ways that trees are killed.
#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_future.hpp>
#include <future>
#include <random>

#include "caisson/providers/local.h"
#include "providers/local/root_for_test.h"
#include "tests/support/ways.h"

namespace caisson::test {
namespace {

using namespace std::chrono_literals;
namespace asio = boost::asio;

constexpr int rounds = 15;
constexpr std::size_t threads = 4;

// What a call may end with where its session's end meets it.
struct Outcomes {
  std::atomic<int> done = 0;
  std::atomic<int> refused = 0;
  std::mutex mutex;
  std::vector<std::string> wrong;
};

template <class T>
void settle(std::future<T>& call, Outcomes& outcomes) {
  try {
    if (call.wait_for(60s) != std::future_status::ready) throw std::runtime_error("a call never ended");
    call.get();
    ++outcomes.done;
  } catch (const SandboxError& error) {
    const ErrorCode code = error.code();
    ++outcomes.refused;
    if (code != ErrorCode::session_destroyed && code != ErrorCode::session_not_found &&
        code != ErrorCode::file_missing && code != ErrorCode::workspace_conflict)
      outcomes.wrong.push_back(error.what());
  } catch (const std::exception& error) {
    outcomes.wrong.push_back(error.what());
  }
}

class LocalRaces : public testing::TestWithParam<kit::TreeKill> {
 protected:
  TemporaryDirectory root;
};

TEST_P(LocalRaces, CallsMeetTheEndsOfSessionsThatShareAWorkspace) {
  Outcomes outcomes;
  std::mt19937 random(1);
  auto clock = std::make_shared<kit::ManualClock>();
  for (int round = 0; round < rounds; ++round) {
    asio::thread_pool loop(threads);
    local::LocalOptions options;
    options.executor = loop.get_executor();
    options.settings.root = root.path();
    options.clock = clock;
    options.tree_kill = GetParam();
    auto sandbox = local::open(std::move(options));
    sandbox->bind_policy({SandboxNetwork::egress, SandboxIsolation::none, false, true});
    std::vector<std::shared_ptr<SandboxSession>> sessions;
    for (int made = 0; made < 2; ++made) {
      SandboxSessionSpec spec;
      spec.image = "host";
      spec.workspace_key = "shared";
      spec.network = SandboxNetwork::egress;
      spec.durability = SandboxDurability::persistent;
      spec.ttl_seconds = 60;
      sessions.push_back(
          asio::co_spawn(loop, sandbox->create_session(std::move(spec)), asio::use_future).get());
    }
    if (random() % 2 == 0) clock->advance(60s);
    std::vector<std::future<void>> calls;
    std::vector<std::future<ExecResult>> execs;
    std::vector<std::future<std::string>> reads;
    std::vector<std::future<std::vector<std::string>>> reaps;
    const Argv argv{"sh", "-c", "setsid sleep 1000 & echo x > file"};
    for (int call = 0; call < 12; ++call) {
      auto& session = sessions[random() % 2];
      switch (random() % 8) {
        case 0:
          calls.push_back(asio::co_spawn(loop, session->touch(), asio::use_future));
          break;
        case 1:
          calls.push_back(asio::co_spawn(loop, session->put_file("a/b", "text"), asio::use_future));
          break;
        case 2:
          reads.push_back(asio::co_spawn(loop, session->get_file("file"), asio::use_future));
          break;
        case 3:
          reaps.push_back(asio::co_spawn(loop, sandbox->reap(), asio::use_future));
          break;
        case 4:
          calls.push_back(asio::co_spawn(loop, session->release(), asio::use_future));
          break;
        case 5:
          calls.push_back(asio::co_spawn(loop, sandbox->destroy_session(session->id()), asio::use_future));
          break;
        default:
          execs.push_back(asio::co_spawn(loop, session->exec(argv, ExecOptions(30s)), asio::use_future));
      }
    }
    // Half of the rounds close the sandbox over what is under way.
    if (round % 2 == 1) sandbox.reset();
    for (auto& call : calls) settle(call, outcomes);
    for (auto& call : execs) settle(call, outcomes);
    for (auto& call : reads) settle(call, outcomes);
    for (auto& call : reaps) settle(call, outcomes);
    sandbox.reset();
    sessions.clear();
    loop.join();
    EXPECT_EQ(local::traces_of_sessions(root.path()), std::vector<std::string>()) << "round " << round;
  }
  EXPECT_EQ(outcomes.wrong, std::vector<std::string>());
  EXPECT_GT(outcomes.done, 0);
  EXPECT_GT(outcomes.refused, 0);
}

INSTANTIATE_TEST_SUITE_P(BothWays, LocalRaces, testing::ValuesIn(ways_here()), name_of_way);

}  // namespace
}  // namespace caisson::test
