// InputReader: our standard input, read by a thread that may block.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "caisson/contract/awaitable.h"
#include "kit/event.h"
#include "os/fd.h"

namespace caisson::cli {

/// Reads one piece ahead, never more, so that little is taken from a caller's input that the command does not
/// want. A thread of its own, since O_NONBLOCK would change the input for every process that shares it.
class InputReader {
 public:
  /// Bytes of a piece at most.
  static constexpr std::size_t piece = 1U << 16;

  InputReader(boost::asio::any_io_executor executor, os::FdRef input);
  InputReader(const InputReader&) = delete;
  InputReader& operator=(const InputReader&) = delete;
  /// Ends the thread, which waits in poll, not in read.
  ~InputReader();

  /// The next piece; empty at the end. Throws SandboxError (internal) for what cannot be read.
  Awaitable<std::string> read();

 private:
  struct State;
  static void work(std::shared_ptr<State> state, os::FdRef stop);

  os::Pipe stop_;
  std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace caisson::cli
