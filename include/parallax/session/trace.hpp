// When each operation of a session began, agreed, exchanged, committed and ended: as a trace that browsers draw. A trainer
// makes a Trace for the steps that it wants to see, and writes `events` of each rank to a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "parallax/session/session.hpp"

namespace parallax {

// While it lives, the phases of the session's operations on this rank are kept, in room that is allocated once: an operation is
// no longer for it than a clock read and a store for each of its four to six phases. Where the communicator keeps journals, of
// all sessions on it. Local; must not outlive the session. One at a time.
class Trace {
 public:
  // Local. Begins to record. `capacity`: so many events; later ones are dropped and counted. Their room is allocated here.
  template <Communicator C>
  explicit Trace(Session<C>& session, std::size_t capacity = 1 << 16)
      : events_(capacity),
        room_{events_.data(), 0, capacity, 0},
        rank_{session.rank()},
        host_{session.topology().hosts()[static_cast<std::size_t>(session.rank())]},
        session_{&session},
        stop_{[](void* recorded) { static_cast<Session<C>*>(recorded)->record(nullptr); }} {
    session.record(&room_);
  }
  Trace(Trace const&) = delete;
  Trace& operator=(Trace const&) = delete;
  // Local. Ends the recording; the session goes on.
  ~Trace() { stop_(session_); }

  // Local. How many events have found no room.
  std::size_t dropped() const { return room_.dropped; }

  // Local. This rank's events in the Trace Event Format of Chrome (chrome://tracing, Perfetto): complete events, a process for
  // each host and a thread for each rank, microseconds of the communicator's clock. They are elements of a JSON array, one a
  // line, with a comma behind each but the last: those of several ranks are joined by ",\n" and stand between [ and ].
  std::string events() const {
    std::string text;
    std::size_t called = 0;
    for (std::size_t i = 0; i < room_.size; ++i) {
      TraceEvent const& event = events_[i];
      if (event.kind == TraceEvent::called) called = i;
      if (event.kind == TraceEvent::done) {
        add(text, event.operation.text(), events_[called], event);
      } else if (i + 1 < room_.size && events_[i + 1].number == event.number) {
        add(text, event.phase.text(), event, events_[i + 1]);
      }
    }
    return text;
  }

 private:
  // Appends one complete event: what `name` says lasted from one recorded event to another.
  void add(std::string& text, std::string_view name, TraceEvent const& from, TraceEvent const& to) const {
    auto const us = [](std::int64_t ns) {
      std::string const fraction = std::to_string(ns % 1000);
      return std::to_string(ns / 1000) + '.' + std::string(3 - fraction.size(), '0') + fraction;
    };
    (((text += text.empty() ? "" : ",\n") += "{\"name\": \"") += name) += "\", \"ph\": \"X\", \"ts\": " + us(from.at);
    text += ", \"dur\": " + us(to.at - from.at) + ", \"pid\": " + std::to_string(host_) + ", \"tid\": " + std::to_string(rank_);
    text += ", \"args\": {\"operation\": " + std::to_string(to.number) + ", \"bytes\": " + std::to_string(to.bytes) + "}}";
  }

  std::vector<TraceEvent> events_;
  TraceRoom room_;
  int rank_, host_;
  void* session_;
  void (*stop_)(void*);
};

}  // namespace parallax
