// Failures in words: an errno alone would not tell which of many steps or options it was.
#pragma once

#include <string>

#include "os/result.h"

namespace caisson::os {

/// Why something could not be done.
struct ExplainedError {
  int number;        ///< errno
  std::string text;  ///< The step, and the kernel's or a program's own words where it has some: "creating
                     ///< devpts with gid=7: devpts: Invalid gid '7'".
};
template <class T>
using ExplainedResult = boost::system::result<T, ExplainedError>;

/// "<step>: <words>", or what the errno says where there are no words.
inline ExplainedError explained(int number, std::string step, const std::string& words = {}) {
  step += ": ";
  step += words.empty() ? error_of(number).message() : words;
  return {number, std::move(step)};
}
inline ExplainedError explained(const Error& error, std::string step) {
  return explained(error.value(), std::move(step));
}

[[noreturn]] inline void throw_exception_from_error(const ExplainedError& error,
                                                    const boost::source_location&) {
  throw boost::system::system_error(error_of(error.number), error.text);
}

}  // namespace caisson::os
