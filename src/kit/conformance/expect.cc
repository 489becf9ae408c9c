// What a check says when it is not satisfied: values as text, and the typing of failures.
#include "kit/conformance/expect.h"

#include <boost/asio/error.hpp>
#include <boost/system/system_error.hpp>

namespace caisson::kit::conformance {
namespace {

constexpr std::size_t shown_bytes = 160;

std::string escaped(unsigned char byte) {
  constexpr std::string_view digits = "0123456789abcdef";
  if (byte == '\n') return "\\n";
  if (byte == '"' || byte == '\\') return std::string("\\") + static_cast<char>(byte);
  if (byte >= 0x20 && byte < 0x7f) return std::string(1, static_cast<char>(byte));
  return std::string("\\x") + digits[byte >> 4U] + digits[byte & 0xfU];
}

std::string join(const std::vector<ErrorCode>& codes) {
  std::string joined;
  for (const ErrorCode code : codes) joined += (joined.empty() ? "" : " or ") + show(code);
  return joined;
}

Refusal refusal_of(const SandboxError& error) {
  Refusal refusal;
  refusal.code = error.code();
  refusal.message = error.what();
  refusal.field = error.field();
  refusal.spec_rejected = dynamic_cast<const SandboxSpecRejectedError*>(&error) != nullptr;
  if (const auto* missing = dynamic_cast<const SandboxSessionNotFoundError*>(&error)) {
    refusal.missing_session = missing->session_id();
  }
  return refusal;
}

}  // namespace

std::string show(std::string_view bytes) {
  std::string shown = "\"";
  for (const char byte : bytes.substr(0, shown_bytes)) shown += escaped(static_cast<unsigned char>(byte));
  shown += '"';
  if (bytes.size() > shown_bytes) shown += " (" + std::to_string(bytes.size()) + " bytes)";
  return shown;
}

std::string show(const char* bytes) { return show(std::string_view(bytes)); }

std::string show(bool value) { return value ? "true" : "false"; }

std::string show(const std::vector<std::string>& values) {
  std::string shown;
  for (const std::string& value : values) shown += (shown.empty() ? "" : ", ") + show(value);
  return "[" + shown + "]";
}

std::string show(const Labels& labels) {
  std::string shown;
  for (const auto& [key, value] : labels) shown += (shown.empty() ? "" : ", ") + key + "=" + show(value);
  return "{" + shown + "}";
}

std::string show(ErrorCode code) { return std::string(to_string(code)); }

std::string show(ExecEnd how) { return std::string(to_string(how)); }

void expect(bool holds, const std::string& what) {
  if (!holds) throw Failure(what);
}

void expect_contains(std::string_view what, std::string_view seen, std::string_view part) {
  if (seen.find(part) != std::string_view::npos) return;
  throw Failure(std::string(what) + ": expected " + show(part) + " in it, saw " + show(seen));
}

void expect_lacks(std::string_view what, std::string_view seen, std::string_view part) {
  if (seen.find(part) == std::string_view::npos) return;
  throw Failure(std::string(what) + ": expected no " + show(part) + " in it, saw " + show(seen));
}

std::string describe(const std::exception_ptr& error) {
  if (!error) return "no failure";
  try {
    std::rethrow_exception(error);
  } catch (const Failure& failure) {
    return failure.what();
  } catch (const SandboxError& failure) {
    return "SandboxError " + show(failure.code()) + ": " + failure.what();
  } catch (const boost::system::system_error& failure) {
    return std::string("system_error: ") + failure.what();
  } catch (const std::exception& failure) {
    return std::string("an exception outside the SandboxError family: ") + failure.what();
  } catch (...) {
    return "an exception that is no std::exception";
  }
}

Refusal expect_typed(std::string_view call, const Caught& seen) {
  if (!seen.error) throw Failure(std::string(call) + ": expected a SandboxError, saw success");
  try {
    std::rethrow_exception(seen.error);
  } catch (const SandboxError& error) {
    return refusal_of(error);
  } catch (...) {
    throw Failure(std::string(call) + ": expected a SandboxError, saw " + describe(seen.error));
  }
}

Refusal expect_code(std::string_view call, const Caught& seen, const std::vector<ErrorCode>& codes) {
  if (!seen.error) {
    throw Failure(std::string(call) + ": expected a SandboxError " + join(codes) + ", saw success");
  }
  Refusal refusal = expect_typed(call, seen);
  for (const ErrorCode code : codes) {
    if (refusal.code == code) return refusal;
  }
  throw Failure(std::string(call) + ": expected " + join(codes) + ", saw " + describe(seen.error));
}

Refusal expect_code(std::string_view call, const Caught& seen, ErrorCode code) {
  return expect_code(call, seen, std::vector<ErrorCode>{code});
}

bool was_cancelled(const Caught& seen) {
  if (!seen.error) return false;
  try {
    std::rethrow_exception(seen.error);
  } catch (const boost::system::system_error& error) {
    return error.code() == boost::asio::error::operation_aborted;
  } catch (...) {
    return false;
  }
}

}  // namespace caisson::kit::conformance
