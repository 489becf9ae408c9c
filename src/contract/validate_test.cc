// The contract's own checks: S-2 to S-6 of a spec, S-6, S-22, S-40 and S-46 of a call.
#include "caisson/contract/validate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "caisson/contract/errors.h"

namespace caisson {
namespace {

constexpr const char* canary = "canary-5b1e77";
constexpr double most_seconds = 86400;

SandboxSessionSpec good_spec() {
  return {.image = "host", .workspace_key = "demo", .durability = Durability::ephemeral, .ttl_seconds = 300};
}

/// The error's message, after checking its class, code and field; empty when there was none.
std::string rejection(const SandboxSessionSpec& spec, const std::string& field) {
  try {
    validate(spec);
  } catch (const SandboxSpecRejectedError& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_EQ(error.field(), field);
    EXPECT_EQ(std::string(error.what()).find(canary), std::string::npos) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "accepted, though " << field << " is bad";
  return "";
}

std::string rejection(const std::function<void(SandboxSessionSpec&)>& spoil, const std::string& field) {
  SandboxSessionSpec spec = good_spec();
  validate(spec);
  spoil(spec);
  return rejection(spec, field);
}

void expect_accepted(const std::function<void(SandboxSessionSpec&)>& change) {
  SandboxSessionSpec spec = good_spec();
  change(spec);
  EXPECT_NO_THROW(validate(spec));
}

TEST(ValidateSpec, WorkspaceKey_S2) {
  const std::string all = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
  for (const std::string& key : {std::string("a"), std::string("-"), std::string("_"), all}) {
    expect_accepted([&](auto& spec) { spec.workspace_key = key; });
    EXPECT_TRUE(is_workspace_key(key));
  }
  for (const std::string& key :
       {std::string(), all + "x", std::string("a\n"), std::string("a\0", 2), std::string("a b"),
        std::string("a/b"), std::string(".."), std::string("d\xc3\xa9j\xc3\xa0"), std::string("a@"),
        std::string("a["), std::string("a`"), std::string("a{"), std::string("\xff")}) {
    rejection([&](auto& spec) { spec.workspace_key = key; }, "workspace_key");
    EXPECT_FALSE(is_workspace_key(key));
  }
  EXPECT_EQ(rejection([](auto& spec) { spec.workspace_key = "a\n"; }, "workspace_key"),
            R"(workspace_key must be 1 to 64 of the characters A-Z a-z 0-9 _ -, not "a\n")");
}

TEST(ValidateSpec, EnumerationsAreClosed_S3) {
  EXPECT_EQ(rejection([](auto& spec) { spec.durability = Durability::unset; }, "durability"),
            R"(durability must be "ephemeral" or "persistent")");
  rejection([](auto& spec) { spec.durability = static_cast<Durability>(7); }, "durability");
  EXPECT_EQ(rejection([](auto& spec) { spec.network = static_cast<Network>(3); }, "network"),
            R"(network must be "none", "internal" or "egress")");
  rejection([](auto& spec) { spec.isolation = static_cast<Isolation>(-1); }, "isolation");
  expect_accepted([](auto& spec) { spec.isolation = Isolation::vm; });
}

TEST(ValidateSpec, Ttl_S4) {
  for (const std::int64_t ttl : {std::int64_t{1}, max_ttl_seconds}) {
    expect_accepted([&](auto& spec) { spec.ttl_seconds = ttl; });
  }
  for (const std::int64_t ttl :
       {std::int64_t{0}, std::int64_t{-1}, max_ttl_seconds + 1, std::numeric_limits<std::int64_t>::max(),
        std::numeric_limits<std::int64_t>::min()}) {
    rejection([&](auto& spec) { spec.ttl_seconds = ttl; }, "ttl_seconds");
  }
  EXPECT_EQ(rejection([](auto& spec) { spec.ttl_seconds = 0; }, "ttl_seconds"),
            "ttl_seconds must be a number of seconds from 1 to 315360000 (ten years), not 0");
}

TEST(ValidateSpec, Cpu_S5) {
  for (const double cpu : {0.001, 1.0, 64.5}) expect_accepted([&](auto& spec) { spec.cpu = cpu; });
  for (const double cpu : {0.0, -0.0, -1.0, std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    rejection([&](auto& spec) { spec.cpu = cpu; }, "cpu");
  }
  EXPECT_EQ(rejection([](auto& spec) { spec.cpu = std::nan(""); }, "cpu"),
            "cpu must be a finite number of cores above 0, not nan: leave it unset for no cap");
}

TEST(ValidateSpec, Memory_S5) {
  for (const std::int64_t memory : {std::int64_t{1}, max_memory_mb}) {
    expect_accepted([&](auto& spec) { spec.memory_mb = memory; });
  }
  for (const std::int64_t memory :
       {std::int64_t{0}, std::int64_t{-5}, max_memory_mb + 1, std::numeric_limits<std::int64_t>::max()}) {
    rejection([&](auto& spec) { spec.memory_mb = memory; }, "memory_mb");
  }
  EXPECT_EQ(rejection([](auto& spec) { spec.memory_mb = 0; }, "memory_mb"),
            "memory_mb must be a number of MiB from 1 to 8796093022207, not 0: leave it unset for no cap");
}

TEST(ValidateSpec, Image_S5) {
  rejection([](auto& spec) { spec.image = ""; }, "image");
  rejection([](auto& spec) { spec.image = "\xff"; }, "image");
  expect_accepted([](auto& spec) { spec.image = "docker.io/library/python:3.12"; });
}

TEST(ValidateSpec, EnvNames_S6) {
  rejection([](auto& spec) { spec.env[""] = canary; }, "env");
  rejection([](auto& spec) { spec.env[std::string("A\0B", 3)] = canary; }, "env.A");
  // Somebody's "NAME=value" as a name: the value must not come back in the message.
  EXPECT_EQ(rejection([](auto& spec) { spec.env[std::string("TOKEN=") + canary] = ""; }, "env.TOKEN"),
            R"(env has a variable whose name, beginning "TOKEN", contains "=": give name and value apart)");
  rejection([](auto& spec) { spec.env[std::string("=") + canary] = ""; }, "env.");
  expect_accepted([](auto& spec) { spec.env["odd name\n\xff."] = canary; });
}

TEST(ValidateSpec, EnvValues_S6) {
  expect_accepted([](auto& spec) { spec.env["TOKEN"] = "\xff\n=\x01"; });
  expect_accepted([](auto& spec) { spec.env["EMPTY"] = ""; });
  const std::string value = std::string(canary) + '\0' + canary;
  EXPECT_EQ(rejection([&](auto& spec) { spec.env["TOKEN"] = value; }, "env.TOKEN"),
            "env.TOKEN contains a NUL byte, which no environment can hold: encode it, or put it in a file");
}

TEST(ValidateSpec, LabelsAreText_S7) {
  expect_accepted([](auto& spec) { spec.labels = {{"", ""}, {"d\xc3\xa9j\xc3\xa0", "\xf0\x9f\x98\x80\n"}}; });
  rejection([](auto& spec) { spec.labels["team"] = "\xff"; }, "labels.team");
  rejection([](auto& spec) { spec.labels["\xff"] = "a"; }, "labels");
}

TEST(ValidateSpec, MessagesStayShort) {
  const std::string message =
      rejection([](auto& spec) { spec.workspace_key = std::string(1 << 20, 'x'); }, "workspace_key");
  EXPECT_LT(message.size(), 300U);
}

std::string refusal(const Argv& argv, const ExecOptions& options, const std::string& field) {
  try {
    validate(argv, options, most_seconds);
  } catch (const SandboxSpecRejectedError&) {
    ADD_FAILURE() << "a call is no spec";
  } catch (const SandboxError& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_EQ(error.field(), field);
    EXPECT_EQ(std::string(error.what()).find(canary), std::string::npos) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "accepted, though " << field << " is bad";
  return "";
}

ExecOptions seconds(double timeout) { return ExecOptions(std::chrono::duration<double>(timeout)); }

TEST(ValidateCall, GoodCallsPass_S40_S46) {
  EXPECT_NO_THROW(validate(Argv{"true"}, seconds(1), most_seconds));
  EXPECT_NO_THROW(validate(Argv{"printf", "", "\xff\n", "-"}, seconds(0.001), most_seconds));
  EXPECT_NO_THROW(validate(Argv{"true"}, seconds(most_seconds), most_seconds));
  EXPECT_NO_THROW(validate(Argv{"true"}, seconds(1).cwd("/tmp/\xff").env("A", canary), most_seconds));
}

TEST(ValidateCall, Argv_S40) {
  EXPECT_EQ(refusal(Argv(std::vector<std::string>{}), seconds(1), "argv"),
            "argv is empty: it needs at least the program to run");
  refusal(Argv{"", "a"}, seconds(1), "argv[0]");
  refusal(Argv{std::string_view("a\0", 2)}, seconds(1), "argv[0]");
  EXPECT_EQ(refusal(Argv{"sh", "-c", std::string_view("\0", 1)}, seconds(1), "argv[2]"),
            "argv[2] contains a NUL byte, which no argument can hold: pass such data on stdin or in a file");
}

TEST(ValidateCall, Timeout_S46) {
  for (const double timeout : {0.0, -0.0, -1.0, std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    refusal(Argv{"true"}, seconds(timeout), "timeout_seconds");
  }
  EXPECT_EQ(refusal(Argv{"true"}, seconds(0), "timeout_seconds"),
            "timeout_seconds must be a finite number of seconds above 0, not 0");
}

TEST(ValidateCall, TimeoutOverTheMaximumIsRejectedNotClamped_S22) {
  EXPECT_EQ(refusal(Argv{"true"}, seconds(86400.5), "timeout_seconds"),
            "timeout_seconds is 86400.5, more than the 86400 that this sandbox allows: give less, or have "
            "the operator "
            "raise MAX_TIMEOUT_SECONDS");
  refusal(Argv{"true"}, seconds(std::numeric_limits<double>::max()), "timeout_seconds");
}

TEST(ValidateCall, Env_S6) {
  refusal(Argv{"true"}, seconds(1).env("", canary), "env");
  refusal(Argv{"true"}, seconds(1).env(std::string("TOKEN=") + canary, ""), "env.TOKEN");
  refusal(Argv{"true"}, seconds(1).env("TOKEN", std::string_view("canary-5b1e77\0", 14)), "env.TOKEN");
}

TEST(ValidateCall, Cwd_S42) { refusal(Argv{"true"}, seconds(1).cwd(std::string("a\0b", 3)), "cwd"); }

}  // namespace
}  // namespace caisson
