// What a check says when it is not satisfied.
#pragma once

#include <concepts>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "caisson/contract/awaitable.h"
#include "caisson/contract/errors.h"
#include "caisson/contract/models.h"

namespace caisson::kit::conformance {

/// The provider broke the rule.
class Failure : public std::runtime_error {
 public:
  explicit Failure(const std::string& what) : std::runtime_error(what) {}
};

/// The check cannot be run against this provider.
class NotRun : public std::runtime_error {
 public:
  explicit NotRun(const std::string& why) : std::runtime_error(why) {}
};

/// Values as they stand in a failure: bytes quoted, escaped and shortened.
std::string show(std::string_view bytes);
/// Not left to conversions: a pointer would rather become a bool.
std::string show(const char* bytes);
std::string show(bool value);
std::string show(const std::vector<std::string>& values);
std::string show(const Labels& labels);
std::string show(ErrorCode code);
std::string show(ExecEnd how);
template <std::integral Number>
std::string show(Number number) {
  return std::to_string(number);
}

void expect(bool holds, const std::string& what);

template <class Seen, class Wanted>
void expect_equal(std::string_view what, const Seen& seen, const Wanted& wanted) {
  if (seen == wanted) return;
  throw Failure(std::string(what) + ": expected " + show(wanted) + ", saw " + show(seen));
}
void expect_contains(std::string_view what, std::string_view seen, std::string_view part);
void expect_lacks(std::string_view what, std::string_view seen, std::string_view part);

/// How a call ended that should fail.
struct Caught {
  std::exception_ptr error;  ///< Null when it did not.
  std::string what;
};

template <class T>
Awaitable<Caught> caught(Awaitable<T> call) {
  Caught seen;
  try {
    co_await std::move(call);
  } catch (const std::exception& error) {
    seen.error = std::current_exception();
    seen.what = error.what();
  } catch (...) {
    seen.error = std::current_exception();
  }
  co_return seen;
}

/// Any failure as one line: type, code, message.
std::string describe(const std::exception_ptr& error);

/// What a refused call threw.
struct Refusal {
  ErrorCode code = ErrorCode::internal;
  std::string message;
  std::string field;
  bool spec_rejected = false;   ///< It was a SandboxSpecRejectedError.
  std::string missing_session;  ///< The id in a SandboxSessionNotFoundError.
};

/// Failure unless `seen` is a SandboxError; `call` says what was tried.
Refusal expect_typed(std::string_view call, const Caught& seen);
Refusal expect_code(std::string_view call, const Caught& seen, ErrorCode code);
Refusal expect_code(std::string_view call, const Caught& seen, const std::vector<ErrorCode>& codes);

/// Awaits `call` and expects it to be refused with one of `codes`.
template <class T>
Awaitable<Refusal> refused(std::string what, Awaitable<T> call, std::vector<ErrorCode> codes) {
  const Caught seen = co_await caught(std::move(call));
  co_return expect_code(what, seen, codes);
}
template <class T>
Awaitable<Refusal> refused(std::string what, Awaitable<T> call, ErrorCode code) {
  const Caught seen = co_await caught(std::move(call));
  co_return expect_code(what, seen, code);
}

/// Whether it ended with Asio's operation_aborted, as a cancelled call must.
bool was_cancelled(const Caught& seen);

}  // namespace caisson::kit::conformance
