// OutputQueue: the chunks of an interactive exec between its pump and its reader (S-60, S-61).
#pragma once

#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>

#include "caisson/contract/models.h"

namespace caisson::kit {

/// Thread-safe, so that a reader takes what is ready without a turn on the session's strand for each chunk.
class OutputQueue {
 public:
  /// What waits for a reader before the command is held up, in bytes.
  static constexpr std::size_t limit = 1 << 20;

  void push(SandboxStreamChunk chunk);
  bool full() const;
  /// Whether the pump must wait for room; pop() then says when there is some.
  bool hold_up();

  struct Popped {
    std::optional<SandboxStreamChunk> chunk;
    bool room = false;  ///< The pump that was held up is to be woken: half of the queue is free.
  };
  /// For the one reader.
  Popped pop();
  /// The same for a newcomer: nothing while a reader is at it.
  Popped pop_unless_read();

  /// One reader at a time: false when there is one already.
  bool begin_reading();
  void end_reading();

 private:
  Popped pop_locked();

  mutable std::mutex mutex_;
  std::deque<SandboxStreamChunk> chunks_;
  std::size_t bytes_ = 0;
  bool held_up_ = false;
  bool reading_ = false;
};

}  // namespace caisson::kit
