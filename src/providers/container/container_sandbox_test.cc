// The container provider as a whole (S-100 to S-103): what is its own, beside what the conformance suite
// checks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "providers/container/sandbox_bed_test.h"
#include "tests/support/cgroups.h"
#include "tests/support/eventually.h"

namespace caisson::container {
namespace {

namespace asio = boost::asio;
namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

TEST_F(ContainerSandboxTest, S100_WhatItCannotEnforceItRejects) {
  auto spec = spec_of(Durability::ephemeral);
  spec.isolation = Isolation::none;
  const auto session = create(spec.clone());
  EXPECT_EQ(out_of(session, "hostname"), session->id().substr(0, 12) + "\n") << "stronger than asked";
  spec.isolation = Isolation::vm;
  EXPECT_THAT(refusal(spec.clone()), StartsWith("not_enforceable : provider cannot enforce: isolation 'vm'"));
  spec.isolation = Isolation::container;
  for (const Network network : {Network::internal, Network::egress}) {
    spec.network = network;
    EXPECT_THAT(refusal(spec.clone()), StartsWith("not_enforceable : provider cannot enforce: network '" +
                                                  std::string(to_string(network))));
  }
  spec.network = Network::none;
  spec.image = "debian:12";
  EXPECT_THAT(refusal(spec.clone()),
              StartsWith("not_enforceable : provider cannot enforce: image \"debian:12\""));
}

TEST_F(ContainerSandboxTest, S27_AFailedCreateLeavesNothing) {
  auto spec = spec_of(Durability::ephemeral);
  spec.image = "/no/such/image";
  EXPECT_THAT(refusal(spec.clone()), StartsWith("invalid_argument image"));
  EXPECT_THAT(names_in("root/ids"), IsEmpty());
  spec.durability = Durability::persistent;
  EXPECT_THAT(refusal(spec.clone()), StartsWith("invalid_argument image"));
  EXPECT_FALSE(fs::exists(temporary_ / "root/volumes/key"));
  EXPECT_THAT(get(sandbox().list_sessions()), IsEmpty());
  create();
  EXPECT_THAT(names_in("root/ids"), testing::SizeIs(1)) << "the control";
}

TEST_F(ContainerSandboxTest, S46_ATimeoutEndsTheWholeTreeAndNothingElse) {
  const auto session = create();
  const auto other = get(session->exec_start(Argv{"sleep", "2000"}, ExecOptions(100s)));
  EXPECT_THAT(
      failure_of([&] {
        exec(session,
             "(setsid sleep 1000 & setsid sh -c 'trap \"\" TERM; sleep 1000' &); trap '' TERM; kill -STOP $$",
             0.3s);
      }),
      StartsWith("timeout "));
  EXPECT_EQ(out_of(session, "pgrep -f '^sleep 1000'; pgrep -fc '^sleep 2000'"), "1\n");
}

TEST_F(ContainerSandboxTest, S26_ADestroyEndsWhatRunsAndLeavesNothing) {
  auto session = create();
  auto running =
      asio::co_spawn(context_, session->exec(Argv{"sleep", "1000"}, ExecOptions(100s)), asio::use_future);
  exec(session, "setsid sleep 1000 >/dev/null 2>&1 &");
  get(session->destroy());
  EXPECT_THAT(failure_of([&] { running.get(); }), StartsWith("session_destroyed "));
  EXPECT_THAT(failure_of([&] { exec(session, "true"); }), StartsWith("session_destroyed "));
  EXPECT_THAT(names_in("root/ids"), IsEmpty());
  get(session->destroy());
  // A session's end gives its ids to the next.
  const std::string map = out_of(create(), "tr -s ' ' < /proc/self/uid_map");
  EXPECT_EQ(map, " 0 524288 65536\n");
}

TEST_F(ContainerSandboxTest, S103_LiveSessionsHaveDisjointIds) {
  const auto one = create();
  const auto two = create();
  EXPECT_EQ(out_of(one, "tr -s ' ' < /proc/self/uid_map"), " 0 524288 65536\n");
  EXPECT_EQ(out_of(two, "tr -s ' ' < /proc/self/uid_map"), " 0 589824 65536\n");
}

TEST_F(ContainerSandboxTest, S25_APersistentWorkspaceKeepsItsFilesAndIds) {
  auto session = create(spec_of(Durability::persistent));
  const std::string ids = out_of(session, "echo kept > file; cat /proc/self/uid_map");
  const auto ephemeral = create();
  EXPECT_NE(out_of(ephemeral, "cat /proc/self/uid_map"), ids);
  const auto other = create(spec_of(Durability::persistent));
  EXPECT_EQ(out_of(other, "cat file; cat /proc/self/uid_map"), "kept\n" + ids);
  get(session->release());
  get(other->release());
  session = create(spec_of(Durability::persistent));
  EXPECT_EQ(out_of(session, "cat file; cat /proc/self/uid_map"), "kept\n" + ids);
  get(session->destroy());
  EXPECT_FALSE(fs::exists(temporary_ / "root/volumes/key"));
  EXPECT_THAT(out_of(create(spec_of(Durability::persistent)), "cat file"), HasSubstr("No such file"));
}

TEST_F(ContainerSandboxTest, S48_OutOfMemoryIsSaid) {
  auto spec = spec_of(Durability::ephemeral);
  spec.memory_mb = 64;
  std::shared_ptr<SandboxSession> session;
  const std::string failure = failure_of([&] { session = create(std::move(spec)); });
  if (!session) {
    EXPECT_THAT(failure, StartsWith("not_enforceable : provider cannot enforce: memory_mb"));
    GTEST_SKIP() << failure;
  }
  Argv argv{"python3", "-c", "x = bytearray(200 << 20)"};
  const ExecResult result = get(session->exec(argv, ExecOptions(60s)));
  EXPECT_EQ(result.ended.how, ExecEnd::out_of_memory);
  EXPECT_THAT(result.ended.limits_hit, testing::ElementsAre(SandboxLimit::memory));
}

TEST_F(ContainerSandboxTest, S26_AProviderThatGoesEndsItsBoxesWithoutTheLoop) {
  const auto session = create();
  auto running =
      asio::co_spawn(context_, session->exec(Argv{"sleep", "1000"}, ExecOptions(100s)), asio::use_future);
  EXPECT_TRUE(test::eventually([&] { return out_of(session, "pgrep -c sleep") == "1\n"; }));
  context_.stop();
  thread_.join();
  sandbox_.reset();
  EXPECT_THAT(names_in("root/ids"), IsEmpty());
  context_.restart();
  thread_ = std::thread([this] { context_.run(); });
  EXPECT_THAT(failure_of([&] { running.get(); }), StartsWith("session_destroyed "));
}

TEST_F(ContainerSandboxTest, ManySessionsAtOnce) {
  std::vector<std::future<std::shared_ptr<SandboxSession>>> starting;
  for (int i = 0; i < 20; ++i) {
    starting.push_back(
        asio::co_spawn(context_, sandbox().create_session(spec_of(Durability::ephemeral)), asio::use_future));
  }
  std::vector<std::shared_ptr<SandboxSession>> sessions;
  for (auto& each : starting) sessions.push_back(each.get());
  std::vector<std::future<ExecResult>> running;
  for (const auto& session : sessions) {
    for (int i = 0; i < 5; ++i) {
      running.push_back(asio::co_spawn(context_,
                                       session->exec(Argv{"sh", "-c", "echo $((20 + 22))"}, ExecOptions(60s)),
                                       asio::use_future));
    }
  }
  for (auto& each : running) EXPECT_EQ(each.get().out, "42\n");
}

}  // namespace
}  // namespace caisson::container
