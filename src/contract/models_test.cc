// The models' words, ranks, defaults and copies on purpose.
#include "caisson/contract/models.h"

#include <gtest/gtest.h>

#include <type_traits>
#include <utility>

#include "caisson/contract/policy.h"
#include "caisson/contract/sandbox.h"

namespace caisson {
namespace {

using std::chrono_literals::operator""s;

static_assert(!std::is_copy_constructible_v<SandboxSessionSpec> &&
              !std::is_copy_assignable_v<SandboxSessionSpec>);
static_assert(std::is_nothrow_move_constructible_v<SandboxSessionSpec>);
static_assert(!std::is_copy_constructible_v<ExecOptions>);

TEST(Models, WordsAreTheContracts_S3) {
  EXPECT_EQ(to_string(Durability::ephemeral), "ephemeral");
  EXPECT_EQ(to_string(Durability::persistent), "persistent");
  EXPECT_EQ(to_string(Durability::unset), "unset");
  EXPECT_EQ(to_string(Network::internal), "internal");
  EXPECT_EQ(to_string(Isolation::vm), "vm");
  EXPECT_EQ(to_string(ExecEnd::out_of_memory), "out_of_memory");
  EXPECT_EQ(to_string(SandboxLimit::pids), "pids");
  EXPECT_EQ(to_string(SandboxStream::out), "stdout");
  EXPECT_EQ(to_string(SandboxStream::err), "stderr");
}

TEST(Models, EnumerationsAreClosed_S3) {
  EXPECT_EQ(parse_durability("ephemeral"), Durability::ephemeral);
  EXPECT_EQ(parse_durability("persistent"), Durability::persistent);
  EXPECT_EQ(parse_network("none"), Network::none);
  EXPECT_EQ(parse_network("internal"), Network::internal);
  EXPECT_EQ(parse_network("egress"), Network::egress);
  EXPECT_EQ(parse_isolation("none"), Isolation::none);
  EXPECT_EQ(parse_isolation("container"), Isolation::container);
  EXPECT_EQ(parse_isolation("vm"), Isolation::vm);
  for (const char* word : {"", "unset", "Ephemeral", "ephemeral ", "persistent\n", "host"}) {
    EXPECT_FALSE(parse_durability(word)) << word;
    EXPECT_FALSE(parse_network(word)) << word;
    EXPECT_FALSE(parse_isolation(word)) << word;
  }
}

TEST(Models, RanksOrderTheTiers_S3) {
  EXPECT_LT(network_openness(Network::none), network_openness(Network::internal));
  EXPECT_LT(network_openness(Network::internal), network_openness(Network::egress));
  EXPECT_LT(isolation_strength(Isolation::none), isolation_strength(Isolation::container));
  EXPECT_LT(isolation_strength(Isolation::container), isolation_strength(Isolation::vm));
  EXPECT_EQ(network_openness(Network::none), 0);
  EXPECT_EQ(isolation_strength(Isolation::vm), 2);
}

TEST(Models, SpecDefaults_S1) {
  const SandboxSessionSpec spec;
  EXPECT_EQ(spec.durability, Durability::unset);
  EXPECT_TRUE(spec.env.empty());
  EXPECT_EQ(spec.network, Network::none);
  EXPECT_FALSE(spec.isolation);
  EXPECT_FALSE(spec.cpu);
  EXPECT_FALSE(spec.memory_mb);
  EXPECT_TRUE(spec.labels.empty());
}

TEST(Models, SpecCloneCopiesEverything) {
  const SandboxSessionSpec spec{.image = "host",
                                .workspace_key = "key",
                                .durability = Durability::persistent,
                                .env = {{"TOKEN", "canary"}},
                                .network = Network::egress,
                                .isolation = Isolation::container,
                                .cpu = 1.5,
                                .memory_mb = 64,
                                .ttl_seconds = 60,
                                .labels = {{"team", "a"}}};
  const SandboxSessionSpec copy = spec.clone();
  EXPECT_EQ(copy.image, "host");
  EXPECT_EQ(copy.workspace_key, "key");
  EXPECT_EQ(copy.durability, Durability::persistent);
  EXPECT_EQ(copy.env.at("TOKEN").reveal(), "canary");
  EXPECT_EQ(copy.network, Network::egress);
  EXPECT_EQ(copy.isolation, Isolation::container);
  EXPECT_EQ(copy.cpu, 1.5);
  EXPECT_EQ(copy.memory_mb, 64);
  EXPECT_EQ(copy.ttl_seconds, 60);
  EXPECT_EQ(copy.labels, spec.labels);
}

TEST(Models, ArgvKeepsItsWords) {
  const Argv braced{"sh", "-c", ""};
  EXPECT_EQ(braced.words(), (std::vector<std::string>{"sh", "-c", ""}));
  const Argv listed(std::vector<std::string>{"a", "b"});
  EXPECT_EQ(listed.words().size(), 2U);
}

TEST(Models, ExecOptionsChainAndClone) {
  const ExecOptions options = ExecOptions(5s)
                                  .cwd("src")
                                  .env({{"A", "one"}, {"B", "two"}})
                                  .env("B", "three")
                                  .input("in")
                                  .output_cap(10)
                                  .allow_truncation(true)
                                  .tty({.columns = 100, .rows = 30});
  const ExecOptions copy = options.clone();
  for (const ExecOptions* each : {&options, &copy}) {
    EXPECT_EQ(each->timeout(), 5s);
    EXPECT_EQ(each->cwd(), "src");
    EXPECT_EQ(each->env().size(), 2U);
    EXPECT_EQ(each->env().at("A").reveal(), "one");
    EXPECT_EQ(each->env().at("B").reveal(), "three");
    EXPECT_EQ(each->input(), "in");
    EXPECT_EQ(each->output_cap(), 10U);
    EXPECT_TRUE(each->allow_truncation());
    EXPECT_EQ(each->tty(), (TtySize{.columns = 100, .rows = 30}));
  }
}

TEST(Models, ExecOptionsDefaults_S43_S50) {
  ExecOptions options(1s);
  EXPECT_EQ(options.cwd(), "");
  EXPECT_TRUE(options.env().empty());
  EXPECT_FALSE(options.input());
  EXPECT_EQ(options.output_cap(), 64ULL << 20);
  EXPECT_FALSE(options.allow_truncation());
  EXPECT_FALSE(options.tty());
  options.env({{"A", "one"}}).env(SecretEnv{});
  EXPECT_TRUE(options.env().empty());
}

TEST(Models, ACancelledWriteTellsHowMuchWent_S62) {
  const SandboxWriteCancelled error(42);
  EXPECT_EQ(error.written(), 42U);
  EXPECT_EQ(error.code(), boost::asio::error::operation_aborted);
}

}  // namespace
}  // namespace caisson
