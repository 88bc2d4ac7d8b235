// Bodies of parallax/detail/transfer/agreement/trace_text.hpp.
#pragma once

#include "parallax/detail/transfer/agreement/trace_text.hpp"

namespace parallax::inline v0_2::detail {

PARALLAX_INLINE std::string microseconds(std::int64_t ns) {
  std::int64_t const size = ns < 0 ? -ns : ns;
  return joined({ns < 0 ? "-" : "", size / 1000, ".", size / 100 % 10, size / 10 % 10, size % 10});
}

PARALLAX_INLINE std::int64_t ahead_of_first(std::span<TraceEvent const> events) {
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

PARALLAX_INLINE std::string trace_text(std::span<TraceEvent const> events, int rank, int host, std::int64_t later) {
  std::string text;
  std::size_t called = 0;
  auto const add = [&](std::string_view name, TraceEvent const& from, TraceEvent const& to) {
    append(text, {text.empty() ? "" : ",\n", "{\"name\": \"", name, "\", \"ph\": \"X\", \"ts\": ",
                  microseconds(from.at + later), ", \"dur\": ", microseconds(to.at - from.at), ", \"pid\": ", host,
                  ", \"tid\": ", rank, ", \"args\": {\"operation\": ", to.number, ", \"bytes\": ", to.bytes, "}}"});
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
