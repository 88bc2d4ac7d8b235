// The times of each operation's beginning, agreement, exchange, commit and end in a session: as a trace that browsers draw. A
// trainer makes a Trace for the steps of interest, and writes `events` of each rank to a file.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "parallax/comm/collectives.hpp"
#include "parallax/detail/transfer/agreement/trace_text.hpp"
#include "parallax/session/session.hpp"

namespace parallax::inline v0_2 {

// While it lives, the phases of the session's operations on this rank are kept, in room allocated once: an operation is no
// longer for it than a clock read and a store for each of its four to six phases. If the communicator keeps journals, of all
// sessions on it. Local; must not outlive the session. One at a time.
class Trace {
 public:
  // Local. Begins to record. `capacity`: number of events with room, allocated here; later ones are dropped and counted.
  template <Communicator C>
  explicit Trace(Session<C>& session, std::size_t capacity = 1 << 16)
      : events_(capacity),
        room_{events_.data(), 0, capacity, 0, [](void* of) { return static_cast<Session<C>*>(of)->core().waiting.clock(); },
              &session},
        rank_{session.rank()},
        host_{session.topology().hosts()[static_cast<std::size_t>(session.rank())]},
        session_{&session},
        stop_{[](void* recorded) { static_cast<Session<C>*>(recorded)->record(nullptr); }},
        gather_{[](void* recorded, std::span<std::byte const> mine) {
          return parallax::gather(static_cast<Session<C>*>(recorded)->topology().world(), mine);
        }} {
    session.record(&room_);
  }
  Trace(Trace const&) = delete;
  Trace& operator=(Trace const&) = delete;
  // Local. Ends the recording; the session goes on.
  ~Trace() { stop_(session_); }

  // Local. Returns the number of events without room.
  std::size_t dropped() const { return room_.dropped; }
  // Local. Returns the recorded events, oldest first; valid until the next operation, and not beyond the Trace.
  std::span<TraceEvent const> recorded() const { return {events_.data(), room_.size}; }
  // Local. Returns the number of this rank's host, as in the session's topology.
  int host() const { return host_; }
  // Collective. Waits, and returns every rank's bytes at rank 0, by rank; nothing elsewhere. Throws the communicator's errors.
  std::vector<std::vector<std::byte>> gather(std::span<std::byte const> mine) const { return gather_(session_, mine); }

  // Local. Returns this rank's events in the Trace Event Format of Chrome (chrome://tracing, Perfetto): complete events, a
  // process for each host and a thread for each rank, microseconds of the communicator's clock. They are elements of a JSON
  // array, one a line, with a comma behind each but the last: those of several ranks are joined by ",\n" and stand between [
  // and ]. Hosts share no clock, and two of them may be days apart. The events are put on the clock of rank 0 as nearly as the
  // agreements among them tell, to within the time from one to the next; `merged` (interop/merged_trace.hpp) does it to within
  // a message.
  std::string events() const {
    return detail::trace_text(recorded(), rank_, host_, rank_ == 0 ? 0 : -detail::ahead_of_first(recorded()));
  }

 private:
  std::vector<TraceEvent> events_;
  TraceRoom room_;
  int rank_, host_;
  void* session_;
  void (*stop_)(void*);
  std::vector<std::vector<std::byte>> (*gather_)(void*, std::span<std::byte const>);
};

}  // namespace parallax
