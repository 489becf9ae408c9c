// The event loop thread behind the blocking facade.
#include "facade/engine.h"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_future.hpp>
#include <future>
#include <stdexcept>
#include <vector>

#include "caisson/kit/reaper.h"
#include "kit/threads.h"
#include "os/self.h"
#include "os/signals.h"

namespace caisson::blocking {

// The reaper on the loop, and how it is ended: the signal is emitted there, and its end waited for.
class Engine::ReaperTask {
 public:
  static std::shared_ptr<ReaperTask> start(boost::asio::io_context& context, const Opened& opened,
                                           kit::Log log) {
    auto task = std::make_shared<ReaperTask>();
    auto body = kit::run_reaper(opened.sandbox, opened.clock, opened.reap_interval, std::move(log));
    boost::asio::co_spawn(context, std::move(body),
                          boost::asio::bind_cancellation_slot(task->signal_.slot(), Ended{task}));
    return task;
  }

  void stop(boost::asio::io_context& context) {
    boost::asio::post(context, [this] { signal_.emit(boost::asio::cancellation_type::terminal); });
    ended_.wait();
  }

 private:
  struct Ended {
    void operator()(std::exception_ptr) const { task->ended_.set(nullptr, true); }
    std::shared_ptr<ReaperTask> task;
  };
  boost::asio::cancellation_signal signal_;
  Completion<bool> ended_;
};

void Engine::run_loop(std::shared_ptr<Loop> loop, kit::Log log) {
  for (;;) {
    try {
      loop->context.run();
      return;
    } catch (const std::exception& error) {
      if (log) log(kit::LogLevel::error, std::string("the event loop caught: ") + error.what());
    }
  }
}

Sandbox Engine::open(const Opener& opener, kit::Log log) {
  return Sandbox(std::make_shared<Engine>(opener, std::move(log)));
}

Engine::Engine(const Opener& opener, kit::Log log)
    : pid_(os::own_pid()), log_(std::move(log)), loop_(std::make_shared<Loop>()) {
  const Opened opened = opener(loop_->context.get_executor());
  sandbox_ = opened.sandbox;
  reaper_ = ReaperTask::start(loop_->context, opened, log_);
  const os::SignalsBlockedForNewThreads blocked;
  thread_ = kit::start_thread(run_loop, loop_, log_);
}

Engine::~Engine() {
  if (os::own_pid() != pid_) {
    // The thread does not exist here and what the sandbox names is the parent's.
    abandon(std::move(sandbox_));
    abandon(std::move(reaper_));
    abandon(std::move(loop_));
    abandon(std::make_shared<std::thread>(std::move(thread_)));
    return;
  }
  if (sandbox_ && is_usable()) close();
  loop_->work.reset();
  loop_->context.stop();
  if (thread_.get_id() == std::this_thread::get_id()) {
    abandon(std::move(sandbox_));
    thread_.detach();
  } else {
    thread_.join();
  }
}

Engine& Engine::usable(const std::shared_ptr<Engine>& engine) {
  if (!engine) throw std::logic_error("caisson::blocking: the object was moved from");
  if (os::own_pid() != engine->pid_) {
    throw SandboxError(
        ErrorCode::unavailable,
        "the sandbox was opened before a fork and cannot be used in the child: open one in the child");
  }
  if (engine->thread_.get_id() == std::this_thread::get_id()) {
    throw std::logic_error(
        "caisson::blocking: a blocking call on the event loop's own thread would wait for itself");
  }
  return *engine;
}

bool Engine::is_usable() const noexcept {
  return os::own_pid() == pid_ && thread_.get_id() != std::this_thread::get_id();
}

void Engine::run_quietly(Awaitable<void> call, const char* what) noexcept {
  try {
    run(std::move(call));
  } catch (const std::exception& error) {
    if (log_) log_(kit::LogLevel::error, std::string(what) + " failed: " + error.what());
  }
}

void Engine::drop(std::shared_ptr<void> object) noexcept {
  if (!object) return;
  Completion<bool> dropped;
  boost::asio::post(loop_->context, [&dropped, object = std::move(object)]() mutable {
    object.reset();
    dropped.set(nullptr, true);
  });
  dropped.wait();
}

Awaitable<void> Engine::release_session(std::shared_ptr<caisson::Sandbox> sandbox, std::string id) {
  std::shared_ptr<SandboxSession> session;
  try {
    session = co_await sandbox->get_session(id);
  } catch (const SandboxSessionNotFoundError&) {
    co_return;  // It has ended meanwhile.
  }
  co_await session->release();
}

void Engine::release_sessions() {
  const auto infos = run(sandbox_->list_sessions());
  std::vector<std::future<void>> releases;
  for (const SandboxSessionInfo& info : infos) {
    releases.push_back(
        boost::asio::co_spawn(loop_->context, release_session(sandbox_, info.id), boost::asio::use_future));
  }
  for (std::future<void>& release : releases) {
    try {
      release.get();
    } catch (const std::exception& error) {
      if (log_) log_(kit::LogLevel::error, std::string("releasing a session failed: ") + error.what());
    }
  }
}

void Engine::close() noexcept {
  if (auto reaper = std::exchange(reaper_, nullptr)) reaper->stop(loop_->context);
  if (!sandbox_) return;
  try {
    // While the loop runs, so that commands under way end as session_destroyed; the sandbox's own end is for
    // what is left.
    release_sessions();
  } catch (const std::exception& error) {
    if (log_) log_(kit::LogLevel::error, std::string("releasing the sessions failed: ") + error.what());
  }
  // On this thread: a provider's destructor blocks until its sessions are gone, which the loop works on
  // meanwhile.
  sandbox_.reset();
}

void Engine::abandon(std::shared_ptr<void> object) noexcept {
  static auto* const kept = new std::vector<std::shared_ptr<void>>();
  static auto* const guard = new std::mutex();
  if (!object) return;
  const std::lock_guard lock(*guard);
  kept->push_back(std::move(object));
}

}  // namespace caisson::blocking
