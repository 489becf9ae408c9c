// caisson run: what it prints and what it exits with.
#include <gmock/gmock.h>

#include "tests/e2e/program.h"
#include "tests/support/eventually.h"
#include "tests/support/sanitizers.h"

namespace caisson::test {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class RunTest : public CaissonTest {};

TEST_F(RunTest, PassesOutputAndExitCodeOn) {
  const Ended ended = run({}, {"sh", "-c", "echo out; echo err >&2; exit 3"});
  EXPECT_EQ(ended.code, 3) << ended;
  EXPECT_EQ(ended.out, "out\n");
  EXPECT_EQ(ended.err, "err\n");
}

TEST_F(RunTest, JsonIsTheOneObject) {
  const Ended ended = run({"--json"}, {"sh", "-c", "echo out; echo err >&2; exit 3"});
  EXPECT_EQ(ended.code, 3) << ended;
  EXPECT_EQ(ended.out,
            R"({"exit_code":3,"stdout":"out\n","stderr":"err\n","ended":"exited","signal":null,"core":false,)"
            R"("lost_cause":null,"limits_hit":[],"stdout_bytes":4,"stderr_bytes":4,"truncated":false})"
            "\n");
  EXPECT_THAT(ended.err, IsEmpty());
}

// S-48: a signal is told apart from an exit code that looks like one.
TEST_F(RunTest, S48_SignalIsToldFromAnExitCode) {
  const Ended killed = run({"--json"}, {"sh", "-c", "kill -9 $$"});
  EXPECT_EQ(killed.code, 137);
  const auto signaled = killed.json();
  EXPECT_EQ(signaled.at("ended"), "signaled");
  EXPECT_EQ(signaled.at("signal"), 9);
  EXPECT_EQ(signaled.at("exit_code"), 137);
  const Ended exited = run({"--json"}, {"sh", "-c", "exit 137"});
  EXPECT_EQ(exited.code, 137);
  EXPECT_EQ(exited.json().at("ended"), "exited");
  EXPECT_TRUE(exited.json().at("signal").is_null());
}

TEST_F(RunTest, S49_BytesThatAreNotTextAreKept) {
  const auto json = run({"--json"}, {"printf", "\\377ok"}).json();
  EXPECT_EQ(json.at("stdout"), "\xEF\xBF\xBDok");
  EXPECT_EQ(json.at("stdout_base64"), "/29r");
  EXPECT_FALSE(json.contains("stderr_base64"));
}

// S-45, S-94: a descendant left behind holds nothing up and dies with the session.
TEST_F(RunTest, S45_LeftoverHoldsNothingUpAndDiesWithTheSession) {
  const std::string time = long_time();
  const Ended ended = run({"--timeout", "60"}, {"sh", "-c", "setsid sleep " + time + " & echo x"});
  EXPECT_EQ(ended.code, 0) << ended;
  EXPECT_EQ(ended.out, "x\n");
  EXPECT_FALSE(runs(time));
}

TEST_F(RunTest, S94_LeftoverIsSeenWhileTheSessionLives) {
  const std::string time = long_time();
  Program program = start({"-i"}, {"sh", "-c", "setsid sleep " + time + " & echo x; read line"});
  EXPECT_EQ(program.read_line(), "x");
  EXPECT_TRUE(eventually([&] { return runs(time); }));
  program.close_in();
  EXPECT_NE(program.wait().code, -1);
  EXPECT_FALSE(runs(time));
}

TEST_F(RunTest, S40_MissingCommandIs127) {
  const Ended ended = run({"--json"}, {"no-such-command-here"});
  EXPECT_EQ(ended.code, 127);
  EXPECT_EQ(ended.json().at("code"), "command_not_found");
  EXPECT_THAT(ended.err, HasSubstr("no-such-command-here"));
}

TEST_F(RunTest, S40_WhatCannotBeExecutedIs126) {
  write_file("plain", "#!/bin/sh\necho ran\n");
  const Ended plain = run({"--json", "--put", "plain"}, {"./plain"});
  EXPECT_EQ(plain.code, 126) << plain;
  EXPECT_EQ(plain.json().at("code"), "not_executable");
  write_file("garbage",
             std::string("\x7f"
                         "ELF\0\0\0",
                         7),
             0755);
  const Ended garbage = run({"--json", "--put", "garbage"}, {"./garbage"});
  EXPECT_EQ(garbage.code, 126) << garbage;
  EXPECT_EQ(garbage.json().at("code"), "bad_format");
  write_file("program", "#!/bin/sh\necho ran\n", 0755);
  EXPECT_EQ(run({"--put", "program"}, {"./program"}).out, "ran\n");
}

TEST_F(RunTest, S42_MissingCwdIs125) {
  const Ended ended = run({"--json", "--cwd", "none"}, {"true"});
  EXPECT_EQ(ended.code, 125);
  EXPECT_EQ(ended.json().at("code"), "cwd_missing");
  EXPECT_EQ(run({"--cwd", "/"}, {"pwd"}).out, "/\n");
}

TEST_F(RunTest, S46_TimeoutIs124AndKillsTheTree) {
  const std::string time = long_time();
  const Ended ended = run({"--json", "--timeout", "0.5"},
                          {"sh", "-c", "echo early; setsid sleep " + time + " & sleep " + time});
  EXPECT_EQ(ended.code, 124) << ended;
  EXPECT_EQ(ended.json().at("code"), "timeout");
  EXPECT_THAT(ended.err, HasSubstr("0.5"));
  EXPECT_FALSE(runs(time));
  const Ended live = run({"--timeout", "0.5"}, {"sh", "-c", "echo early; sleep " + time});
  EXPECT_EQ(live.code, 124);
  EXPECT_EQ(live.out, "early\n") << "what was written before the timeout is passed on";
}

// S-43: standard input is empty unless it is passed on; what is left unread is said.
TEST_F(RunTest, S43_InputIsEmptyWithoutInteractive) {
  const Ended ended = run_with_input({}, {"sh", "-c", "cat; echo end"}, "unread");
  EXPECT_EQ(ended.code, 0);
  EXPECT_EQ(ended.out, "end\n");
  EXPECT_THAT(ended.err, HasSubstr("-i"));
  EXPECT_THAT(run({}, {"cat"}).err, IsEmpty()) << "an input that nobody feeds needs no hint";
}

TEST_F(RunTest, S43_BigInputIsPassedOnWhole) {
  std::string input;
  for (int i = 0; input.size() < (8U << 20); ++i) input += std::to_string(i) + "\n";
  const Ended ended = run_with_input({"-i"}, {"cat"}, input);
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_TRUE(ended.out == input);
  EXPECT_THAT(ended.err, IsEmpty());
  const Ended captured = run_with_input({"-i", "--json"}, {"wc", "-c"}, input);
  EXPECT_EQ(captured.json().at("stdout").as_string().c_str(), std::to_string(input.size()) + "\n");
}

TEST_F(RunTest, S43_CommandThatLeavesItsInputUnreadIsNoError) {
  const Ended ended = run_with_input({"-i"}, {"sh", "-c", "exec <&-; echo done"}, "some\n");
  EXPECT_EQ(ended.code, 0) << ended;
  EXPECT_EQ(ended.out, "done\n");
}

// S-41: the environment is PATH and what is given; --env NAME takes the caller's own value.
TEST_F(RunTest, S41_EnvironmentIsWhatIsGiven) {
  env_["CANARY"] = "from here";
  env_["HOME"] = "/root";
  write_file("env", "FILE=x y\nOVER=file\n");
  const Ended ended = run({"--env", "CANARY", "--env", "SET=1", "--env-file", "env", "--env", "OVER=flag"},
                          {"sh", "-c", "env | sort | grep -v -e ^_= -e ^PWD= -e ^SHLVL= -e ^OLDPWD="});
  EXPECT_EQ(ended.out, "CANARY=from here\nFILE=x y\nOVER=flag\nPATH=/usr/local/bin:/usr/bin:/bin\nSET=1\n");
}

// S-6: no message repeats a value, whatever is wrong with it.
TEST_F(RunTest, S6_MessagesHoldNoEnvironmentValue) {
  write_file("env", "canary-value\n");
  for (const Words& options : std::vector<Words>{{"--env-file", "env"},
                                                 {"--env", "A=", "canary-value"},
                                                 {"--env", "A=canary-value", "--nothing"},
                                                 {"--env", "A=canary-value", "--cwd", "none"}}) {
    const Ended ended = run(options, {"true"});
    EXPECT_NE(ended.code, 0);
    EXPECT_FALSE(ended.err.empty());
    EXPECT_THAT(ended.err, Not(HasSubstr("canary-value"))) << testing::PrintToString(options);
  }
}

TEST_F(RunTest, BracketsInWordsAreJustBrackets) {
  const Ended ended =
      run({"--env", "LIST=[a,b]"}, {"sh", "-c", "echo \"$LIST\" \"$@\"", "sh", "[c,d]", "--", "-x"});
  EXPECT_EQ(ended.out, "[a,b] [c,d] -- -x\n");
}

// S-12, S-16: no tier is given for another, and the message says what to do.
TEST_F(RunTest, S16_ATierThatIsNotBuiltInIsRefused) {
  const Ended ended = caisson({"run", "--json", "--isolation", "vm", "--", "true"});
  EXPECT_EQ(ended.code, 125) << ended;
  EXPECT_EQ(ended.json().at("code"), "unavailable");
  EXPECT_THAT(ended.err, HasSubstr("--isolation container"));
}

TEST_F(RunTest, S12_PolicyRefusesTierNoneUnlessTheOperatorPermitsIt) {
  env_.erase("TAI_MCP_SANDBOX_ISOLATION");
  const Ended refused = run({"--json"}, {"true"});
  EXPECT_EQ(refused.code, 125) << refused;
  EXPECT_EQ(refused.json().at("code"), "policy_refused");
  EXPECT_THAT(refused.err, HasSubstr("TAI_MCP_SANDBOX_ISOLATION=none"));
  env_["TAI_MCP_SANDBOX_ISOLATION"] = "none";
  EXPECT_EQ(run({}, {"true"}).code, 0);
}

TEST_F(RunTest, S15_WhatTheProviderCannotEnforceIsRefused) {
  const Ended network = caisson({"run", "--json", "--isolation", "none", "--", "true"});
  EXPECT_EQ(network.code, 125);
  EXPECT_EQ(network.json().at("code"), "not_enforceable");
  EXPECT_EQ(run({"--json", "--cpu", "1"}, {"true"}).json().at("code"), "not_enforceable");
  EXPECT_EQ(run({"--json", "--memory", "64"}, {"true"}).json().at("code"), "not_enforceable");
}

TEST_F(RunTest, BadSettingIs125AndNamed) {
  env_["TAI_MCP_SANDBOX_EGRESS"] = "wide";
  const Ended ended = run({"--json"}, {"true"});
  EXPECT_EQ(ended.code, 125);
  EXPECT_EQ(ended.json().at("code"), "bad_setting");
  EXPECT_THAT(ended.err, HasSubstr("TAI_MCP_SANDBOX_EGRESS"));
}

TEST_F(RunTest, S31_DefaultTimeoutIsTheProviders) {
  env_["SANDBOX_LOCAL_EXEC_DEFAULT_TIMEOUT_SECONDS"] = "0.5";
  EXPECT_EQ(run({}, {"sleep", long_time()}).code, 124);
}

TEST_F(RunTest, PersistentWorkspaceIsFoundAgainAnEphemeralOneIsNot) {
  EXPECT_EQ(run({"--workspace", "kept", "--persistent"}, {"sh", "-c", "echo 1 > file"}).code, 0);
  EXPECT_EQ(run({"--workspace", "kept", "--persistent"}, {"cat", "file"}).out, "1\n");
  EXPECT_EQ(run({"--workspace", "gone"}, {"sh", "-c", "echo 1 > file"}).code, 0);
  EXPECT_NE(run({"--workspace", "gone"}, {"cat", "file"}).code, 0);
}

TEST_F(RunTest, WrongUsageIs2) {
  const std::vector<Words> wrong = {{"run", "--isolation", "none"},
                                    {"run", "--isolation", "none", "--"},
                                    {"run", "--isolation", "strong", "--", "true"},
                                    {"run", "--timeout", "0", "--", "true"},
                                    {"run", "--nothing", "--", "true"},
                                    {"run", "stray", "--", "true"},
                                    {"run", "--persistent", "--", "true"},
                                    {"run", "--env", "NOT_SET_HERE", "--", "true"},
                                    {"run", "--isolation", "none", "--label", "x", "--", "true"},
                                    {"run", "--isolation", "none", "--put", ":", "--", "true"},
                                    {"version", "--", "true"},
                                    {"walk"},
                                    {}};
  for (const Words& words : wrong) {
    const Ended ended = caisson(words);
    EXPECT_EQ(ended.code, 2) << testing::PrintToString(words) << ": " << ended;
    EXPECT_THAT(ended.out, IsEmpty());
    EXPECT_THAT(ended.err, EndsWith("--help\n"));
  }
  const Ended json = caisson({"run", "--json", "--nothing", "--", "true"});
  EXPECT_EQ(json.code, 2);
  EXPECT_EQ(json.json().at("code"), "invalid_argument");
  EXPECT_EQ(caisson({"run", "--json", "-t", "--", "true"}).code, 2);
}

TEST_F(RunTest, JsonWithAValueIsTheSameOption) {
  const Ended ended = caisson({"run", "--json=true", "--nothing", "--", "true"});
  EXPECT_EQ(ended.json().at("code"), "invalid_argument") << ended;
  EXPECT_EQ(run({"--json=true"}, {"no-such-command-here"}).json().at("code"), "command_not_found");
  EXPECT_THAT(run({"--json=false"}, {"no-such-command-here"}).out, IsEmpty());
}

#ifndef CAISSON_UBSAN
TEST_F(RunTest, FailureOfAnyKindIsOneJsonObject) {
  const Words words = run_words({"--json"}, {"true"});
  // One descriptor is enough for the loader, and too few for an event loop.
  Words argv{"bash", "-c", "ulimit -n 4; exec \"$@\"", "bash"};
  argv.insert(argv.end(), words.begin(), words.end());
  const Ended ended = start_program(argv).wait();
  EXPECT_EQ(ended.code, 125) << ended;
  EXPECT_EQ(ended.json().at("code"), "internal") << ended;
}
#endif

// S-2, S-4: what the options cannot judge the contract does, and names the field.
TEST_F(RunTest, S2_SpecThatBreaksTheContractIsRefused) {
  const Ended key = run({"--json", "--workspace", "a b"}, {"true"});
  EXPECT_EQ(key.code, 125);
  EXPECT_EQ(key.json().at("field"), "workspace_key");
  const Ended ttl = run({"--json", "--ttl", "999999999999"}, {"true"});
  EXPECT_EQ(ttl.json().at("field"), "ttl_seconds");
}

}  // namespace
}  // namespace caisson::test
