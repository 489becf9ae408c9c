// How every verb speaks: output and errors, plain or JSON, and the exit codes.
#pragma once

#include <boost/json/value.hpp>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>

#include "caisson/contract/errors.h"
#include "caisson/kit/log.h"
#include "os/fd.h"

namespace caisson::cli {

inline constexpr int exit_some_failed = 1;  ///< doctor, conformance, reap: done, and not all is well.
inline constexpr int exit_usage = 2;        ///< Wrong usage.
inline constexpr int exit_timeout = 124;    ///< The command was killed at its timeout, as timeout(1) says it.
inline constexpr int exit_failure = 125;    ///< Caisson refused or failed, as env(1) and its like say it.
inline constexpr int exit_not_executable = 126;
inline constexpr int exit_not_found = 127;
inline constexpr int exit_signal_base = 128;  ///< 128 + N: ended by signal N.
/// Nobody reads our output any more: what a shell shows of a program that SIGPIPE (13) ended.
inline constexpr int exit_output_closed = exit_signal_base + 13;

/// What `run` exits with when Caisson could not run the command or cut it short.
int exit_code_of(ErrorCode code) noexcept;

/// The command line is wrong.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Thrown when the reader of our standard output is gone.
class OutputClosed : public std::exception {
 public:
  const char* what() const noexcept override { return "standard output is closed"; }
};

/// Thrown when standard output cannot be written to. No SandboxError, which --json would print there.
class OutputFailed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// To standard output, whole. Throws OutputClosed, or OutputFailed for what else fails.
void print(std::string_view text);
/// One value on one line.
void print_json(const boost::json::value& value);
/// A line to standard error, after "caisson: ". What fails is nobody's to hear.
void complain(std::string_view line) noexcept;
/// An error: the human line to standard error; with `json` the problem to standard output too.
void report(const SandboxError& error, bool json);

/// Colours, where `stream` is a terminal that wants them: NO_COLOR unset or empty, TERM not "dumb".
class Style {
 public:
  static Style of(os::FdRef stream);
  explicit Style(bool colour) noexcept : colour_(colour) {}
  std::string good(std::string_view text) const { return paint("32", text); }
  std::string warn(std::string_view text) const { return paint("33", text); }
  std::string bad(std::string_view text) const { return paint("1;31", text); }
  std::string faint(std::string_view text) const { return paint("2", text); }

 private:
  std::string paint(const char* code, std::string_view text) const;
  bool colour_;
};

/// A log that goes to standard error: all of it, or errors alone.
kit::Log stderr_log(bool verbose);

}  // namespace caisson::cli
