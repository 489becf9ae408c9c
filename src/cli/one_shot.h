// The operator's settings for a process that is here for one thing.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "caisson/kit/settings.h"

namespace caisson::cli {

/// The environment's settings, but that no boxes are made ahead.
inline std::optional<std::string> one_shot_setting(std::string_view name) {
  if (name == "CAISSON_CONTAINER_POOL_SIZE") return "0";
  return kit::environment_settings()(name);
}

}  // namespace caisson::cli
