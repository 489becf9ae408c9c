// OutputWriter: the command's output to our standard output and error, by a thread that may block.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "caisson/contract/awaitable.h"
#include "caisson/contract/models.h"
#include "kit/event.h"
#include "os/fd.h"

namespace caisson::cli {

/// Writes in order, on a thread of its own: O_NONBLOCK would change the caller's terminal or pipe for every
/// process that shares it. A reader that is slow holds write() back, and so the command.
class OutputWriter {
 public:
  /// Bytes that wait at most, unless the limit is lifted.
  static constexpr std::size_t limit = 1U << 20;

  struct Targets {
    os::FdRef out;
    os::FdRef err;
  };
  /// `failed` is called once, on `executor`, when a write fails.
  OutputWriter(boost::asio::any_io_executor executor, Targets targets, std::function<void(os::Error)> failed);
  OutputWriter(const OutputWriter&) = delete;
  OutputWriter& operator=(const OutputWriter&) = delete;
  ~OutputWriter();

  /// Queues `data`, waiting for room first. After a failure it takes everything and writes nothing.
  Awaitable<void> write(SandboxStream stream, std::string data);
  /// Until all is written, or a write has failed.
  Awaitable<void> drain();
  /// Whether drain() would return at once.
  bool drained();
  /// From now on write() does not wait: what is still to come is known to be little.
  void lift_limit();
  /// Asks the thread to end, what is queued unwritten; false if it is held up in a write. Then only the end
  /// of the process ends it: leave by std::_Exit.
  bool stop();

 private:
  // Shared with the thread, which may outlive this.
  struct State;
  static void work(std::shared_ptr<State> state);

  std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace caisson::cli
