// Bodies of parallax/interop/merged_trace.hpp.
#pragma once

#include "parallax/interop/merged_trace.hpp"

namespace parallax::inline v0_2::detail {

PARALLAX_INLINE Meetings meetings_of(std::span<TraceEvent const> events) {
  Meetings found;
  std::set<std::pair<std::string, std::uint64_t>> seen, twice;
  std::size_t phases = 0;
  for (std::size_t i = 0; i < events.size(); ++i) {
    TraceEvent const& event = events[i];
    std::pair<std::string, std::uint64_t> const operation{event.operation.text(), event.number};
    if (event.kind == TraceEvent::called) {
      phases = 0;
      if (!seen.insert(operation).second) twice.insert(operation);
    }
    ++phases;
    if (i + 1 == events.size() || events[i + 1].number != event.number || events[i + 1].kind != TraceEvent::advanced) continue;
    auto const leads = [&](Phase from, Phase to) {
      return event.phase.text() == to_string(from) && events[i + 1].phase.text() == to_string(to);
    };
    if (leads(Phase::agreeing, Phase::exchanging) || leads(Phase::committing, Phase::applying))
      found[{operation.first, operation.second, phases}] = {event.at, events[i + 1].seen};
  }
  std::erase_if(found, [&](auto const& one) { return twice.count({std::get<0>(one.first), std::get<1>(one.first)}) > 0; });
  return found;
}

PARALLAX_INLINE ClockOffset offset_of(Meetings const& theirs, Meetings const& first) {
  ClockOffset found;
  std::int64_t least = std::numeric_limits<std::int64_t>::min(), most = std::numeric_limits<std::int64_t>::max();
  for (auto const& [key, meeting] : theirs) {
    auto const other = first.find(key);
    if (other == first.end()) continue;
    ++found.agreements;
    most = std::min(most, meeting.heard - other->second.begun);
    least = std::max(least, meeting.begun - other->second.heard);
  }
  if (found.agreements == 0) return found;
  std::int64_t const width = most - least;
  found.offset = least + width / 2;
  found.half_width = (width < 0 ? -width : width) / 2 + 1;
  return found;
}

}  // namespace parallax::detail

namespace parallax::inline v0_2 {

PARALLAX_INLINE std::string merged(Trace const& trace) {
  std::int64_t const host = trace.host();
  auto const events = std::as_bytes(trace.recorded());
  std::vector<std::byte> mine(sizeof host + events.size());
  std::memcpy(mine.data(), &host, sizeof host);
  if (!events.empty()) std::memcpy(mine.data() + sizeof host, events.data(), events.size());
  std::string text, clocks;
  detail::Meetings first;
  int rank = 0;
  for (std::vector<std::byte> const& told : trace.gather(mine)) {
    std::int64_t its_host = 0;
    std::memcpy(&its_host, told.data(), sizeof its_host);
    std::vector<TraceEvent> its((told.size() - sizeof its_host) / sizeof(TraceEvent));
    if (!its.empty()) std::memcpy(its.data(), told.data() + sizeof its_host, its.size() * sizeof(TraceEvent));
    detail::Meetings meetings = detail::meetings_of(its);
    if (rank == 0) first = meetings;
    ClockOffset clock = detail::offset_of(meetings, first);
    if (rank == 0) clock.offset = clock.half_width = 0;
    std::string const part = detail::trace_text(its, rank, static_cast<int>(its_host), -clock.offset);
    (text += text.empty() || part.empty() ? "" : ",\n") += part;
    (clocks += clocks.empty() ? "" : ",\n") += "{\"rank\": " + std::to_string(rank) +
                                               ", \"offset_us\": " + detail::microseconds(clock.offset) +
                                               ", \"half_width_us\": " + detail::microseconds(clock.half_width) +
                                               ", \"agreements\": " + std::to_string(clock.agreements) + "}";
    ++rank;
  }
  if (rank == 0) return {};
  return "{\"traceEvents\": [\n" + text + "\n],\n\"otherData\": {\"clocks\": [\n" + clocks + "\n]}}\n";
}

}  // namespace parallax
