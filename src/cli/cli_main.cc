// Parsing, the choice of the verb, and what becomes of errors.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <sstream>

#include "caisson/contract/json.h"
#include "cli/app.h"
#include "cli/report.h"
#include "cli/verbs.h"
#include "os/cgroup.h"

namespace caisson::cli {
namespace {

/// What was asked for is text: help, the version.
struct Answer {
  std::string text;
};

struct Split {
  std::vector<std::string> options;
  std::vector<std::string> command;
  bool separated;
};

// CLI11 never sees the command: it would split "[a,b]" and read meanings into the rest.
Split split_command(const std::vector<std::string>& arguments) {
  const auto separator = std::find(arguments.begin(), arguments.end(), "--");
  const bool separated = separator != arguments.end();
  return {
      {arguments.begin(), separator}, {separated ? separator + 1 : separator, arguments.end()}, separated};
}

constexpr std::size_t help_width = 100;
constexpr std::size_t description_column = 30;  // CLI11's own

std::string wrapped(const std::string& text) {
  std::string result;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::string indent(line.starts_with(' ') ? description_column : 0, ' ');
    while (line.size() > help_width) {
      const std::size_t space = line.rfind(' ', help_width);
      if (space == std::string::npos || space <= indent.size()) break;
      result += line.substr(0, space) + "\n";
      line = indent + line.substr(space + 1);
    }
    result += line + "\n";
  }
  return result;
}

const CLI::App& innermost(const CLI::App& app) {
  const auto verbs = app.get_subcommands();
  return verbs.empty() ? app : *verbs.front();
}

// CLI11's help, with the command in the usage line of `run`, and long lines broken.
std::string help_of(const CLI::App& app) {
  const CLI::App& verb = innermost(app);
  std::string text = &verb == &app ? verb.help() : verb.help("caisson");
  if (verb.get_name() == "run") {
    const std::string usage = "[OPTIONS]";
    if (const auto at = text.find(usage); at != std::string::npos) {
      text.insert(at + usage.size(), " -- COMMAND [ARGUMENT...]");
    }
  }
  return wrapped(text);
}

// What was not expected may be a value that slipped (an environment value after a space): it is not repeated,
// unless it is an option's name.
std::string unexpected(const std::vector<std::string>& extras) {
  if (!extras.empty() && extras.front().starts_with('-')) {
    return "there is no option " + extras.front().substr(0, extras.front().find('='));
  }
  return "there is an argument too many; the command goes after --";
}

// For a word that is none of them, or no word.
std::string verbs_of(const CLI::App& app) {
  std::string text = "say what to do: ";
  const auto verbs = app.get_subcommands([](const CLI::App*) { return true; });
  for (std::size_t i = 0; i < verbs.size(); ++i) {
    if (i > 0) text += i + 1 == verbs.size() ? " or " : ", ";
    text += "caisson " + verbs[i]->get_name();
  }
  return text;
}

void parse(CLI::App& app, std::vector<std::string> options) {
  std::reverse(options.begin(), options.end());
  try {
    app.parse(std::move(options));
  } catch (const CLI::CallForHelp&) {
    throw Answer{help_of(app)};
  } catch (const CLI::CallForVersion& version) {
    throw Answer{std::string(version.what()) + "\n"};
  } catch (const CLI::ExtrasError&) {
    throw UsageError(unexpected(app.remaining(true)));
  } catch (const CLI::ParseError& error) {
    throw UsageError(app.get_subcommands().empty() ? verbs_of(app) : error.what());
  }
}

int dispatch(CLI::App& app, Parsed& parsed, Split split) {
  parse(app, std::move(split.options));
  const std::string verb = innermost(app).get_name();
  // So that boxes have caps in a scope or service that was delegated to this command alone. Where it fails
  // they have none, and say why.
  if (verb == "run" || verb == "conformance" || verb == "doctor") {
    static_cast<void>(os::enter_leaf_of_delegated_cgroup());
  }
  if (verb == "run") {
    if (split.command.empty())
      throw UsageError("there is no command: caisson run [OPTIONS] -- COMMAND [ARGUMENT...]");
    parsed.run.argv = std::move(split.command);
    return run(parsed.run);
  }
  if (split.separated) throw UsageError(verb + " takes no command");
  if (verb == "reap") return reap(parsed.reap);
  if (verb == "conformance") return conformance(parsed.conformance);
  if (verb == "doctor") return doctor(parsed.doctor);
  return version(parsed.version);
}

int refuse_usage(const CLI::App& app, const UsageError& error, bool json) {
  const CLI::App& verb = innermost(app);
  const std::string name = &verb == &app ? "caisson" : "caisson " + verb.get_name();
  complain(error.what());
  complain("try: " + name + " --help");
  if (json) print_json(to_json(SandboxError(ErrorCode::invalid_argument, error.what())));
  return exit_usage;
}

// Asked of the words, for a command line that does not parse may still want its problem as JSON. The last one
// counts, and CLI11 takes "--json=VALUE" too.
bool wants_json(const std::vector<std::string>& arguments) {
  constexpr std::array<std::string_view, 4> noes{"--json=false", "--json=0", "--json=no", "--json=off"};
  bool wanted = false;
  for (const std::string& word : arguments) {
    if (word == "--") break;
    if (word == "--json" || word.starts_with("--json=")) {
      wanted = std::find(noes.begin(), noes.end(), word) == noes.end();
    }
  }
  return wanted;
}

int run_verb(const std::vector<std::string>& arguments, bool json) {
  Parsed parsed;
  const auto app = make_app(parsed);
  Split split = split_command(arguments);
  try {
    return dispatch(*app, parsed, std::move(split));
  } catch (const UsageError& error) {
    return refuse_usage(*app, error, json);
  } catch (const Answer& answer) {
    print(answer.text);
    return 0;
  } catch (const SandboxError& error) {
    report(error, json);
    return exit_code_of(error.code());
  } catch (const OutputClosed&) {
    throw;
  } catch (const OutputFailed&) {
    throw;
  } catch (const std::exception& error) {
    report(SandboxError(ErrorCode::internal, error.what()), json);
    return exit_failure;
  }
}

}  // namespace

int main(const std::vector<std::string>& arguments) noexcept {
  try {
    if (arguments.size() == 2 && arguments[0] == "help") {
      // For the build, which installs what this prints.
      Parsed parsed;
      const auto app = make_app(parsed);
      if (arguments[1] == "--man") return print(manual(*app)), 0;
      if (arguments[1] == "--bash-completion") return print(bash_completion(*app)), 0;
    }
    return run_verb(arguments, wants_json(arguments));
  } catch (const OutputClosed&) {
    return exit_output_closed;
  } catch (const std::exception& error) {
    complain(error.what());
    return exit_failure;
  }
}

}  // namespace caisson::cli
