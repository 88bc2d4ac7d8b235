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

namespace parallax {

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

// Returns the agreements of a trace. Leaves out operations found twice, as in a trace of two sessions with counts of their own.
inline Meetings meetings_of(std::span<TraceEvent const> events) {
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

// Returns the distance by which the clock of `theirs` is ahead of `first`'s. In an agreement each has heard after the other
// began, by any clock. So the difference is at most the time from our beginning to their hearing, and at least the negative of
// the time from their beginning to our hearing.
inline ClockOffset offset_of(Meetings const& theirs, Meetings const& first) {
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

}  // namespace detail

// Collective. Returns at rank 0 the events of all ranks on its clock, as a whole file in the Trace Event Format of Chrome
// (JSON); elsewhere an empty text. Its `otherData.clocks` has for each rank the microseconds by which its clock was found ahead
// of rank 0's (offset_us), their greatest error (half_width_us), and the number of agreements behind both. Needs a step or a
// pull in all traces, and nothing is sent for it before. Every rank has a trace of the same operations. Throws the
// communicator's errors.
inline std::string merged(Trace const& trace) {
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
