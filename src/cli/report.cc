// How every verb speaks.
#include "cli/report.h"

#include <boost/json/serialize.hpp>
#include <cstdlib>

#include "caisson/contract/json.h"
#include "os/console.h"

namespace caisson::cli {

int exit_code_of(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::timeout:
      return exit_timeout;
    case ErrorCode::command_not_found:
      return exit_not_found;
    case ErrorCode::not_executable:
    case ErrorCode::bad_format:
    case ErrorCode::argument_list_too_long:
      return exit_not_executable;
    default:
      return exit_failure;
  }
}

void print(std::string_view text) {
  const auto written = os::write_all(os::standard_output, text);
  if (written) return;
  if (written.error() == os::error_of(EPIPE)) throw OutputClosed();
  throw OutputFailed("cannot write to standard output: " + written.error().message());
}

void print_json(const boost::json::value& value) { print(boost::json::serialize(value) + "\n"); }

void complain(std::string_view line) noexcept {
  std::string text("caisson: ");
  text.append(line).push_back('\n');
  (void)os::write_all(os::standard_error, text);
}

void report(const SandboxError& error, bool json) {
  complain(error.what());
  if (json) print_json(to_json(error));
}

Style Style::of(os::FdRef stream) {
  const char* const no_color = std::getenv("NO_COLOR");
  const char* const term = std::getenv("TERM");
  const bool wanted = no_color == nullptr || *no_color == '\0';
  const bool able = term != nullptr && std::string_view(term) != "dumb";
  return Style(wanted && able && os::is_terminal(stream));
}

std::string Style::paint(const char* code, std::string_view text) const {
  if (!colour_) return std::string(text);
  return "\x1b[" + std::string(code) + "m" + std::string(text) + "\x1b[0m";
}

kit::Log stderr_log(bool verbose) {
  return [verbose](kit::LogLevel level, const std::string& message) {
    if (verbose || level == kit::LogLevel::error) complain(std::string(to_string(level)) + ": " + message);
  };
}

}  // namespace caisson::cli
