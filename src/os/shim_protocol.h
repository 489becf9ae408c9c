// What goes over the socket between Caisson and a shim; both are built together, so there are no versions.
//
// Caisson sends one ShimRequest and the strings it announces, each with its NUL: candidates, arguments,
// environment. After that each byte is a signal for the leader. End of file, or the end of the process that
// started the shim, is the order to kill the tree. The shim sends ShimReports: started or failed first, then
// ended, then empty.
#pragma once

#include <cstdint>

#include "os/spawn.h"

namespace caisson::os {

/// The shim's end of the socket.
inline constexpr int shim_socket = 3;

struct ShimRequest {
  std::uint32_t candidates;
  std::uint32_t arguments;
  std::uint32_t variables;
  std::uint32_t terminal;
  std::uint64_t descriptor_limit_soft;
  std::uint64_t bytes;  ///< Of all strings.
};

enum class ShimNews : std::uint8_t { started, failed, ended, empty };

struct ShimReport {
  ShimNews news;
  SpawnStep step;         ///< failed
  std::uint8_t signaled;  ///< ended
  std::uint8_t core;      ///< ended
  std::int32_t value;     ///< started: the leader's number, failed: errno, ended: its exit code or signal
};

}  // namespace caisson::os
