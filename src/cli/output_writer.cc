// OutputWriter: a thread that writes the command's output.
#include "cli/output_writer.h"

#include <boost/asio/post.hpp>
#include <utility>

namespace caisson::cli {

struct OutputWriter::State {
  State(boost::asio::any_io_executor loop, Targets to, std::function<void(os::Error)> on_failure)
      : executor(loop), targets(to), failed(std::move(on_failure)), changed(loop) {}

  struct Piece {
    SandboxStream stream;
    std::string data;
  };

  const boost::asio::any_io_executor executor;
  const Targets targets;
  const std::function<void(os::Error)> failed;

  std::mutex mutex;
  std::condition_variable wake;
  std::deque<Piece> queue;
  std::size_t queued = 0;  ///< Bytes in the queue and in the write under way.
  bool writing = false;
  bool stopping = false;
  bool broken = false;

  // On the loop only.
  kit::Event changed;
  bool unlimited = false;
};

OutputWriter::OutputWriter(boost::asio::any_io_executor executor, Targets targets,
                           std::function<void(os::Error)> failed)
    : state_(std::make_shared<State>(std::move(executor), targets, std::move(failed))),
      thread_(work, state_) {}

OutputWriter::~OutputWriter() {
  if (stop()) return;
  thread_.detach();
}

void OutputWriter::work(std::shared_ptr<State> state) {
  std::unique_lock lock(state->mutex);
  for (;;) {
    state->wake.wait(lock, [&state] { return state->stopping || !state->queue.empty(); });
    if (state->stopping) return;
    const State::Piece piece = std::move(state->queue.front());
    state->queue.pop_front();
    state->writing = true;
    lock.unlock();
    const auto written = os::write_all(
        piece.stream == SandboxStream::out ? state->targets.out : state->targets.err, piece.data);
    lock.lock();
    state->writing = false;
    state->queued -= piece.data.size();
    if (!written && !state->broken) {
      state->broken = true;
      boost::asio::post(state->executor, [state, error = written.error()] { state->failed(error); });
    }
    if (state->broken) {
      state->queue.clear();
      state->queued = 0;
    }
    boost::asio::post(state->executor, [state] { state->changed.notify(); });
  }
}

Awaitable<void> OutputWriter::write(SandboxStream stream, std::string data) {
  const auto state = state_;
  for (;;) {
    {
      const std::lock_guard lock(state->mutex);
      if (state->broken) co_return;
      if (state->queued < limit || state->unlimited) {
        state->queued += data.size();
        state->queue.push_back({stream, std::move(data)});
        state->wake.notify_one();
        co_return;
      }
    }
    co_await state->changed.wait();
  }
}

Awaitable<void> OutputWriter::drain() {
  const auto state = state_;
  while (!drained()) co_await state->changed.wait();
}

bool OutputWriter::drained() {
  const std::lock_guard lock(state_->mutex);
  return state_->broken || state_->queued == 0;
}

void OutputWriter::lift_limit() {
  state_->unlimited = true;
  state_->changed.notify();
}

bool OutputWriter::stop() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
    state_->wake.notify_one();
    if (state_->writing) return false;
  }
  if (thread_.joinable()) thread_.join();
  return true;
}

}  // namespace caisson::cli
