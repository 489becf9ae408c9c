// What the cgroup sources share.
#pragma once

#include <string>

#include "os/result.h"

namespace caisson::os {

/// mkdir of `path`, and of its `parent` where that has vanished meanwhile: others remove the shared one when
/// it is empty.
Result<void> make_cgroup_beneath(const std::string& parent, const std::string& path) noexcept;

}  // namespace caisson::os
