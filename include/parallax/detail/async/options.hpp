// An AsyncSession's options beside the consistency, and its owners' counts.
#pragma once

#include <cstdint>
#include <vector>

#include "parallax/detail/async/run_log.hpp"
#include "parallax/detail/step/options.hpp"

namespace parallax::inline v0_2 {

// Factor of a push that is an update of its own, by its age at its owner: the number of updates there between its worker's
// reading and the push. `one`: none. `by_staleness`: 1 / age, of an age of at least 2 (Zhang et al., IJCAI 2016).
enum class PushScale : unsigned char { one, by_staleness };

// Equal on all ranks, except the logs.
struct AsyncOptions {
  // Treatment of a gradient that is not finite, by a push.
  NonFinite non_finite = NonFinite::propagate;
  // Rates of old pushes.
  PushScale scale = PushScale::one;
  // Of the Session of `together`.
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
