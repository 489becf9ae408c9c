// The chunks of an interactive exec on their way to the reader.
#include "kit/output_queue.h"

#include <utility>

namespace caisson::kit {

void OutputQueue::push(SandboxStreamChunk chunk) {
  const std::lock_guard lock(mutex_);
  bytes_ += chunk.data.size();
  chunks_.push_back(std::move(chunk));
}

bool OutputQueue::full() const {
  const std::lock_guard lock(mutex_);
  return bytes_ >= limit;
}

bool OutputQueue::hold_up() {
  const std::lock_guard lock(mutex_);
  if (bytes_ < limit) return false;
  held_up_ = true;
  return true;
}

OutputQueue::Popped OutputQueue::pop_locked() {
  Popped popped;
  if (chunks_.empty()) return popped;
  popped.chunk = std::move(chunks_.front());
  chunks_.pop_front();
  bytes_ -= popped.chunk->data.size();
  // Not at every chunk: the pump then fills a good part at once.
  if (held_up_ && bytes_ <= limit / 2) popped.room = std::exchange(held_up_, false);
  return popped;
}

OutputQueue::Popped OutputQueue::pop() {
  const std::lock_guard lock(mutex_);
  return pop_locked();
}

OutputQueue::Popped OutputQueue::pop_unless_read() {
  const std::lock_guard lock(mutex_);
  return reading_ ? Popped() : pop_locked();
}

bool OutputQueue::begin_reading() {
  const std::lock_guard lock(mutex_);
  return !std::exchange(reading_, true);
}

void OutputQueue::end_reading() {
  const std::lock_guard lock(mutex_);
  reading_ = false;
}

}  // namespace caisson::kit
