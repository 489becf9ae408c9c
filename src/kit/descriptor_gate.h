// DescriptorGate: the queue of execs that wait for descriptors to come free (S-44).
#pragma once

#include <deque>
#include <memory>
#include <mutex>

#include "kit/event.h"
#include "kit/strand.h"

namespace caisson::kit {

/// First come, first served, across all sessions of a sandbox: the head of the queue tries again whenever an
/// exec has ended, and now and then besides, since the host program's own descriptors come and go unseen.
/// Thread-safe.
class DescriptorGate {
 public:
  /// A place in the queue, given up when destroyed.
  class Ticket {
   public:
    Ticket() = default;
    Ticket(Ticket&& other) noexcept = default;
    Ticket& operator=(Ticket&& other) noexcept;
    ~Ticket();
    explicit operator bool() const noexcept { return waiter_ != nullptr; }

   private:
    friend class DescriptorGate;
    struct Waiter;
    std::shared_ptr<DescriptorGate> gate_;
    std::shared_ptr<Waiter> waiter_;
  };

  /// Whether anybody waits: a newcomer then queues too, rather than snatch what comes free.
  bool contended() const;
  /// Queues up; completes when this is the head.
  static Awaitable<Ticket> enter(std::shared_ptr<DescriptorGate> gate, Strand strand);
  /// For the head: completes when something may have come free.
  static Awaitable<void> wait_for_room(const Ticket& ticket);
  /// An exec has given its descriptors back.
  void released();

 private:
  static Awaitable<void> wait_on(std::shared_ptr<Ticket::Waiter> waiter);
  void leave(const std::shared_ptr<Ticket::Waiter>& waiter) noexcept;
  void wake_head_locked();

  mutable std::mutex mutex_;
  std::deque<std::shared_ptr<Ticket::Waiter>> queue_;
};

}  // namespace caisson::kit
