// Filling a pool of boxes, and passing them on.
#include "providers/container/box_pool.h"

#include <utility>

#include "os/clock.h"
#include "providers/container/host_image.h"

namespace caisson::container {
namespace {

kit::SessionRecord ended(const std::string& id) {
  kit::SessionRecord record;
  record.id = id;
  record.spec.durability = SandboxDurability::ephemeral;
  return record;
}

}  // namespace

BoxPool::BoxPool(std::size_t size, std::shared_ptr<kit::Clock> clock, kit::Log log, Work work)
    : size_(size), clock_(std::move(clock)), log_(std::move(log)), work_(std::move(work)) {}

std::optional<std::string> BoxPool::reserve(const SandboxSessionSpec& spec) {
  const bool like_them = spec.image == host_image && spec.durability == SandboxDurability::ephemeral &&
                         !spec.cpu && !spec.memory_mb;
  if (!like_them) return std::nullopt;
  const std::string host = host_image_version();
  for (;;) {
    Waiting waiting;
    {
      const std::lock_guard lock(mutex_);
      if (ready_.empty()) return std::nullopt;
      waiting = std::move(ready_.back());
      ready_.pop_back();
      if (waiting.host == host && !waiting.box->process()->ended()) {
        reserved_[waiting.id] = std::move(waiting.box);
        return waiting.id;
      }
    }
    end_soon(waiting.id);
  }
}

std::shared_ptr<ContainerBox> BoxPool::take(const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto at = reserved_.find(id);
  if (at == reserved_.end()) return nullptr;
  auto box = std::move(at->second);
  reserved_.erase(at);
  return box;
}

void BoxPool::refill() {
  {
    const std::lock_guard lock(mutex_);
    if (stopped_ || filling_ || ready_.size() >= size_) return;
    filling_ = true;
  }
  work_.run_in_background(fill(shared_from_this()), "making boxes ahead");
}

Awaitable<void> BoxPool::fill(std::shared_ptr<BoxPool> self) {
  std::string failure;
  try {
    while (self->begin_one()) co_await make_one(self);
  } catch (const std::exception& error) {
    failure = error.what();
  }
  if (failure.empty()) co_return;
  self->stop_filling();
  kit::log_to(self->log_, kit::LogLevel::info, "no box is made ahead now: " + failure);
}

Awaitable<void> BoxPool::make_one(std::shared_ptr<BoxPool> self) {
  kit::SessionRecord record = self->new_record();
  Waiting waiting;
  waiting.id = record.id;
  waiting.host = host_image_version();
  waiting.box = co_await self->work_.make(std::move(record));
  const bool kept = self->keep(waiting);
  if (kept) co_return;
  kit::SessionRecord unwanted = ended(waiting.id);
  co_await self->work_.end(std::move(unwanted));
}

kit::SessionRecord BoxPool::new_record() const {
  kit::SessionRecord record = ended(os::random_hex_id());
  record.spec.image = host_image;
  record.spec.network = SandboxNetwork::none;
  record.spec.isolation = SandboxIsolation::container;
  record.created_at = clock_->utc();
  return record;
}

// Whether another is to be made.
bool BoxPool::begin_one() {
  const std::lock_guard lock(mutex_);
  if (!stopped_ && ready_.size() < size_) return true;
  filling_ = false;
  return false;
}

bool BoxPool::keep(Waiting& waiting) {
  const std::lock_guard lock(mutex_);
  if (stopped_) return false;
  // The oldest is passed on first.
  ready_.insert(ready_.begin(), std::move(waiting));
  return true;
}

void BoxPool::stop_filling() noexcept {
  const std::lock_guard lock(mutex_);
  filling_ = false;
}

void BoxPool::end_soon(const std::string& id) {
  work_.run_in_background(work_.end(ended(id)), "ending a box that was made ahead");
}

void BoxPool::stop() noexcept {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
}

void BoxPool::end_all() noexcept {
  std::vector<std::string> left;
  {
    const std::lock_guard lock(mutex_);
    for (Waiting& waiting : ready_) left.push_back(std::move(waiting.id));
    for (auto& [id, box] : reserved_) left.push_back(id);
    ready_.clear();
    reserved_.clear();
  }
  for (const std::string& id : left) {
    try {
      work_.end_now(id);
    } catch (const std::exception& error) {
      kit::log_to(log_, kit::LogLevel::error,
                  std::string("a box that was made ahead is left: ") + error.what());
    }
  }
}

}  // namespace caisson::container
