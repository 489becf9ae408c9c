// The completion script of bash(1), out of the command line's definition.
#include <CLI/CLI.hpp>

#include "cli/app.h"

namespace caisson::cli {
namespace {

std::string option_names(const CLI::App& verb) {
  std::string names;
  for (const CLI::Option* option : verb.get_options()) {
    if (option->get_group().empty()) continue;
    for (const std::string& name : option->get_lnames()) names += " --" + name;
    for (const std::string& name : option->get_snames()) names += " -" + name;
  }
  return names.empty() ? names : names.substr(1);
}

// The words of an enumeration, "none|container|vm", or the file names that a FILE or LOCAL asks for.
std::string value_rules(const CLI::App& verb) {
  std::string rules;
  for (const CLI::Option* option : verb.get_options()) {
    std::string type = option->get_type_name();
    if (option->get_group().empty() || type.empty() || option->get_lnames().empty()) continue;
    const std::string pattern = "    " + verb.get_name() + ":--" + option->get_lnames().front() + ") ";
    if (type.starts_with("FILE") || type.starts_with("LOCAL")) {
      rules += pattern + "COMPREPLY=($(compgen -f -- \"$word\")); return ;;\n";
    } else if (type.find('|') != std::string::npos) {
      for (char& c : type) c = c == '|' ? ' ' : c;
      rules += pattern + "COMPREPLY=($(compgen -W '" + type + "' -- \"$word\")); return ;;\n";
    } else if (option->get_expected_max() > 0) {
      rules += pattern + "return ;;\n";
    }
  }
  return rules;
}

}  // namespace

std::string bash_completion(const CLI::App& app) {
  std::string verbs;
  std::string options;
  std::string values;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) {
    verbs += (verbs.empty() ? "" : " ") + verb->get_name();
    options += "    " + verb->get_name() + ") words='" + option_names(*verb) + "' ;;\n";
    values += value_rules(*verb);
  }
  return "# bash completion of caisson(1)\n"
         "_caisson() {\n"
         "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} verb=${COMP_WORDS[1]} "
         "words i\n"
         "  COMPREPLY=()\n"
         "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
         "    COMPREPLY=($(compgen -W '" +
         verbs + " " + option_names(app) +
         "' -- \"$word\"))\n"
         "    return\n"
         "  fi\n"
         "  for ((i = 2; i < COMP_CWORD; ++i)); do\n"
         "    if [ \"${COMP_WORDS[i]}\" = -- ]; then\n"
         "      if ((i + 1 == COMP_CWORD)); then COMPREPLY=($(compgen -c -- \"$word\")); "
         "else COMPREPLY=($(compgen -f -- \"$word\")); fi\n"
         "      return\n"
         "    fi\n"
         "  done\n"
         "  case $verb:$before in\n" +
         values +
         "  esac\n"
         "  case $verb in\n" +
         options +
         "    *) return ;;\n"
         "  esac\n"
         "  COMPREPLY=($(compgen -W \"$words --\" -- \"$word\"))\n"
         "}\n"
         "complete -F _caisson caisson\n";
}

}  // namespace caisson::cli
