// Names of log levels.
#include "caisson/kit/log.h"

namespace caisson::kit {

std::string_view to_string(LogLevel level) noexcept {
  switch (level) {
    case LogLevel::info:
      return "info";
    case LogLevel::warning:
      return "warning";
    case LogLevel::error:
      return "error";
  }
  return "error";
}

}  // namespace caisson::kit
