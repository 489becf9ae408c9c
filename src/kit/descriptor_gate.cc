// The queue of execs that wait for descriptors.
#include "kit/descriptor_gate.h"

#include <algorithm>
#include <chrono>

namespace caisson::kit {
namespace {

// How often the head tries on its own: the host program's descriptors come free without a word to us.
constexpr std::chrono::milliseconds retry_interval{20};

}  // namespace

struct DescriptorGate::Ticket::Waiter {
  explicit Waiter(Strand where) : strand(std::move(where)), timer(strand) {}
  Strand strand;
  boost::asio::steady_timer timer;  // on the strand
};

DescriptorGate::Ticket& DescriptorGate::Ticket::operator=(Ticket&& other) noexcept {
  std::swap(gate_, other.gate_);
  std::swap(waiter_, other.waiter_);
  return *this;
}

DescriptorGate::Ticket::~Ticket() {
  if (waiter_) gate_->leave(waiter_);
}

bool DescriptorGate::contended() const {
  std::lock_guard lock(mutex_);
  return !queue_.empty();
}

Awaitable<DescriptorGate::Ticket> DescriptorGate::enter(std::shared_ptr<DescriptorGate> gate, Strand strand) {
  Ticket ticket;
  ticket.gate_ = gate;
  ticket.waiter_ = std::make_shared<Ticket::Waiter>(strand);
  {
    std::lock_guard lock(gate->mutex_);
    gate->queue_.push_back(ticket.waiter_);
  }
  for (;;) {
    {
      std::lock_guard lock(gate->mutex_);
      if (gate->queue_.front() == ticket.waiter_) break;
    }
    co_await wait_for_room(ticket);
  }
  co_return ticket;
}

Awaitable<void> DescriptorGate::wait_for_room(const Ticket& ticket) { return wait_on(ticket.waiter_); }

Awaitable<void> DescriptorGate::wait_on(std::shared_ptr<Ticket::Waiter> waiter) {
  waiter->timer.expires_after(retry_interval);
  co_await waiter->timer.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
  co_await throw_if_cancelled();
}

void DescriptorGate::released() {
  std::lock_guard lock(mutex_);
  wake_head_locked();
}

void DescriptorGate::leave(const std::shared_ptr<Ticket::Waiter>& waiter) noexcept {
  std::lock_guard lock(mutex_);
  std::erase(queue_, waiter);
  wake_head_locked();
}

void DescriptorGate::wake_head_locked() {
  if (queue_.empty()) return;
  boost::asio::post(queue_.front()->strand, [waiter = queue_.front()] { waiter->timer.cancel(); });
}

}  // namespace caisson::kit
