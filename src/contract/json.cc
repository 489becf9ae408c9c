// The models' JSON, out of the described reader and writer.
#include "caisson/contract/json.h"

#include <array>
#include <utility>

#include "caisson/contract/text.h"
#include "caisson/contract/validate.h"
#include "contract/base64.h"
#include "contract/json_document.h"
#include "contract/json_reader.h"
#include "contract/json_shapes.h"
#include "contract/json_writer.h"

namespace caisson {

template <>
struct wire::OptionalFields<SandboxSessionSpec> {
  static constexpr std::array<std::string_view, 6> names{"env", "network",   "isolation",
                                                         "cpu", "memory_mb", "labels"};
};

namespace {

wire::Omittable<std::string> base64_unless_text(std::string_view bytes) {
  if (is_utf8(bytes)) return {};
  return {base64(bytes)};
}

std::optional<std::string> lost_cause(const ExecEnded& ended) {
  if (ended.how != ExecEnd::lost) return std::nullopt;
  return ended.lost_cause;
}

/// "session_not_found" as a heading: "Session not found".
std::string title_of(ErrorCode code) {
  std::string title(to_string(code));
  for (char& c : title) {
    if (c == '_') c = ' ';
  }
  title.front() = static_cast<char>(title.front() - 'a' + 'A');
  return title;
}

}  // namespace

template <>
SandboxSessionSpec from_json<SandboxSessionSpec>(std::string_view text) {
  try {
    const wire::Document document(text);
    auto spec = wire::read_model<SandboxSessionSpec>(document.root(), "");
    validate(spec);
    return spec;
  } catch (const SandboxSpecRejectedError&) {
    throw;
  } catch (const SandboxError& error) {
    throw SandboxSpecRejectedError(error.code(), error.what(), error.field());
  }
}

template <>
SandboxSessionInfo from_json<SandboxSessionInfo>(std::string_view text) {
  const wire::Document document(text);
  return wire::read_model<SandboxSessionInfo>(document.root(), "");
}

template <>
SandboxPolicy from_json<SandboxPolicy>(std::string_view text) {
  const wire::Document document(text);
  return wire::read_model<SandboxPolicy>(document.root(), "");
}

boost::json::value to_json(const SandboxSessionInfo& info) { return wire::write(info); }

boost::json::value to_json(const SandboxPolicy& policy) { return wire::write(policy); }

boost::json::value to_json(const ExecResult& result) {
  return wire::write(wire::ResultShape{.exit_code = result.exit_code,
                                       .stdout_ = result.out,
                                       .stderr_ = result.err,
                                       .ended = result.ended.how,
                                       .signal = result.ended.signal,
                                       .core = result.ended.core,
                                       .lost_cause = lost_cause(result.ended),
                                       .limits_hit = result.ended.limits_hit,
                                       .stdout_bytes = result.stdout_bytes,
                                       .stderr_bytes = result.stderr_bytes,
                                       .truncated = result.truncated,
                                       .stdout_base64 = base64_unless_text(result.out),
                                       .stderr_base64 = base64_unless_text(result.err)});
}

boost::json::value to_json(const SandboxStreamChunk& chunk) {
  return wire::write(wire::ChunkShape{
      .stream = chunk.stream, .data = chunk.data, .data_base64 = base64_unless_text(chunk.data)});
}

boost::json::value to_json(const SandboxStreamExit& exit) {
  return wire::write(wire::ExitShape{.exit_code = exit.exit_code,
                                     .ended = exit.ended.how,
                                     .signal = exit.ended.signal,
                                     .core = exit.ended.core,
                                     .lost_cause = lost_cause(exit.ended),
                                     .limits_hit = exit.ended.limits_hit});
}

boost::json::value to_json(const SandboxError& error) {
  std::optional<std::string> field;
  if (!error.field().empty()) field = error.field();
  return wire::write(wire::ProblemShape{.code = error.code(),
                                        .title = title_of(error.code()),
                                        .detail = error.what(),
                                        .field = std::move(field)});
}

}  // namespace caisson
