// The command line's definition in CLI11.
#include "cli/app.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <functional>

#include "caisson/kit/conformance.h"
#include "caisson/version.h"

namespace caisson::cli {
namespace {

[[noreturn]] void refuse(const std::string& option, const std::string& wanted) {
  throw CLI::ValidationError(option, wanted);
}

// CLI11's own conversions take 010 for 8, and nan.
std::int64_t positive_integer(const std::string& option, const std::string& text) {
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stopped != end || value <= 0) refuse(option, "takes a whole number above 0");
  return value;
}

double positive_number(const std::string& option, const std::string& text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stopped != end || !std::isfinite(value) || value <= 0) {
    refuse(option, "takes a number above 0");
  }
  return value;
}

/// An option whose words are an enumeration's.
template <class T>
CLI::Option* add_word(CLI::App& verb, const std::string& name, T& into, std::vector<std::string> words,
                      std::function<std::optional<T>(std::string_view)> parse,
                      const std::string& description) {
  auto* const option = verb.add_option_function<std::string>(
      name, [&into, parse](const std::string& text) { into = *parse(text); }, description);
  std::string shown;
  for (const std::string& word : words) shown += (shown.empty() ? "" : "|") + word;
  option->check(CLI::Validator(
      [words, shown](std::string& text) {
        if (std::find(words.begin(), words.end(), text) != words.end()) return std::string();
        return "takes " + shown;
      },
      "", "word"));
  option->type_name(shown);
  return option;
}

CLI::Option* add_number(CLI::App& verb, const std::string& name, std::optional<double>& into,
                        const char* unit, const std::string& description) {
  return verb
      .add_option_function<std::string>(
          name, [&into, name](const std::string& text) { into = positive_number(name, text); }, description)
      ->type_name(unit);
}

CLI::Option* add_integer(CLI::App& verb, const std::string& name, std::optional<std::int64_t>& into,
                         const char* unit, const std::string& description) {
  return verb
      .add_option_function<std::string>(
          name, [&into, name](const std::string& text) { into = positive_integer(name, text); }, description)
      ->type_name(unit);
}

CLI::Option* add_text(CLI::App& verb, const std::string& name, std::string& into, const char* type,
                      const std::string& description) {
  return verb
      .add_option_function<std::string>(
          name, [&into](const std::string& text) { into = text; }, description)
      ->type_name(type);
}

CLI::Option* add_text(CLI::App& verb, const std::string& name, std::optional<std::string>& into,
                      const char* type, const std::string& description) {
  return verb
      .add_option_function<std::string>(
          name, [&into](const std::string& text) { into = text; }, description)
      ->type_name(type);
}

/// An option that may be repeated, one value each time. Without allow_extra_args(false) CLI11 takes the words
/// after a value for more of them, and splits "[a,b]".
CLI::Option* add_repeated(CLI::App& verb, const std::string& name, std::vector<std::string>& into,
                          const char* type, const std::string& description) {
  return verb.add_option(name, into, description)->allow_extra_args(false)->type_name(type);
}

void add_json(CLI::App& verb, bool& into, const std::string& description) {
  verb.add_flag("--json", into, description);
}

void define_run(CLI::App& app, RunOptions& o) {
  auto& verb =
      *app.add_subcommand("run", "Run a command in a session of its own, made for it and gone after it");
  add_word<SandboxIsolation>(verb, "--isolation", o.isolation, {"none", "container", "vm"}, parse_isolation,
                             "What stands between the command and this machine (default container)");
  add_word<SandboxNetwork>(verb, "--network", o.network, {"none", "internal", "egress"}, parse_network,
                           "How far the session's network reaches (default none)");
  add_text(verb, "--image", o.image, "REF",
           "What the session runs on: host, this machine's own programs (the default), or a directory with a "
           "root file "
           "system");
  add_text(verb, "--workspace", o.workspace, "KEY", "The workspace's key; one is made up without");
  verb.add_flag("--persistent", o.persistent, "Keep the workspace for the next session with its key");
  add_integer(verb, "--ttl", o.ttl_seconds, "SECONDS", "Idle time after which the session may be reaped");
  add_repeated(verb, "--label", o.labels, "NAME=VALUE", "A label of the session; repeatable");
  add_repeated(
      verb, "--env", o.env, "NAME[=VALUE]",
      "A variable of the command; without =VALUE it has the value that it has here, which keeps a secret "
      "off the command line; repeatable");
  add_text(verb, "--env-file", o.env_file, "FILE",
           "Variables from a file: NAME=VALUE lines, # comments, no quoting");
  add_repeated(verb, "--put", o.put, "LOCAL[:PATH]",
               "Copy a file into the session before the command runs; repeatable");
  add_repeated(verb, "--get", o.get, "PATH[:LOCAL]",
               "Copy a file out of the session after the command has ended; repeatable");
  add_text(verb, "--cwd", o.cwd, "DIR", "The command's working directory (default the workspace)");
  add_number(verb, "--cpu", o.cpu, "CORES", "Limit of processor time");
  add_integer(verb, "--memory", o.memory_mb, "MIB", "Limit of memory");
  add_number(verb, "--timeout", o.timeout_seconds, "SECONDS",
             "When the command is killed (default 300 s, with -t 24 h)");
  verb.add_flag("-i,--interactive", o.input, "Pass standard input on to the command");
  verb.add_flag("-t,--tty", o.tty, "Give the command a terminal");
  verb.add_flag("-v,--verbose", o.verbose, "Tell on standard error what the provider does");
  add_json(verb, o.json,
           "Print the result, or the problem, as one JSON object; output is captured up to 64 MiB");
  verb.footer(
      "The command goes after --: caisson run [OPTIONS] -- COMMAND [ARGUMENT...]\n\n"
      "Exit code: the command's own, or 128+N when signal N ended it; 124 when it was killed at its timeout, "
      "125 when "
      "Caisson refuses or fails, 126 when the command cannot be executed, 127 when it is not found, 2 for "
      "wrong usage; "
      "128+N when signal N (SIGINT, SIGTERM, SIGHUP, SIGQUIT) ended caisson itself, 141 when nobody reads "
      "its output "
      "any "
      "more.");
}

void define_others(CLI::App& app, Parsed& into) {
  auto& reap = *app.add_subcommand(
      "reap", "Remove what sessions of dead processes left behind; exit 1 when something had to be left");
  add_json(reap, into.reap.json, "Print one JSON object");

  auto& conformance =
      *app.add_subcommand("conformance", "Check that a provider does what the contract says, by doing it");
  add_word<SandboxIsolation>(conformance, "--isolation", into.conformance.isolation, {"none", "container"},
                             parse_isolation, "The tier whose provider is checked");
  add_word<kit::TreeKill>(
      conformance, "--tree-kill", into.conformance.tree_kill, {"cgroup", "shim"},
      [](std::string_view word) {
        return std::optional(word == "cgroup" ? kit::TreeKill::cgroup : kit::TreeKill::shim);
      },
      "How the processes of a command are found and killed (default the best there is)");
  const auto names = kit::conformance::groups();
  add_word<std::string>(
      conformance, "--group", into.conformance.group, {names.begin(), names.end()},
      [](std::string_view word) { return std::optional<std::string>(word); },
      "Only the checks of one group (default all): core is what callers meet first, hardening is races, "
      "hostile content, limits and other processes");
  // For ourselves: the second process of the suite.
  add_text(conformance, "--serve", into.conformance.serve, "DIR", "Do what a suite asks on standard input")
      ->group("");
  add_text(conformance, "--filter", into.conformance.filter, "PREFIX",
           "Only the checks whose names begin so");
  add_integer(conformance, "--patience", into.conformance.patience_seconds, "SECONDS",
              "How long a check may take (default 30): more for a slow machine");
  conformance.add_flag("--list", into.conformance.list, "Name the checks instead of running them");
  add_json(conformance, into.conformance.json, "Print one JSON object");

  auto& doctor = *app.add_subcommand(
      "doctor",
      "Say what works on this machine, what does not and how to mend it; exit 1 when a tier cannot work");
  add_json(doctor, into.doctor.json, "Print one JSON object");

  auto& version = *app.add_subcommand("version", "Print the version");
  add_json(version, into.version.json, "Print one JSON object");
}

}  // namespace

std::shared_ptr<CLI::App> make_app(Parsed& into) {
  auto app = std::make_shared<CLI::App>("Run code in disposable sandbox sessions", "caisson");
  app->set_version_flag("--version", std::string("caisson ") + caisson::version());
  app->require_subcommand(1);
  define_run(*app, into.run);
  define_others(*app, into);
  return app;
}

}  // namespace caisson::cli
