// Habits of checks about how long sessions live and how they end.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "kit/conformance/context.h"
#include "kit/conformance/shell.h"

namespace caisson::kit::conformance {

/// Sessions that expire while a check waits have this ttl; the checks let twice that time pass.
inline constexpr std::int64_t short_ttl_seconds = 1;
inline constexpr std::chrono::seconds past_short_ttl{2};

inline SandboxSessionSpec brief(SandboxSessionSpec spec) {
  spec.ttl_seconds = short_ttl_seconds;
  return spec;
}

inline Awaitable<UtcTime> deadline_of(SessionPtr session) {
  const SandboxSessionInfo info = co_await session->info();
  co_return info.expires_at;
}

/// A call on a session that is no more, which either error says.
template <class T>
Awaitable<void> refuses(std::string call, Awaitable<T> work) {
  const std::vector<ErrorCode> codes{ErrorCode::session_destroyed, ErrorCode::session_not_found};
  co_await refused(std::move(call), std::move(work), codes);
}

/// NotRun where a session cannot see another's workspace by its path.
inline void need_shared_paths(const Context& context) {
  if (context.profile().own_root) throw NotRun("each session has a root of its own, so none sees another's");
}

/// Expects `path`, as a command of `witness` sees it, to be there or not.
inline Awaitable<void> expect_path(Context context, SessionPtr witness, std::string path, bool there,
                                   std::string what) {
  const std::string seen =
      co_await output_of(context, witness, "if test -e '" + path + "'; then echo there; else echo gone; fi");
  expect_equal(what, seen, there ? "there\n" : "gone\n");
}

}  // namespace caisson::kit::conformance
