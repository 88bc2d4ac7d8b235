// Choices of a session's user about its steps: given to the constructor of a Session, and read by its flights.
#pragma once

#include <cstdint>

#include "parallax/detail/policy/auto/choice.hpp"
#include "parallax/detail/policy/bucket/dense_bucket.hpp"

namespace parallax::inline v0_2 {

// Reaction of a step to a gradient with an infinity or a NaN, after it was summed over ranks (in the vendor's sums on every
// rank alike). `propagate`: nothing is looked at. `skip_step`: no rank updates anything, `step` returns false. `error`:
// gradients are looked at before they are sent, too, and the error names the rank of the number; nothing is changed.
enum class NonFinite : unsigned char { propagate, skip_step, error };

// Divisor of a mean while some ranks have joined: all ranks of the session, or those that still have data.
enum class JoinDivisor : unsigned char { world, active };

// Options of a session. Alike on all ranks, which is checked. May be changed between operations.
struct SessionOptions {
  // Fusion of dense gradients into transfers.
  FusionOptions fusion = {};
  // Reaction to a gradient that is not finite.
  NonFinite non_finite = NonFinite::propagate;
  // Divisor of means while some ranks have joined.
  JoinDivisor join_divisor = JoinDivisor::world;
  // Conditions for variables under Auto to go over from policy to policy.
  AutoOptions choice = {};
  // True if the first update of a variable compares a checksum of each rank's replica before it. A forgotten `broadcast` is
  // then an error (mismatch) and no silence. Costs one pass over the memory, no message and no byte. Only variables made
  // from now on, in memory of the host, follow it.
  bool compare_replicas = true;
  // Number of updates of a variable between two comparisons of replicas. After so many the next update compares a checksum of
  // each rank's replica, values and slots. A replica gone astray, by broken memory or by an act of the program, is an error
  // (mismatch). It names the variable and the ranks, and the update is not applied. Costs a pass over the memory each time, no
  // message and no byte; rows left behind by an exact optimizer are settled for it. 0: never. Only variables made from now on,
  // in memory of the host, follow it.
  std::int64_t compare_replicas_every = 0;

  bool operator==(SessionOptions const&) const = default;
};

}  // namespace parallax
