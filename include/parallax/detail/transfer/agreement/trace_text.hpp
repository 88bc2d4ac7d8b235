// The events of a journal, in words that browsers draw. A session's Trace includes it, and so does the merging of several
// ranks' traces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "parallax/detail/comm/journal.hpp"
#include "parallax/detail/core/algorithm.hpp"

namespace parallax::detail {

// Pure. Returns microseconds with three decimals.
inline std::string microseconds(std::int64_t ns) {
  std::int64_t const size = ns < 0 ? -ns : ns;
  std::string const fraction = std::to_string(size % 1000);
  return (ns < 0 ? "-" : "") + std::to_string(size / 1000) + '.' + std::string(3 - fraction.size(), '0') + fraction;
}

// Pure. Returns by how many ns the clock of these events is ahead of rank 0's. It is 0 where that may be. An agreement ends after
// rank 0 has begun it, so the difference is at most the time from that beginning to this end. And rank 0 begins one after the one
// before it has ended, which was after this rank had begun: so the difference is at least the time from the later to the earlier.
inline std::int64_t ahead_of_first(std::span<TraceEvent const> events) {
  std::int64_t least = std::numeric_limits<std::int64_t>::min(), most = std::numeric_limits<std::int64_t>::max();
  TraceEvent const* earlier = nullptr;
  for (std::size_t i = 1; i < events.size(); ++i) {
    if (events[i].first.low == 0) continue;
    most = std::min(most, events[i].first.behind(events[i].seen));
    if (earlier) least = std::max(least, events[i].first.behind(earlier->at));
    earlier = &events[i - 1];
  }
  return most == std::numeric_limits<std::int64_t>::max() || (least <= 0 && most >= 0) ? 0 : most;
}

// Pure. Returns events of a rank in the Trace Event Format of Chrome, `later` ns later than they say: elements of a JSON array,
// one a line, with a comma behind each but the last.
inline std::string trace_text(std::span<TraceEvent const> events, int rank, int host, std::int64_t later) {
  std::string text;
  std::size_t called = 0;
  auto const add = [&](std::string_view name, TraceEvent const& from, TraceEvent const& to) {
    (((text += text.empty() ? "" : ",\n") += "{\"name\": \"") += name) +=
        "\", \"ph\": \"X\", \"ts\": " + microseconds(from.at + later);
    text += ", \"dur\": " + microseconds(to.at - from.at) + ", \"pid\": " + std::to_string(host) +
            ", \"tid\": " + std::to_string(rank);
    text += ", \"args\": {\"operation\": " + std::to_string(to.number) + ", \"bytes\": " + std::to_string(to.bytes) + "}}";
  };
  for (std::size_t i = 0; i < events.size(); ++i) {
    TraceEvent const& event = events[i];
    if (event.kind == TraceEvent::called) called = i;
    if (event.kind == TraceEvent::done) add(event.operation.text(), events[called], event);
    else if (i + 1 < events.size() && events[i + 1].number == event.number) add(event.phase.text(), event, events[i + 1]);
  }
  return text;
}

}  // namespace parallax::detail
