// A clock that goes on only while a rank is stuck, and waits for the others: deadlines pass, and the machine has no say in it.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace parallax_test {

// The time of ranks of which one gets stuck. It stands still until then; from then on it goes on by a tick whenever every other
// one has looked at it, however long that takes on a busy machine. Safe from several threads.
class Lockstep {
 public:
  Lockstep(int ranks, std::chrono::nanoseconds tick) : tick_{tick}, seen_(static_cast<std::size_t>(ranks)) {}

  // The time since a rank got stuck, for this rank.
  std::chrono::nanoseconds look(int rank) {
    std::int64_t now = ticks_.load();
    auto& mine = seen_[static_cast<std::size_t>(rank)];
    if (mine.load() != gone) mine.store(now);
    if (running_ && std::ranges::all_of(seen_, [&](auto const& seen) { return seen.load() >= now; }))
      ticks_.compare_exchange_strong(now, now + 1);
    return now * tick_;
  }
  // The rank is stuck, and time begins.
  void begin(int stuck) {
    leave(stuck);
    running_ = true;
  }
  // Time does not wait for this rank any more.
  void leave(int rank) { seen_[static_cast<std::size_t>(rank)] = gone; }

 private:
  static constexpr std::int64_t gone = std::numeric_limits<std::int64_t>::max();

  std::chrono::nanoseconds const tick_;
  std::atomic<std::int64_t> ticks_{0};
  std::atomic<bool> running_{false};
  std::vector<std::atomic<std::int64_t>> seen_;  // by rank
};

}  // namespace parallax_test
