// The suite as callers see it: the list of checks, and a run over it.
#include <cstdlib>

#include "kit/conformance/check.h"
#include "kit/conformance/runner.h"

namespace caisson::kit::conformance {

std::string_view to_string(Outcome outcome) noexcept {
  switch (outcome) {
    case Outcome::passed:
      return "passed";
    case Outcome::failed:
      return "failed";
    case Outcome::not_run:
      return "not_run";
  }
  return "unknown";
}

std::vector<Group> all_groups() {
  return {{"core",
           {exec_checks(), exec_request_checks(), exec_process_checks(), interactive_checks(), stdin_checks(),
            kill_checks(), file_checks(), path_checks(), session_checks(), ttl_checks(), teardown_checks(),
            reject_checks(), timeout_checks()}},
          {"hardening",
           {deadline_checks(), race_checks(), ending_checks(), hostile_tree_checks(), lookup_checks(),
            capture_checks(), tree_checks(), stdin_order_checks(), hostile_path_checks(), transfer_checks(),
            peer_checks()}}};
}

std::vector<const Check*> all_checks() {
  std::vector<const Check*> all;
  for (const Group& group : all_groups()) {
    for (const std::span<const Check> table : group.tables) {
      for (const Check& check : table) all.push_back(&check);
    }
  }
  return all;
}

std::vector<std::string_view> groups() {
  std::vector<std::string_view> names;
  for (const Group& group : all_groups()) names.push_back(group.name);
  return names;
}

std::vector<CheckInfo> checks() {
  std::vector<CheckInfo> infos;
  for (const Group& group : all_groups()) {
    for (const std::span<const Check> table : group.tables) {
      for (const Check& check : table) infos.push_back({check.name, group.name, check.rules, check.title});
    }
  }
  return infos;
}

std::vector<CheckResult> run(const ConformanceProfile& profile, std::string_view prefix,
                             const std::function<void(const CheckResult&)>& report,
                             std::chrono::seconds patience, std::string_view group) {
  // Before any thread of ours runs: setenv is not safe beside a getenv.
  ::setenv(std::string(canary_variable).c_str(), "of the host", 1);
  std::vector<CheckResult> results;
  for (const Group& each : all_groups()) {
    if (!group.empty() && each.name != group) continue;
    for (const std::span<const Check> table : each.tables) {
      for (const Check& check : table) {
        if (!check.name.starts_with(prefix)) continue;
        results.push_back(run_check(check, profile, patience));
        results.back().group = each.name;
        if (report) report(results.back());
      }
    }
  }
  return results;
}

}  // namespace caisson::kit::conformance
