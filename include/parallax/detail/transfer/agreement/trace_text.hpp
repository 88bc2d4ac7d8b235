// The events of a journal, in the words of browsers' trace viewers. A session's Trace includes it, and so does the merging of
// several ranks' traces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "parallax/detail/comm/journal.hpp"
#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/core/text.hpp"

namespace parallax::inline v0_2::detail {

// Pure. Returns microseconds with three decimals.
std::string microseconds(std::int64_t ns);

// Pure. Returns the lead of these events' clock over rank 0's in ns. It is 0 if it can be. An agreement ends after rank 0 has
// begun it, so the difference is at most the time from this beginning to this end. And rank 0 begins an agreement after the one
// before it has ended, which was after this rank had begun: so the difference is at least the time from the later to the
// earlier.
std::int64_t ahead_of_first(std::span<TraceEvent const> events);

// Pure. Returns events of a rank in the Trace Event Format of Chrome, `later` ns later than they say: elements of a JSON array,
// one a line, with a comma behind each but the last.
std::string trace_text(std::span<TraceEvent const> events, int rank, int host, std::int64_t later);

}  // namespace parallax::detail

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/transfer/agreement/trace_text-inl.hpp"
#endif
