// Capture: the command's output kept for --json, up to the cap.
#pragma once

#include <string>
#include <string_view>

#include "caisson/contract/models.h"

namespace caisson::cli {

/// Both streams, each up to `cap` bytes; what comes after is counted and dropped (S-50).
class Capture {
 public:
  explicit Capture(std::uint64_t cap = default_output_cap) noexcept : cap_(cap) {}
  void take(SandboxStream stream, std::string_view data);
  ExecResult finish(const SandboxStreamExit& exit);

 private:
  std::uint64_t cap_;
  ExecResult result_;
};

}  // namespace caisson::cli
