// The other verbs: doctor, reap, conformance, version, and what the build installs.
#include <gmock/gmock.h>
#include <signal.h>

#include <filesystem>
#include <sstream>

#include "caisson/version.h"
#include "tests/e2e/program.h"
#include "tests/support/eventually.h"

namespace caisson::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

class VerbsTest : public CaissonTest {};

TEST_F(VerbsTest, VersionIsTheHeaders) {
  EXPECT_EQ(caisson({"version"}).out, "caisson " CAISSON_VERSION_STRING "\n");
  EXPECT_EQ(caisson({"--version"}).out, "caisson " CAISSON_VERSION_STRING "\n");
  EXPECT_EQ(caisson({"version", "--json"}).out, "{\"version\":\"" CAISSON_VERSION_STRING "\"}\n");
}

TEST_F(VerbsTest, HelpIsOnStandardOutput) {
  const Ended all = caisson({"--help"});
  EXPECT_EQ(all.code, 0);
  EXPECT_THAT(all.out, HasSubstr("doctor"));
  const Ended run_help = caisson({"run", "--help"});
  EXPECT_EQ(run_help.code, 0);
  EXPECT_THAT(run_help.out, HasSubstr("--env-file"));
  EXPECT_THAT(run_help.out, HasSubstr("124"));
  EXPECT_THAT(run_help.out, HasSubstr("caisson run [OPTIONS] -- COMMAND [ARGUMENT...]\n"));
  std::istringstream lines(run_help.out);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100U) << line;
}

TEST_F(VerbsTest, AWordThatIsNoVerbIsToldTheVerbs) {
  for (const std::vector<std::string>& words : {std::vector<std::string>{"bogus"}, {}}) {
    const Ended ended = caisson(words);
    EXPECT_EQ(ended.code, 2) << ended;
    EXPECT_THAT(ended.err, HasSubstr("say what to do: caisson run, "));
    EXPECT_THAT(ended.err, HasSubstr("caisson doctor or caisson version\n"));
    EXPECT_THAT(ended.err, Not(HasSubstr("bogus"))) << "it may be a value that slipped";
  }
  EXPECT_THAT(caisson({"version", "--bogus"}).err, HasSubstr("there is no option --bogus")) << "the control";
}

TEST_F(VerbsTest, ClosedOutputIsQuietForEveryVerb) {
  Program program = start_program({"sh", "-c", "read line; exec \"$0\" doctor", CAISSON_PROGRAM});
  program.close_out();
  program.write_in("\n");
  const Ended ended = program.wait();
  EXPECT_EQ(ended.code, 141) << ended;
  EXPECT_THAT(ended.err, IsEmpty());
}

TEST_F(VerbsTest, DoctorSaysWhichTiersWorkHere) {
  const Ended ended = caisson({"doctor", "--json"});
  EXPECT_EQ(ended.code, 0) << ended;
  const auto json = ended.json();
  EXPECT_EQ(json.at("works"), true);
  std::string names;
  for (const auto& finding : json.at("findings").as_array()) {
    names += " " + std::string(finding.at("name").as_string());
    EXPECT_NE(finding.at("status"), "problem") << finding.at("detail").as_string();
  }
  for (const char* name :
       {"kernel", "openat2", "clone3", "pidfd", "close_range", "tree_kill", "descriptors", "sigchld",
        "local_root", "container_ids", "container_box", "tier_container", "policy", "tier_none"}) {
    EXPECT_THAT(names, HasSubstr(std::string(" ") + name));
  }
  EXPECT_THAT(caisson({"doctor"}).out, HasSubstr("WEAK"));
}

TEST_F(VerbsTest, S93_DoctorFailsOnAnUnusableRootAndSaysWhatToDo) {
  write_file("file", "");
  env_["SANDBOX_LOCAL_ROOT"] = path("file");
  const Ended ended = caisson({"doctor"});
  EXPECT_EQ(ended.code, 1) << ended;
  EXPECT_THAT(ended.out, HasSubstr("PROBLEM"));
  EXPECT_THAT(ended.out, HasSubstr(path("file")));
  EXPECT_THAT(ended.out, HasSubstr("SANDBOX_LOCAL_ROOT"));
  EXPECT_EQ(caisson({"doctor", "--json"}).json().at("works"), false);
  const Ended run_ended = run({"--json"}, {"true"});
  EXPECT_EQ(run_ended.code, 125);
  EXPECT_EQ(run_ended.json().at("code"), "root_unusable");
}

// S-29: what a dead process owned is removed, its processes too; what a live one owns is not.
TEST_F(VerbsTest, S29_ReapRemovesWhatADeadProcessLeft) {
  const std::string time = long_time();
  Program program = start({"-i"}, {"sh", "-c", "setsid sleep " + time + " & echo ready; read line"});
  EXPECT_EQ(program.read_line(), "ready");
  EXPECT_TRUE(eventually([&] { return runs(time); }));

  EXPECT_EQ(caisson({"reap"}).out, "nothing to do\n");
  EXPECT_TRUE(runs(time)) << "a live owner's session is left alone";

  program.signal(SIGKILL);
  EXPECT_EQ(program.wait().signal, SIGKILL);
  const Ended reaped = caisson({"reap", "--json"});
  EXPECT_EQ(reaped.code, 0) << reaped;
  EXPECT_FALSE(reaped.json().at("recovered").as_array().empty()) << reaped;
  EXPECT_EQ(reaped.json().size(), 1U) << "a process that has just begun has no session of its own to reap";
  EXPECT_TRUE(eventually([&] { return !runs(time); }));
  EXPECT_EQ(caisson({"reap"}).out, "nothing to do\n");
}

TEST_F(VerbsTest, ReapDoesNotCallWhatItMustLeaveNothing) {
  EXPECT_EQ(run({}, {"true"}).code, 0);
  const std::string record = root_.path() + "/.tai-sandbox/.caisson/" + std::string(32, 'a') + ".json";
  std::filesystem::create_directory(record);
  const Ended ended = caisson({"reap"});
  EXPECT_THAT(ended.out, IsEmpty()) << ended;
  EXPECT_THAT(ended.err, HasSubstr("is left for the next recovery"));
  EXPECT_EQ(ended.code, 1);
  std::filesystem::remove_all(record);
  EXPECT_EQ(caisson({"reap"}).code, 0);
}

TEST_F(VerbsTest, ConformanceListsAndRunsChecks) {
  const Ended list = caisson({"conformance", "--list"});
  EXPECT_THAT(list.out, HasSubstr("exec.exit_code"));
  const Ended ended = caisson({"conformance", "--isolation", "none", "--filter", "exec.exit_code"});
  EXPECT_EQ(ended.code, 0) << ended;
  EXPECT_THAT(ended.out, HasSubstr("1 passed, 0 failed"));
  const auto json =
      caisson({"conformance", "--tree-kill", "shim", "--filter", "exec.exit_code", "--json"}).json();
  EXPECT_EQ(json.at("passed"), 1);
  EXPECT_EQ(json.at("checks").at(0).at("outcome"), "passed");
  EXPECT_EQ(caisson({"conformance", "--filter", "no.such"}).code, 2);
}

TEST_F(VerbsTest, ConformanceRunsOneGroup) {
  const auto listed = caisson({"conformance", "--list", "--group", "hardening", "--json"}).json();
  ASSERT_GT(listed.at("checks").as_array().size(), 50U);
  for (const auto& check : listed.at("checks").as_array()) EXPECT_EQ(check.at("group"), "hardening");
  EXPECT_EQ(caisson({"conformance", "--group", "core", "--filter", "peer."}).code, 2);
  EXPECT_EQ(caisson({"conformance", "--group", "no"}).code, 2);
  EXPECT_EQ(caisson({"conformance", "--patience", "60", "--filter", "exec.exit_code"}).code, 0);
  EXPECT_EQ(caisson({"conformance", "--patience", "0"}).code, 2);
  EXPECT_EQ(caisson({"conformance", "--patience", "86401"}).code, 2);
}

// A boot clock of its own, a day ahead (time_namespaces(7)): short ttls must end there as they do here.
TEST_F(VerbsTest, S20SessionsExpireByTheBootClockOfTheirTimeNamespace) {
  const auto ahead = [](Words words) {
    Words argv{"unshare", "--time", "--boottime", "86400", "--fork"};
    argv.insert(argv.end(), words.begin(), words.end());
    return argv;
  };
  const Ended uptime = start_program(ahead({"cat", "/proc/uptime"})).wait();
  if (uptime.code != 0) GTEST_SKIP() << "no time namespace is to be had: " << uptime.err;
  ASSERT_GT(std::stod(uptime.out), 86400);
  for (const char* checks : {"reap.expired", "ttl.touch_extends", "ttl.live_exec_holds"}) {
    const Ended ended = start_program(ahead({CAISSON_PROGRAM, "conformance", "--filter", checks})).wait();
    EXPECT_EQ(ended.code, 0) << ended;
    EXPECT_THAT(ended.out, HasSubstr("passed, 0 failed, 0 not run"));
  }
}

// The suite's second process is the program itself.
TEST_F(VerbsTest, ConformanceStartsItselfAsTheSecondProcess) {
  const Ended ended = caisson({"conformance", "--group", "hardening", "--filter", "peer."});
  EXPECT_EQ(ended.code, 0) << ended;
  EXPECT_THAT(ended.out, HasSubstr("10 passed, 0 failed, 0 not run"));
  EXPECT_THAT(ended.out, StartsWith("hardening\n"));
  EXPECT_THAT(caisson({"conformance", "--help"}).out, Not(HasSubstr("--serve")));
}

TEST_F(VerbsTest, ConformanceSaysWhatWasNotRunAndWhy) {
  const Ended ended = caisson({"conformance", "--filter", "ttl.wall_clock_step"});
  EXPECT_EQ(ended.code, 0) << ended;
  EXPECT_THAT(ended.out, HasSubstr("0 passed, 0 failed, 1 not run\nnot run: 1, the profile cannot step"));
}

TEST_F(VerbsTest, ManualIsAManualPage) {
  const Ended manual = caisson({"help", "--man"});
  EXPECT_EQ(manual.code, 0);
  EXPECT_THAT(manual.out, StartsWith(".TH CAISSON 1"));
}

TEST_F(VerbsTest, CompletionCompletes) {
  const std::string script =
      "eval \"$(\"$0\" help --bash-completion)\"\n"
      "complete_line() { COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); _caisson; echo \"${COMPREPLY[@]}\"; }\n"
      "complete_line caisson do\n"
      "complete_line caisson run --iso\n"
      "complete_line caisson run --isolation c\n"
      "complete_line caisson doctor --j\n";
  const Ended ended = start_program({"bash", "-c", script, CAISSON_PROGRAM}).wait();
  EXPECT_EQ(ended.out, "doctor\n--isolation\ncontainer\n--json\n") << ended;
}

}  // namespace
}  // namespace caisson::test
