// The manual page, out of the command line's definition.
#include <CLI/CLI.hpp>
#include <cctype>

#include "caisson/version.h"
#include "cli/app.h"

namespace caisson::cli {
namespace {

// Text for roff: a backslash and a hyphen are commands and typography there, a dot or quote first on a line a
// request.
std::string roff(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (c == '\\') {
      safe += "\\e";
    } else if (c == '-') {
      safe += "\\-";
    } else if ((c == '.' || c == '\'') && (safe.empty() || safe.back() == '\n')) {
      safe += std::string("\\&") + c;
    } else if (c == '\n') {
      safe += safe.ends_with('\n') ? ".PP\n" : "\n";
    } else {
      safe += c;
    }
  }
  return safe;
}

std::string names_of(const CLI::Option& option) {
  std::string names;
  for (const std::string& name : option.get_snames())
    names += (names.empty() ? "" : ", ") + ("\\fB\\-" + name + "\\fR");
  for (const std::string& name : option.get_lnames()) {
    names += (names.empty() ? "" : ", ") + ("\\fB" + roff("--" + name) + "\\fR");
  }
  const std::string type = option.get_type_name();
  if (!type.empty() && option.get_expected_max() > 0) names += " \\fI" + roff(type) + "\\fR";
  return names;
}

std::string options_of(const CLI::App& app) {
  std::string text;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    text += ".TP\n" + names_of(*option) + "\n" + roff(option->get_description()) + "\n";
  }
  return text;
}

}  // namespace

std::string manual(const CLI::App& app) {
  std::string text = ".TH CAISSON 1 \"\" \"caisson " + roff(version()) + "\" \"User Commands\"\n";
  text += ".SH NAME\ncaisson \\- " + roff(app.get_description()) + "\n";
  text += ".SH SYNOPSIS\n";
  const auto verbs = app.get_subcommands([](const CLI::App*) { return true; });
  for (const CLI::App* verb : verbs) {
    text += ".B caisson " + roff(verb->get_name()) + "\n[\\fIOPTIONS\\fR]";
    text += verb->get_name() == "run" ? " \\-\\- \\fICOMMAND\\fR [\\fIARGUMENT\\fR...]\n.br\n" : "\n.br\n";
  }
  text += ".SH OPTIONS\n" + options_of(app);
  for (const CLI::App* verb : verbs) {
    std::string heading = verb->get_name();
    for (char& c : heading) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    text += ".SH CAISSON " + roff(heading) + "\n" + roff(verb->get_description()) + ".\n" + options_of(*verb);
    if (!verb->get_footer().empty()) text += ".PP\n" + roff(verb->get_footer()) + "\n";
  }
  text +=
      ".SH ENVIRONMENT\n"
      ".TP\n\\fBTAI_MCP_SANDBOX_ISOLATION\\fR, \\fBTAI_MCP_SANDBOX_EGRESS\\fR, "
      "\\fBTAI_MCP_SANDBOX_DURABLE\\fR\n"
      "The operator's policy: the weakest isolation (container), the most open network (egress), whether "
      "persistent "
      "workspaces are permitted (true).\n"
      ".TP\n\\fBSANDBOX_LOCAL_ROOT\\fR\nWhere sessions without isolation have their workspaces.\n"
      ".TP\n\\fBSANDBOX_LOCAL_BASE_PATH\\fR\nThe PATH of their commands.\n"
      ".TP\n\\fBNO_COLOR\\fR\nSet and not empty: no colours.\n";
  return text;
}

}  // namespace caisson::cli
