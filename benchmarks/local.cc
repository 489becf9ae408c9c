// All rows of the local provider.
#include "benchmarks/local.h"

#include <stdexcept>
#include <string_view>

namespace caisson::bench {

std::vector<Row> local_rows(const std::string& peer_python, const std::string& only) {
  Bed bed;
  std::vector<Row> rows;
  const auto add = [&](std::string_view group, const auto& measure) {
    if (!only.empty() && only != group) return;
    const std::vector<Row> more = measure();
    rows.insert(rows.end(), more.begin(), more.end());
  };
  add("exec", [&] { return exec_rows(bed); });
  add("streams", [&] { return stream_rows(bed); });
  add("files", [&] { return file_rows(bed); });
  add("sessions", [&] { return session_rows(bed, peer_python); });
  if (rows.empty()) throw std::invalid_argument("there are no rows of " + only);
  return rows;
}

}  // namespace caisson::bench
