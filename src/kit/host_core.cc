// The cleaner's thread, and the making and ending of a Host's shared parts.
#include "kit/host_core.h"

#include <algorithm>
#include <utility>

#include "caisson/contract/errors.h"
#include "kit/threads.h"
#include "os/probe.h"
#include "os/rlimits.h"
#include "os/self.h"
#include "os/signals.h"

namespace caisson::kit {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds shortest_pause{1};
constexpr milliseconds longest_pause{100};
constexpr std::chrono::seconds end_patience{2};
constexpr std::size_t file_threads = 2;
constexpr std::size_t session_threads = 2;

}  // namespace

HostCleaner::HostCleaner(os::CgroupLeafPool* pool)
    : pool_(pool), thread_(start_thread(&HostCleaner::work, this)) {}

HostCleaner::~HostCleaner() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  news_.notify_one();
  thread_.join();
}

void HostCleaner::take(os::Process ending, std::optional<os::CgroupLeaf> leaf) noexcept {
  {
    const std::lock_guard lock(mutex_);
    arrived_.push_back({std::move(ending), std::move(leaf)});
  }
  news_.notify_one();
}

void HostCleaner::recycle(os::CgroupLeaf leaf) noexcept {
  pool_->give_back(std::move(leaf));
  if (pool_->untidy()) tidy_soon();
}

void HostCleaner::tidy_soon() noexcept {
  {
    const std::lock_guard lock(mutex_);
    untidy_ = true;
  }
  news_.notify_one();
}

void HostCleaner::work() {
  std::vector<Ending> waiting;
  bool retry = false;
  milliseconds pause = shortest_pause;
  std::optional<std::chrono::steady_clock::time_point> end;
  std::unique_lock lock(mutex_);
  for (;;) {
    // What is dying makes no news: it is looked at again and again, ever less often.
    const auto news = [this] { return stopping_ || untidy_ || !arrived_.empty(); };
    if (waiting.empty() && !retry) {
      news_.wait(lock, news);
    } else if (stopping_) {
      news_.wait_for(lock, shortest_pause);
    } else {
      pause = news_.wait_for(lock, pause, news) ? shortest_pause : std::min(pause * 2, longest_pause);
    }
    const bool stopping = stopping_;
    bool untidy = std::exchange(untidy_, false) || retry;
    std::move(arrived_.begin(), arrived_.end(), std::back_inserter(waiting));
    arrived_.clear();
    lock.unlock();

    std::erase_if(waiting, [&](Ending& ending) {
      if (!ending.process.try_reap()) return false;
      if (ending.leaf) pool_->give_back(std::move(*ending.leaf));
      untidy = true;
      return true;
    });
    // At the end the pool removes what it has.
    retry = pool_ != nullptr && !stopping && untidy && !pool_->tidy();
    const auto now = std::chrono::steady_clock::now();
    if (stopping && !end) end = now + end_patience;

    lock.lock();
    if (stopping && ((waiting.empty() && arrived_.empty()) || now >= *end)) return;
  }
}

void log_to(const Log& log, LogLevel level, const std::string& message) {
  if (log) log(level, message);
}

void prepare_host_program(const Log& log) {
  const std::string missing = os::missing_requirement(os::probe_kernel());
  if (!missing.empty()) throw SandboxError(ErrorCode::unavailable, missing);
  const auto raised = os::raise_descriptor_limit();
  if (!raised) {
    log_to(log, LogLevel::warning,
           "the descriptor limit stays as it is, raising it failed: " + raised.error().message());
  }
  if (!os::children_are_waitable()) {
    log_to(log, LogLevel::warning,
           "the host program ignores SIGCHLD or has set SA_NOCLDWAIT: where the kernel is older than Linux "
           "6.15 the exit of a command is lost");
  }
}

HostCore::HostCore(std::unique_ptr<os::CgroupLeafPool> pool) : owner_(os::own_pid()), pool_(std::move(pool)) {
  const os::SignalsBlockedForNewThreads blocked;
  cleaner_ = std::make_unique<HostCleaner>(pool_.get());
  files_ = std::make_unique<Workers>(file_threads);
  sessions_ = std::make_unique<Workers>(session_threads);
  spawners_ = std::make_unique<Workers>(std::max<std::size_t>(2, std::thread::hardware_concurrency()));
}

HostCore::~HostCore() {
  if (!forked()) return;
  // The threads to join do not exist here.
  [[maybe_unused]] const auto* const cleaner = cleaner_.release();
  [[maybe_unused]] const auto* const files = files_.release();
  [[maybe_unused]] const auto* const sessions = sessions_.release();
  [[maybe_unused]] const auto* const spawners = spawners_.release();
}

bool HostCore::forked() const noexcept { return os::own_pid() != owner_; }

}  // namespace caisson::kit
