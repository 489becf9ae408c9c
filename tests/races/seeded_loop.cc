// The choices of the seeded loop.
#include "tests/races/seeded_loop.h"

#include <algorithm>

namespace caisson::test {
namespace {

using namespace std::chrono_literals;

// Time is felt for in steps that grow: the kit's shortest pause is 50 us, and it is no defect to wake late.
constexpr std::chrono::nanoseconds first_pause = 50us;
constexpr std::chrono::nanoseconds longest_pause = 500ms;

}  // namespace

SeededLoop::~SeededLoop() {
  // What a handler owns may post once more when it goes.
  while (!ready_.empty()) std::vector<std::unique_ptr<Work>>().swap(ready_);
}

boost::asio::any_io_executor SeededLoop::executor() { return Executor(this); }

void SeededLoop::add(std::unique_ptr<Work> work) {
  if (on_thread()) {
    ready_.push_back(std::move(work));
    return;
  }
  const std::lock_guard lock(mutex_);
  from_beside_.push_back(std::move(work));
  changed_.notify_all();
}

void SeededLoop::advance(std::chrono::nanoseconds by) {
  steady_.advance(by);
  clock_->advance(by);
}

bool SeededLoop::step() {
  const std::lock_guard turn(turn_);
  context_.restart();
  context_.poll();
  if (ready_.empty()) return false;
  std::swap(ready_[below(ready_.size())], ready_.back());
  const std::unique_ptr<Work> work = std::move(ready_.back());
  ready_.pop_back();
  ++steps_;
  running_ = true;
  work->run();
  running_ = false;
  return true;
}

bool SeededLoop::step_in_time(std::chrono::nanoseconds patience) {
  std::chrono::nanoseconds waited{0};
  for (auto pause = first_pause; !step(); pause = std::min(pause * 2, longest_pause)) {
    if (waited >= patience) return false;
    advance(pause);
    waited += pause;
  }
  return true;
}

bool SeededLoop::run_beside(const std::function<void()>& call, const std::function<bool()>& busy,
                            bool may_poll) {
  beside_over_ = false;
  std::thread thread([this, &call] {
    call();
    const std::lock_guard lock(mutex_);
    beside_over_ = true;
    changed_.notify_all();
  });
  if (!may_poll) {  // what polls may wait for a strand that is ready here already, and posts nothing
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return beside_over_ || !from_beside_.empty(); });
  }
  bool moves = true;
  while (moves && busy()) moves = step_in_time();
  for (bool over = !may_poll; !over;) {
    take_from_beside();
    while (step_in_time(std::chrono::milliseconds(100))) {
    }
    std::this_thread::yield();
    const std::lock_guard lock(mutex_);
    over = beside_over_;
  }
  thread.join();
  take_from_beside();
  return moves;
}

void SeededLoop::take_from_beside() {
  const std::lock_guard lock(mutex_);
  for (auto& work : from_beside_) ready_.push_back(std::move(work));
  from_beside_.clear();
}

}  // namespace caisson::test
