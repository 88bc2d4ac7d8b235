// An AsyncSession's options beside the consistency, the logs that they name, and its owners' counts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "parallax/detail/step/options.hpp"

namespace parallax::inline v0_2 {

// The order of an owner's service: recorded by one run, and followed by another, which then has the same bits. Each rank that
// owns something gives its AsyncSession a log of its own; tests write logs by hand. Owns its entries, eight bytes each.
class RunLog {
 public:
  // An owner's deed: it took a push, answered a pull, or was left.
  enum class Kind : std::uint8_t { push, answer, leave };
  // One deed. Workers are counted from 0, clocks are as in the worker's letters: at most 2^14 of the one, 2^48 of the other.
  struct Entry {
    // Number of the worker.
    int worker;
    // Kind of the deed.
    Kind kind;
    // Pushes of the worker before it.
    std::int64_t clock;

    friend bool operator==(Entry const&, Entry const&) = default;
  };

  // Returns the number of entries.
  std::size_t size() const { return entries_.size(); }
  // Returns entry i, 0 <= i < size(), unchecked.
  Entry operator[](std::size_t i) const {
    std::uint64_t const entry = entries_[i];
    return {static_cast<int>(entry >> 50), static_cast<Kind>(entry >> 48 & 3), static_cast<std::int64_t>(entry & low)};
  }
  // Adds an entry behind the last one.
  void add(Entry const& entry) {
    entries_.push_back(static_cast<std::uint64_t>(entry.worker) << 50 | static_cast<std::uint64_t>(entry.kind) << 48 |
                       (static_cast<std::uint64_t>(entry.clock) & low));
  }
  // Adds an entry given as one of `numbers()`.
  void add(std::uint64_t number) { entries_.push_back(number); }
  // Forgets all.
  void clear() { entries_.clear(); }
  // Returns the entries as numbers, valid until the log changes: to write to a file, and to give back by `RunLog{numbers}`.
  std::vector<std::uint64_t> const& numbers() const { return entries_; }

  RunLog() = default;
  // Makes a log of kept numbers.
  explicit RunLog(std::vector<std::uint64_t> numbers) : entries_{std::move(numbers)} {}

 private:
  static constexpr std::uint64_t low = (std::uint64_t{1} << 48) - 1;
  std::vector<std::uint64_t> entries_;
};

// Factor of a push that is an update of its own, by its age at its owner: the number of updates there between its worker's
// reading and the push. `one`: none. `by_staleness`: 1 / age, of an age of at least 2 (Zhang et al., IJCAI 2016).
enum class PushScale : unsigned char { one, by_staleness };

// Options of an AsyncSession. Equal on all ranks, except the logs.
struct AsyncOptions {
  // Treatment of a gradient that is not finite, by a push.
  NonFinite non_finite = NonFinite::propagate;
  // Factor of old pushes.
  PushScale scale = PushScale::one;
  // Options of the Session given by `together`.
  SessionOptions session = {};
  // Log of this rank's order of service, if it owns something; null: none. Outlives the session.
  RunLog* record = nullptr;
  // Log to follow in its service; null: the letters' own order. A deviation from the log is an Error (mismatch), which ends the
  // session. Outlives the session.
  RunLog const* replay = nullptr;
};

// An owner's counts of its service. Never reset.
struct ServiceCounts {
  // By worker and age, of ages below 64 and of all others together: the number of its pushes of this age. If the pushes of a
  // clock are one update, nothing is counted.
  std::vector<std::vector<std::uint64_t>> ages;
  // By worker: the number of its pulls that had to wait for others.
  std::vector<std::uint64_t> waits;
  // By worker: the number of its pushes with a part in an update.
  std::vector<std::uint64_t> taken;
  // By worker: the number of its pushes that came too late for the quorum of their clock.
  std::vector<std::uint64_t> dropped;
};

}  // namespace parallax
