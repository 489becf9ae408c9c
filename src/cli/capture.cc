// Capture: the command's output kept for --json.
#include "cli/capture.h"

#include <algorithm>
#include <utility>

namespace caisson::cli {

void Capture::take(SandboxStream stream, std::string_view data) {
  std::string& kept = stream == SandboxStream::out ? result_.out : result_.err;
  (stream == SandboxStream::out ? result_.stdout_bytes : result_.stderr_bytes) += data.size();
  const auto room = static_cast<std::size_t>(cap_ - std::min<std::uint64_t>(cap_, kept.size()));
  if (data.size() > room) result_.truncated = true;
  kept.append(data.substr(0, room));
}

ExecResult Capture::finish(const SandboxStreamExit& exit) {
  result_.exit_code = exit.exit_code;
  result_.ended = exit.ended;
  return std::move(result_);
}

}  // namespace caisson::cli
