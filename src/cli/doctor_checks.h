// What doctor looks at.
#pragma once

#include <string>
#include <vector>

#include "caisson/kit/settings.h"

namespace caisson::cli {

enum class FindingStatus {
  ok,
  note,     ///< Works; something could be better, or is worth knowing.
  weak,     ///< A setting in force lowers the protection.
  problem,  ///< A tier that exists cannot work.
};
std::string_view to_string(FindingStatus status) noexcept;

struct Finding {
  std::string name;
  FindingStatus status = FindingStatus::ok;
  std::string detail;
  std::string fix = {};  ///< What to do about it; empty when there is nothing to do.
};

/// Everything, in the order it is shown. `settings` is the operator's.
std::vector<Finding> examine(const kit::SettingSource& settings);

// Its parts.
std::vector<Finding> examine_kernel();
Finding examine_tree_kill();
Finding examine_descriptors();
Finding examine_children();
std::vector<Finding> examine_policy(const kit::SettingSource& settings, bool root);
Finding examine_local_root(const kit::SettingSource& settings);
std::vector<Finding> examine_container(const kit::SettingSource& settings);

}  // namespace caisson::cli
