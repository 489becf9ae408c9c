// The command line's definition: what is parsed, what is refused, and what is made from it.
#include "cli/app.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

namespace caisson::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Parsed parse(std::vector<std::string> words) {
  Parsed parsed;
  const auto app = make_app(parsed);
  std::reverse(words.begin(), words.end());
  app->parse(std::move(words));
  return parsed;
}

TEST(App, RunHasTheDocumentedDefaults) {
  const RunOptions run = parse({"run"}).run;
  EXPECT_EQ(run.isolation, SandboxIsolation::container);
  EXPECT_EQ(run.network, SandboxNetwork::none);
  EXPECT_EQ(run.image, "host");
  EXPECT_FALSE(run.workspace || run.ttl_seconds || run.cpu || run.memory_mb || run.timeout_seconds);
  EXPECT_FALSE(run.persistent || run.input || run.tty || run.json || run.verbose);
}

TEST(App, RunTakesEveryOption) {
  const RunOptions run =
      parse({"run",         "--isolation", "none",         "--network", "egress",   "--image", "x:1",
             "--workspace", "k",           "--persistent", "--ttl",     "60",       "--label", "a=1",
             "--label",     "b=[x,y]",     "--env",        "T=[1,2]",   "--env",    "OWN",     "--env-file",
             "e",           "--put",       "a:b",          "--put",     "c",        "--get",   "d:e",
             "--cwd",       "sub",         "--cpu",        "1.5",       "--memory", "64",      "--timeout",
             "2.5",         "-it",         "--json"})
          .run;
  EXPECT_EQ(run.isolation, SandboxIsolation::none);
  EXPECT_EQ(run.network, SandboxNetwork::egress);
  EXPECT_EQ(run.image, "x:1");
  EXPECT_EQ(run.workspace, "k");
  EXPECT_TRUE(run.persistent);
  EXPECT_EQ(run.ttl_seconds, 60);
  EXPECT_THAT(run.labels, ElementsAre("a=1", "b=[x,y]"));
  EXPECT_THAT(run.env, ElementsAre("T=[1,2]", "OWN"));
  EXPECT_EQ(run.env_file, "e");
  EXPECT_THAT(run.put, ElementsAre("a:b", "c"));
  EXPECT_THAT(run.get, ElementsAre("d:e"));
  EXPECT_EQ(run.cwd, "sub");
  EXPECT_EQ(run.cpu, 1.5);
  EXPECT_EQ(run.memory_mb, 64);
  EXPECT_EQ(run.timeout_seconds, 2.5);
  EXPECT_TRUE(run.input && run.tty && run.json);
}

TEST(App, RepeatedOptionTakesOneValueEachTime) {
  EXPECT_THROW(parse({"run", "--env", "A=1", "stray"}), CLI::ParseError);
  EXPECT_THAT(parse({"run", "--env", "[A=1,B=2]"}).run.env, ElementsAre("[A=1,B=2]"));
}

TEST(App, RefusesValuesThatMakeNoSense) {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"run", "--isolation", "strong"},
                                             {"run", "--network", ""},
                                             {"run", "--ttl", "0"},
                                             {"run", "--ttl", "1.5"},
                                             {"run", "--ttl", "-1"},
                                             {"run", "--timeout", "0"},
                                             {"run", "--timeout", "nan"},
                                             {"run", "--timeout", "inf"},
                                             {"run", "--timeout", "5s"},
                                             {"run", "--cpu", "-1"},
                                             {"run", "--memory", "64M"},
                                             {"run", "--nothing"},
                                             {"run", "--workspace"},
                                             {},
                                             {"walk"},
                                             {"conformance", "--isolation", "vm"}}) {
    EXPECT_THROW(parse(words), CLI::ParseError) << testing::PrintToString(words);
  }
  EXPECT_EQ(parse({"run", "--ttl", "010"}).run.ttl_seconds, 10) << "decimal, whatever it begins with";
}

TEST(App, ListsTheVerbsThatThereAre) {
  Parsed parsed;
  const std::string help = make_app(parsed)->help();
  for (const char* verb : {"run", "reap", "conformance", "doctor", "version"})
    EXPECT_THAT(help, HasSubstr(verb));
  for (const char* later : {"serve", "mcp", "session", "image"}) {
    EXPECT_THAT(help, Not(HasSubstr(std::string("\n  ") + later + " ")));
  }
}

TEST(App, EveryVerbHasJson) {
  Parsed parsed;
  const auto app = make_app(parsed);
  for (const CLI::App* verb : app->get_subcommands([](const CLI::App*) { return true; })) {
    EXPECT_NE(verb->get_option_no_throw("--json"), nullptr) << verb->get_name();
  }
}

TEST(App, ManualAndCompletionNameEveryOption) {
  Parsed parsed;
  const auto app = make_app(parsed);
  const std::string page = manual(*app);
  const std::string script = bash_completion(*app);
  for (const CLI::App* verb : app->get_subcommands([](const CLI::App*) { return true; })) {
    for (const CLI::Option* option : verb->get_options()) {
      const std::string name = option->get_lnames().front();
      std::string in_roff = name;
      for (std::size_t at = 0; (at = in_roff.find('-', at)) != std::string::npos; at += 2)
        in_roff.insert(at, "\\");
      const bool shown = !option->get_group().empty();
      EXPECT_EQ(page.find("\\-\\-" + in_roff) != std::string::npos, shown) << name;
      EXPECT_EQ(script.find("--" + name) != std::string::npos, shown) << name;
    }
  }
  EXPECT_THAT(script, HasSubstr("none container vm"));
}

}  // namespace
}  // namespace caisson::cli
