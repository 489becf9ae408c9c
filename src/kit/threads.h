// start_thread: threads whose want is a typed error.
#pragma once

#include <system_error>
#include <thread>
#include <utility>

#include "caisson/contract/errors.h"

namespace caisson::kit {

/// std::thread's constructor. Throws SandboxError (unavailable) when no more threads can be had.
template <class... Arguments>
std::thread start_thread(Arguments&&... arguments) {
  try {
    return std::thread(std::forward<Arguments>(arguments)...);
  } catch (const std::system_error& error) {
    throw SandboxError(ErrorCode::unavailable,
                       "no more threads can be started: " + error.code().message() +
                           "; raise the limit of this user's processes (ulimit -u) or of memory (ulimit -v)");
  }
}

}  // namespace caisson::kit
