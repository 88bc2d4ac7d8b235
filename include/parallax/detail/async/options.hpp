// What an AsyncSession's user may choose beside the consistency, and what its owners count.
#pragma once

#include <cstdint>
#include <vector>

#include "parallax/detail/async/run_log.hpp"
#include "parallax/detail/step/options.hpp"

namespace parallax::inline v0_2 {

// By what a push that is an update of its own is multiplied at its owner, whose age is the number of updates between those that its
// worker had read there and it. `one`: by nothing. `by_staleness`: by 1 / age, of an age of at least 2 (Zhang et al., IJCAI 2016).
enum class PushScale : unsigned char { one, by_staleness };

// Alike on all ranks, but for the logs.
struct AsyncOptions {
  // What a push does about a gradient that is not finite.
  NonFinite non_finite = NonFinite::propagate;
  // Rates of old pushes.
  PushScale scale = PushScale::one;
  // Of the Session of `together`.
  SessionOptions session = {};
  // Where this rank, if it owns something, writes down the order in which it serves; null: nowhere. Outlives the session.
  RunLog* record = nullptr;
  // The order in which it serves; null: that in which letters come. What does not fit it is an Error (mismatch), which ends the
  // session. Outlives the session.
  RunLog const* replay = nullptr;
};

// What an owner has counted while it served. Never reset.
struct ServiceCounts {
  // By worker and age, of ages below 64 and of all others together: how many of its pushes were so old. Where the pushes of a clock
  // are one update, nothing is counted.
  std::vector<std::vector<std::uint64_t>> ages;
  // By worker: how many of its pulls had to wait for others.
  std::vector<std::uint64_t> waits;
  // By worker: how many of its pushes an update was made of.
  std::vector<std::uint64_t> taken;
  // By worker: how many of its pushes came too late for the quorum of their clock.
  std::vector<std::uint64_t> dropped;
};

}  // namespace parallax
