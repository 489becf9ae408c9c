// What JSON shows of outcomes, stream items and errors: the shapes that differ from the C++ models.
#pragma once

#include <boost/describe.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "caisson/contract/models.h"
#include "contract/json_writer.h"

namespace caisson::wire {

/// An ExecResult. The views live as long as what they were taken from.
struct ResultShape {
  int exit_code = 0;
  std::string_view stdout_;
  std::string_view stderr_;
  ExecEnd ended = ExecEnd::exited;
  std::optional<int> signal;
  bool core = false;
  std::optional<std::string> lost_cause;
  std::vector<SandboxLimit> limits_hit;
  std::uint64_t stdout_bytes = 0;
  std::uint64_t stderr_bytes = 0;
  bool truncated = false;
  Omittable<std::string> stdout_base64;
  Omittable<std::string> stderr_base64;
};
BOOST_DESCRIBE_STRUCT(ResultShape, (),
                      (exit_code, stdout_, stderr_, ended, signal, core, lost_cause, limits_hit, stdout_bytes,
                       stderr_bytes, truncated, stdout_base64, stderr_base64))

/// A SandboxStreamChunk.
struct ChunkShape {
  SandboxStream stream = SandboxStream::out;
  std::string_view data;
  Omittable<std::string> data_base64;
};
BOOST_DESCRIBE_STRUCT(ChunkShape, (), (stream, data, data_base64))

/// A SandboxStreamExit.
struct ExitShape {
  int exit_code = 0;
  ExecEnd ended = ExecEnd::exited;
  std::optional<int> signal;
  bool core = false;
  std::optional<std::string> lost_cause;
  std::vector<SandboxLimit> limits_hit;
};
BOOST_DESCRIBE_STRUCT(ExitShape, (), (exit_code, ended, signal, core, lost_cause, limits_hit))

/// A SandboxError.
struct ProblemShape {
  ErrorCode code = ErrorCode::internal;
  std::string title;
  std::string_view detail;
  std::optional<std::string> field;
};
BOOST_DESCRIBE_STRUCT(ProblemShape, (), (code, title, detail, field))

}  // namespace caisson::wire
