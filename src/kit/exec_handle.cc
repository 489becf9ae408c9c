// The handle of an interactive exec.
#include "kit/exec_handle.h"

namespace caisson::kit {
namespace {

Awaitable<void> signal_exec(std::shared_ptr<Exec> exec, int number) {
  exec->signal(number);
  co_return;
}

Awaitable<void> resize_exec(std::shared_ptr<Exec> exec, TtySize size) {
  exec->resize(size);
  co_return;
}

template <class T>
Awaitable<T> call(std::shared_ptr<Exec> exec, Awaitable<T> body) {
  exec->require_own_process();
  co_return co_await on_strand(exec->strand(), std::move(body));
}

// What is there already is taken without a turn on the strand.
Awaitable<std::optional<SandboxStreamItem>> next_item(std::shared_ptr<Exec> exec) {
  exec->require_own_process();
  std::optional<SandboxStreamItem> ready = exec->take_ready();
  if (ready) co_return ready;
  co_return co_await on_strand(exec->strand(), Exec::next(exec));
}

// While it lives nothing that comes after it overtakes it.
class Writing {
 public:
  explicit Writing(std::shared_ptr<Exec> exec) : exec_(std::move(exec)) { exec_->begin_writing(); }
  ~Writing() { exec_->end_writing(); }
  Writing(const Writing&) = delete;
  Writing& operator=(const Writing&) = delete;

 private:
  std::shared_ptr<Exec> exec_;
};

Awaitable<void> write(std::shared_ptr<Exec> exec, std::string data) {
  exec->require_own_process();
  if (exec->write_now(data)) co_return;
  const Writing writing(exec);
  co_await on_strand(exec->strand(), Exec::write_stdin(exec, std::move(data)));
}

Awaitable<void> close_input(std::shared_ptr<Exec> exec) {
  exec->require_own_process();
  const Writing writing(exec);
  co_await on_strand(exec->strand(), Exec::close_stdin(exec));
}

class Output final : public SandboxOutput {
 public:
  explicit Output(std::shared_ptr<Exec> exec) : exec_(std::move(exec)) {}
  Awaitable<std::optional<SandboxStreamItem>> next() override { return next_item(exec_); }

 private:
  std::shared_ptr<Exec> exec_;
};

class Handle final : public SandboxExecHandle {
 public:
  explicit Handle(std::shared_ptr<Exec> exec) : exec_(std::move(exec)), output_(exec_) {}
  ~Handle() override { exec_->abandon(); }

  Awaitable<void> write_stdin(std::string data) override { return write(exec_, std::move(data)); }
  Awaitable<void> close_stdin() override { return close_input(exec_); }
  SandboxOutput& output() override { return output_; }
  Awaitable<void> kill() override { return call(exec_, Exec::kill(exec_)); }
  Awaitable<void> signal(int number) override { return call(exec_, signal_exec(exec_, number)); }
  Awaitable<void> resize(TtySize size) override { return call(exec_, resize_exec(exec_, size)); }

 private:
  std::shared_ptr<Exec> exec_;
  Output output_;
};

}  // namespace

std::unique_ptr<SandboxExecHandle> make_exec_handle(std::shared_ptr<Exec> exec) {
  return std::make_unique<Handle>(std::move(exec));
}

}  // namespace caisson::kit
