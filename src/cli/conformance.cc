// caisson conformance: the suite over a provider that is built in.
#include "caisson/kit/conformance.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <chrono>
#include <cstdio>
#include <map>

#include "cli/container_profile.h"
#include "cli/local_profile.h"
#include "cli/report.h"
#include "cli/verbs.h"
#include "os/console.h"

namespace caisson::cli {
namespace {

namespace suite = kit::conformance;

std::string mark(suite::Outcome outcome, const Style& style) {
  switch (outcome) {
    case suite::Outcome::passed:
      return style.good("passed ");
    case suite::Outcome::failed:
      return style.bad("FAILED ");
    case suite::Outcome::not_run:
      break;
  }
  return style.warn("not run");
}

long milliseconds(const suite::CheckResult& result) {
  return static_cast<long>(std::chrono::duration_cast<std::chrono::milliseconds>(result.took).count());
}

void print_line(const suite::CheckResult& result, const Style& style) {
  char time[32];
  std::snprintf(time, sizeof time, "%6ld ms", milliseconds(result));
  print(mark(result.outcome, style) + " " + time + "  " + result.name + "  " + style.faint(result.rules) +
        "\n");
  if (!result.detail.empty()) print("          " + result.detail + "\n");
}

boost::json::object as_json(const suite::CheckResult& result) {
  return {{"name", result.name},     {"group", result.group},
          {"rules", result.rules},   {"outcome", suite::to_string(result.outcome)},
          {"detail", result.detail}, {"milliseconds", milliseconds(result)}};
}

int list_checks(const ConformanceOptions& options) {
  boost::json::array list;
  std::string text;
  for (const suite::CheckInfo& check : suite::checks()) {
    if (!check.name.starts_with(options.filter)) continue;
    if (!options.group.empty() && check.group != options.group) continue;
    list.push_back(
        {{"name", check.name}, {"group", check.group}, {"rules", check.rules}, {"title", check.title}});
    text += std::string(check.group) + "  " + std::string(check.name) + "  " + std::string(check.rules) +
            "  " + std::string(check.title) + "\n";
  }
  if (options.json) {
    print_json({{"checks", std::move(list)}});
  } else {
    print(text);
  }
  return 0;
}

/// Prints results as they come, each group under its name.
class Progress {
 public:
  explicit Progress(const Style& style) : style_(style) {}
  void add(const suite::CheckResult& result) {
    if (result.group != group_) print((group_.empty() ? "" : "\n") + result.group + "\n");
    group_ = result.group;
    print_line(result, style_);
  }

 private:
  const Style& style_;
  std::string group_;
};

/// How many checks were not run for which reason.
std::string reasons(const std::vector<suite::CheckResult>& results) {
  std::map<std::string, int> counts;
  for (const suite::CheckResult& result : results) {
    if (result.outcome == suite::Outcome::not_run) ++counts[result.detail];
  }
  std::string text;
  for (const auto& [reason, count] : counts)
    text += "not run: " + std::to_string(count) + ", " + reason + "\n";
  return text;
}

suite::ConformanceProfile bare_profile(const ConformanceOptions& options) {
  return options.isolation == SandboxIsolation::none ? local_profile(options.tree_kill) : container_profile();
}

/// The tier's provider, its second process being this program again.
suite::ConformanceProfile profile_of(const ConformanceOptions& options) {
  suite::ConformanceProfile profile = bare_profile(options);
  std::vector<std::string> words{"/proc/self/exe", "conformance", "--isolation",
                                 std::string(to_string(options.isolation)), "--serve"};
  const std::string tree_kill(options.tree_kill == kit::TreeKill::automatic ? ""
                                                                            : to_string(options.tree_kill));
  profile.peer = [words, tree_kill](const std::string& root) {
    std::vector<std::string> all = words;
    all.push_back(root);
    if (!tree_kill.empty()) all.insert(all.end(), {"--tree-kill", tree_kill});
    return all;
  };
  return profile;
}

}  // namespace

int conformance(const ConformanceOptions& options) {
  if (options.serve) return suite::serve(bare_profile(options), *options.serve);
  if (options.list) return list_checks(options);
  const Style style = Style::of(os::standard_output);
  Progress progress(style);
  const auto report = [&](const suite::CheckResult& result) {
    if (!options.json) progress.add(result);
  };
  const std::chrono::seconds patience(options.patience_seconds.value_or(suite::default_patience.count()));
  if (patience > std::chrono::hours(24)) throw UsageError("--patience takes a day (86400) at most");
  const auto results = suite::run(profile_of(options), options.filter, report, patience, options.group);
  const auto count = [&results](suite::Outcome outcome) {
    return std::count_if(results.begin(), results.end(),
                         [outcome](const suite::CheckResult& result) { return result.outcome == outcome; });
  };
  const auto passed = count(suite::Outcome::passed);
  const auto failed = count(suite::Outcome::failed);
  const auto not_run = count(suite::Outcome::not_run);
  if (results.empty()) throw UsageError("no check's name begins with --filter: --list names them");
  if (options.json) {
    boost::json::array checks;
    for (const suite::CheckResult& result : results) checks.push_back(as_json(result));
    print_json({{"passed", passed}, {"failed", failed}, {"not_run", not_run}, {"checks", std::move(checks)}});
  } else {
    print(std::to_string(passed) + " passed, " + std::to_string(failed) + " failed, " +
          std::to_string(not_run) + " not run\n" + reasons(results));
  }
  return failed == 0 ? 0 : exit_some_failed;
}

}  // namespace caisson::cli
