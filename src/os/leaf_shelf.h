// LeafShelf: leaves ready for use, and those that wait for their removal.
#pragma once

#include <cstddef>
#include <iterator>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace caisson::os {

/// Thread-safe. What making and removing a leaf is, is the caller's: both happen without the lock.
template <class Leaf>
class LeafShelf {
 public:
  /// `ahead`: how many are to be ready.
  explicit LeafShelf(std::size_t ahead) noexcept : ahead_(ahead) {}

  /// A ready one, if there is one.
  std::optional<Leaf> take() {
    const std::lock_guard lock(mutex_);
    if (ready_.empty()) return std::nullopt;
    std::optional<Leaf> leaf(std::move(ready_.back()));
    ready_.pop_back();
    return leaf;
  }
  /// Makes a clean leaf ready, unless too many are.
  void give_back(Leaf leaf) {
    const std::lock_guard lock(mutex_);
    (ready_.size() < ahead_ + most_spare ? ready_ : aside_).push_back(std::move(leaf));
  }
  /// For one that is to be removed.
  void put_aside(Leaf leaf) {
    const std::lock_guard lock(mutex_);
    aside_.push_back(std::move(leaf));
  }
  /// Whether tidy() would have something to do.
  bool untidy() const noexcept {
    const std::lock_guard lock(mutex_);
    return !aside_.empty() || ready_.size() < ahead_;
  }
  /// Removes those put aside and makes some ready. `remove(leaf)` says whether it is gone for good; `make()`
  /// gives an optional or a result. True when nothing is left to do, but for leaves that cannot be had.
  template <class Remove, class Make>
  bool tidy(Remove remove, Make make) {
    std::vector<Leaf> aside;
    {
      const std::lock_guard lock(mutex_);
      aside.swap(aside_);
    }
    std::erase_if(aside, remove);
    const bool all_removed = aside.empty();
    {
      const std::lock_guard lock(mutex_);
      std::move(aside.begin(), aside.end(), std::back_inserter(aside_));
    }
    for (;;) {
      {
        const std::lock_guard lock(mutex_);
        if (ready_.size() >= ahead_) return all_removed;
      }
      auto leaf = make();
      // One that cannot be had now is the next exec's to ask for, and to say so.
      if (!leaf) return all_removed;
      const std::lock_guard lock(mutex_);
      ready_.push_back(std::move(*leaf));
    }
  }
  /// Drops all of them.
  void clear() noexcept {
    std::vector<Leaf> ready;
    std::vector<Leaf> aside;
    const std::lock_guard lock(mutex_);
    ready.swap(ready_);
    aside.swap(aside_);
  }

 private:
  // Beyond those made ahead, how many used leaves wait for the next exec; each holds some descriptors.
  static constexpr std::size_t most_spare = 16;

  const std::size_t ahead_;
  mutable std::mutex mutex_;
  std::vector<Leaf> ready_;
  std::vector<Leaf> aside_;
};

}  // namespace caisson::os
