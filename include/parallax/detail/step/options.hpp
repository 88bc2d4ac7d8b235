// What a session's user may choose about its steps: given to the constructor of a Session, and read by its flights.
#pragma once

#include <cstdint>

#include "parallax/detail/policy/auto/choice.hpp"
#include "parallax/detail/policy/bucket/dense_bucket.hpp"

namespace parallax::inline v0_2 {

// What a step does about a gradient that holds an infinity or what is not a number, after it was summed over ranks (where the
// vendor sums, on every rank alike). `propagate`: nothing is looked at. `skip_step`: no rank updates anything, `step` returns
// false. `error`: gradients are looked at before they are sent, too, so that the rank that brought it is named; nothing is
// changed.
enum class NonFinite : unsigned char { propagate, skip_step, error };

// What a mean is over while some ranks have joined: all ranks of the session, or those that still have data.
enum class JoinDivisor : unsigned char { world, active };

// Alike on all ranks, which is checked. May be changed between operations.
struct SessionOptions {
  // How dense gradients are fused into transfers.
  FusionOptions fusion = {};
  // What is done about a gradient that is not finite.
  NonFinite non_finite = NonFinite::propagate;
  // What means are over while some ranks have joined.
  JoinDivisor join_divisor = JoinDivisor::world;
  // When and how variables under Auto go over from policy to policy.
  AutoOptions choice = {};
  // Whether the first update of a variable compares a checksum of what each rank's replica begins with, so that a forgotten
  // `broadcast` is an error (mismatch) and no silence: one pass over the memory, no message and no byte. Of variables made from
  // now on, in memory of the host.
  bool compare_replicas = true;
  // The number of updates of a variable between two comparisons of replicas. After so many the next update compares a checksum
  // of each rank's replica, values and slots. A replica that has gone astray, by broken memory or by what a program did to it,
  // is an error (mismatch). It names the variable and the ranks, and that update is not applied. A pass over the memory each
  // time, no message and no byte; rows that an exact optimizer has left behind are settled for it. 0: never. Likewise of
  // variables made from now on, in memory of the host.
  std::int64_t compare_replicas_every = 0;

  bool operator==(SessionOptions const&) const = default;
};

}  // namespace parallax
