// The fields of /proc/PID/stat.
#include "os/process_stat.h"

namespace caisson::os {

std::string_view stat_field(std::string_view stat, int number) noexcept {
  const std::size_t name_end = stat.rfind(')');
  if (name_end == std::string_view::npos || number < 3) return {};
  stat.remove_prefix(name_end + 1);
  for (int field = 2; field < number; ++field) {
    const std::size_t space = stat.find(' ');
    if (space == std::string_view::npos) return {};
    stat.remove_prefix(space + 1);
  }
  return stat.substr(0, stat.find_first_of(" \n"));
}

}  // namespace caisson::os
