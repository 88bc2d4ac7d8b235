// The traces of all ranks as one file for browsers to draw, on the clock of rank 0. Hosts share no clock. The recorded events
// bound the distance between clocks: in no agreement does a rank hear of another one before the other one has begun.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "parallax/session/trace.hpp"

namespace parallax::inline v0_2 {

// The distance by which the clock of a rank is ahead of rank 0's, and the greatest error of this distance, in ns. For clocks
// drifting while a trace lasts, the half-width is the drift.
struct ClockOffset {
  // The distance ahead of rank 0's clock; negative: behind rank 0's.
  std::int64_t offset = 0;
  // The greatest distance of the true offset from `offset`.
  std::int64_t half_width = 0;
  // The number of agreements used; 0: none is in both traces, and nothing is known.
  std::size_t agreements = 0;
};

namespace detail {

// An agreement as one rank knows it, by its own clock: when it began to tell the others, and when it had heard of all.
struct Meeting {
  std::int64_t begun, heard;
};
// The meetings by operation, its number, and how many phases of it came before.
using Meetings = std::map<std::tuple<std::string, std::uint64_t, std::size_t>, Meeting>;

// Returns the agreements of a rank's trace. Leaves out operations found twice, as of two sessions with counts of their own.
Meetings meetings_of(std::span<TraceEvent const> events);

// Returns the distance by which the clock of the rank of `theirs` is ahead of the rank's of `first`. In an agreement each has
// heard after the other began, by any clock. So the difference is at most the time from our beginning to their hearing, and at
// least the negative of the time from their beginning to our hearing.
ClockOffset offset_of(Meetings const& theirs, Meetings const& first);

}  // namespace detail

// Collective, and waits. Returns at rank 0 the events of all ranks on its clock, as a whole file in the Trace Event Format of
// Chrome (JSON); elsewhere an empty text. Its `otherData.clocks` has for each rank the microseconds by which its clock was
// found ahead of rank 0's (offset_us), their greatest error (half_width_us), and the number of agreements behind both. Needs a
// step or a pull in all traces, and nothing is sent for it before. Every rank has a trace of the same operations. Throws the
// communicator's errors.
std::string merged(Trace const& trace);

}  // namespace parallax

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/interop/merged_trace-inl.hpp"
#endif
