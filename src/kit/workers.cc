// The threads of Workers.
#include "caisson/kit/workers.h"

#include "kit/threads.h"

namespace caisson::kit {

Workers::Workers(std::size_t threads)
    : queue_(static_cast<int>(threads)), open_(boost::asio::make_work_guard(queue_)) {
  try {
    threads_.reserve(threads);
    while (threads_.size() < threads) threads_.push_back(start_thread([this] { queue_.run(); }));
  } catch (...) {
    join();
    throw;
  }
}

Workers::~Workers() { join(); }

void Workers::wait_idle() noexcept {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return calls_ == 0; });
}

void Workers::count(int change) noexcept {
  const std::lock_guard lock(mutex_);
  calls_ += change;
  if (calls_ == 0) idle_.notify_all();
}

void Workers::join() noexcept {
  open_.reset();
  for (std::thread& thread : threads_) thread.join();
}

}  // namespace caisson::kit
