// InputReader: a thread that reads our standard input.
#include "cli/input_reader.h"

#include <boost/asio/post.hpp>
#include <utility>

#include "caisson/contract/errors.h"
#include "os/console.h"

namespace caisson::cli {

struct InputReader::State {
  State(boost::asio::any_io_executor loop, os::FdRef from) : executor(loop), input(from), changed(loop) {}

  const boost::asio::any_io_executor executor;
  const os::FdRef input;

  std::mutex mutex;
  std::condition_variable wake;
  std::optional<os::Result<std::string>> ready;
  bool stopping = false;

  kit::Event changed;  ///< On the loop only.
};

namespace {

os::Pipe stop_pipe() {
  auto pipe = os::make_pipe();
  if (!pipe) throw SandboxError(ErrorCode::internal, "cannot make a pipe: " + pipe.error().message());
  return std::move(*pipe);
}

// Nothing when told to stop.
std::optional<os::Result<std::string>> read_piece(os::FdRef input, os::FdRef stop) {
  const auto readable = os::wait_readable(input, stop);
  if (!readable) return readable.error();
  if (!*readable) return std::nullopt;
  std::string data(InputReader::piece, '\0');
  const auto size = os::read_some(input, data.data(), data.size());
  if (!size) return size.error();
  data.resize(*size);
  return os::Result<std::string>(std::move(data));
}

}  // namespace

InputReader::InputReader(boost::asio::any_io_executor executor, os::FdRef input)
    : stop_(stop_pipe()),
      state_(std::make_shared<State>(std::move(executor), input)),
      thread_(work, state_, os::FdRef(stop_.read)) {}

InputReader::~InputReader() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
    state_->wake.notify_one();
  }
  stop_.write.reset();
  thread_.join();
}

void InputReader::work(std::shared_ptr<State> state, os::FdRef stop) {
  for (;;) {
    auto got = read_piece(state->input, stop);
    if (!got) return;
    const bool last = !*got || (*got)->empty();
    std::unique_lock lock(state->mutex);
    state->ready = std::move(got);
    boost::asio::post(state->executor, [state] { state->changed.notify(); });
    if (last) return;
    state->wake.wait(lock, [&state] { return state->stopping || !state->ready; });
    if (state->stopping) return;
  }
}

Awaitable<std::string> InputReader::read() {
  const auto state = state_;
  for (;;) {
    std::optional<os::Result<std::string>> got;
    {
      const std::lock_guard lock(state->mutex);
      const bool more = state->ready && *state->ready && !(*state->ready)->empty();
      // The end, and a failure, stay: nothing comes after them.
      got = more ? std::exchange(state->ready, std::nullopt) : state->ready;
      state->wake.notify_one();
    }
    if (got && *got) co_return std::move(**got);
    if (got) {
      throw SandboxError(ErrorCode::internal, "cannot read standard input: " + got->error().message());
    }
    co_await state->changed.wait();
  }
}

}  // namespace caisson::cli
