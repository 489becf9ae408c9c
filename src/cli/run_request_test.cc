// From the options of `run` to what is asked of the sandbox.
#include "cli/run_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "caisson/contract/validate.h"
#include "cli/report.h"
#include "tests/support/temporary_directory.h"

namespace caisson::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string shown(const Transfer& transfer) { return transfer.local + " -> " + transfer.path; }

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "none";
}

TEST(RunRequest, PutNamesThePathOrTakesTheFilesOwn) {
  EXPECT_EQ(shown(parse_put("a.py")), "a.py -> a.py");
  EXPECT_EQ(shown(parse_put("dir/a.py")), "dir/a.py -> a.py");
  EXPECT_EQ(shown(parse_put("a.py:b/c.py")), "a.py -> b/c.py");
  EXPECT_EQ(shown(parse_put("x/a.py:sub/")), "x/a.py -> sub/a.py");
  EXPECT_EQ(shown(parse_put("we:ird:name")), "we:ird -> name");
  EXPECT_EQ(shown(parse_put("we:ird:")), "we:ird -> we:ird");
  for (const char* wrong : {"", ":", ":x", "/", "..", ".:x"}) {
    EXPECT_NE(refusal([&] { parse_put(wrong); }), "none") << wrong;
  }
}

TEST(RunRequest, GetNamesTheLocalFileOrTakesThePathsOwn) {
  const test::TemporaryDirectory directory;
  EXPECT_EQ(shown(parse_get("out/log.txt")), "log.txt -> out/log.txt");
  EXPECT_EQ(shown(parse_get("log.txt:kept.txt")), "kept.txt -> log.txt");
  EXPECT_EQ(shown(parse_get("log.txt:new/")), "new/log.txt -> log.txt");
  EXPECT_EQ(shown(parse_get("out/log.txt:" + directory.path())),
            directory.path() + "/log.txt -> out/log.txt");
  for (const char* wrong : {"", ":", ":x", "/", ".."}) {
    EXPECT_NE(refusal([&] { parse_get(wrong); }), "none") << wrong;
  }
}

TEST(RunRequest, EnvFileIsLinesWithoutQuoting) {
  SecretEnv env;
  parse_env_file("# comment\nA=1\n\nB= two words \nC='q'\nD=x=y\nE=\r\n  \nF=last", env);
  ASSERT_EQ(env.size(), 6U);
  EXPECT_EQ(env.at("A").reveal(), "1");
  EXPECT_EQ(env.at("B").reveal(), " two words ");
  EXPECT_EQ(env.at("C").reveal(), "'q'");
  EXPECT_EQ(env.at("D").reveal(), "x=y");
  EXPECT_EQ(env.at("E").reveal(), "");
  EXPECT_EQ(env.at("F").reveal(), "last");
}

// S-6: a message names the line, never what is on it.
TEST(RunRequest, S6_EnvFileErrorNamesTheLineAlone) {
  SecretEnv env;
  const std::string message = refusal([&] { parse_env_file("A=1\ncanary\n", env); });
  EXPECT_THAT(message, HasSubstr("line 2"));
  EXPECT_THAT(message, Not(HasSubstr("canary")));
  EXPECT_NE(refusal([&] { parse_env_file("=canary", env); }), "none");
}

TEST(RunRequest, EnvTakesTheCallersOwnValueAndComesOverTheFile) {
  const test::TemporaryDirectory directory;
  const std::string file = directory.path() + "/env";
  std::ofstream(file) << "A=file\nB=file\n";
  RunOptions options;
  options.env_file = file;
  options.env = {"A=given", "OWN", "C=1", "C=[a,b]"};
  const SecretEnv env = read_env(options, [](std::string_view name) -> std::optional<std::string> {
    if (name == "OWN") return "callers";
    return std::nullopt;
  });
  EXPECT_EQ(env.at("A").reveal(), "given");
  EXPECT_EQ(env.at("B").reveal(), "file");
  EXPECT_EQ(env.at("OWN").reveal(), "callers");
  EXPECT_EQ(env.at("C").reveal(), "[a,b]");
}

TEST(RunRequest, EnvThatIsNotSetHereIsWrongUsage) {
  RunOptions options;
  options.env = {"MISSING"};
  const auto nothing = [](std::string_view) { return std::optional<std::string>(); };
  EXPECT_THAT(refusal([&] { read_env(options, nothing); }), HasSubstr("MISSING"));
  options.env = {"=x"};
  EXPECT_NE(refusal([&] { read_env(options, nothing); }), "none");
}

TEST(RunRequest, MissingEnvFileIsTyped) {
  RunOptions options;
  options.env_file = "/none/such";
  try {
    read_env(options, [](std::string_view) { return std::optional<std::string>(); });
    FAIL();
  } catch (const SandboxError& error) {
    EXPECT_EQ(error.code(), ErrorCode::file_missing);
  }
}

TEST(RunRequest, SpecTakesTheProvidersDefaultsAndAMadeUpKey) {
  kit::DispatchSettings dispatch;
  dispatch.default_ttl_seconds = 77;
  RunOptions options;
  options.labels = {"team=a", "note=x=y"};
  const auto spec = make_spec(options, dispatch);
  EXPECT_EQ(spec.ttl_seconds, 77);
  EXPECT_TRUE(is_workspace_key(spec.workspace_key));
  EXPECT_NE(spec.workspace_key, make_spec(options, dispatch).workspace_key);
  EXPECT_EQ(spec.durability, SandboxDurability::ephemeral);
  EXPECT_EQ(spec.isolation, SandboxIsolation::container);
  EXPECT_EQ(spec.network, SandboxNetwork::none);
  EXPECT_EQ(spec.labels, (Labels{{"note", "x=y"}, {"team", "a"}}));
  EXPECT_NO_THROW(validate(spec));
  options.labels = {"team"};
  EXPECT_NE(refusal([&] { make_spec(options, dispatch); }), "none");
}

// S-31: the provider's own default; a terminal is for people, who take their time.
TEST(RunRequest, S31_TimeoutIsTheGivenTheDefaultOrADayWithATerminal) {
  kit::DispatchSettings dispatch;
  dispatch.exec_default_timeout_seconds = 12;
  RunOptions options;
  EXPECT_EQ(make_exec_options(options, dispatch).timeout().count(), 12);
  options.tty = true;
  EXPECT_EQ(make_exec_options(options, dispatch).timeout().count(), 86400);
  dispatch.max_timeout_seconds = 600;
  EXPECT_EQ(make_exec_options(options, dispatch).timeout().count(), 600);
  options.timeout_seconds = 0.5;
  EXPECT_EQ(make_exec_options(options, dispatch).timeout().count(), 0.5);
}

}  // namespace
}  // namespace caisson::cli
