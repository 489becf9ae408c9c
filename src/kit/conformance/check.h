// Check: one row of the suite.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "caisson/contract/awaitable.h"
#include "kit/conformance/context.h"

namespace caisson::kit::conformance {

/// A check is a coroutine that returns when satisfied and throws Failure, or NotRun, when not.
struct Check {
  std::string_view name;
  std::string_view rules;
  std::string_view title;
  Awaitable<void> (*run)(Context context);
};

std::span<const Check> exec_checks();
std::span<const Check> exec_request_checks();
std::span<const Check> exec_process_checks();
std::span<const Check> interactive_checks();
std::span<const Check> stdin_checks();
std::span<const Check> kill_checks();
std::span<const Check> file_checks();
std::span<const Check> path_checks();
std::span<const Check> session_checks();
std::span<const Check> ttl_checks();
std::span<const Check> teardown_checks();
std::span<const Check> reject_checks();
std::span<const Check> timeout_checks();

// The second group: races, hostile content, limits, other processes.
std::span<const Check> deadline_checks();
std::span<const Check> race_checks();
std::span<const Check> ending_checks();
std::span<const Check> hostile_tree_checks();
std::span<const Check> lookup_checks();
std::span<const Check> capture_checks();
std::span<const Check> tree_checks();
std::span<const Check> stdin_order_checks();
std::span<const Check> hostile_path_checks();
std::span<const Check> transfer_checks();
std::span<const Check> peer_checks();

struct Group {
  std::string_view name;
  std::vector<std::span<const Check>> tables;
};
/// In the order they run.
std::vector<Group> all_groups();

/// Every check, in the order they run.
std::vector<const Check*> all_checks();

}  // namespace caisson::kit::conformance
