// `Session::start` and `Session::poll`: updates under way while the backward pass goes on. The session calls both.
#pragma once

#include "parallax/detail/session/core.hpp"

namespace parallax::inline v0_2::detail {

// Collective. Posts the agreement of these updates; waits only if an earlier flight still uses their channels. Their flight
// keeps copies of gradients, and a refusal of this rank, for the completing step. An Error here ends the session.
template <Communicator C, class... Updates>
void start(SessionCore<C>& core, Priority priority, Updates const&... updates) {
  core.waiting.guarded("start", CallerOrder::beside, [&] {
    auto& flights = core.flights;
    if (auto* const earlier = flights.before_next())  // its channels are free once it has arrived
      core.waiting.drive("start", [&] { return earlier->poll(); }, {*earlier, [&] { return earlier->names(); }});
    using Core = SessionCore<C>;
    int const rows = static_cast<int>(Core::first_flight + 2 * (flights.started().size() % Core::most_flights));
    auto& flight = core.pools.template flight<FlightOf<C, Updates...>>(core.flight_room(), {rows, rows, rows + 1});
    {
      InCallersStream const copying{core.topology.world()};
      flight.prepare(true, updates...);
    }
    follow_caller(core.topology.world());
    flight.set_priority(priority);
    flights.start(flight);
    std::uint64_t const context = core.begin(Operation::start, flight.first_name()).value();
    flight.post(context, core.waiting.journal().changed());
    flights.poll_started();
  });
}

// Local. Lets started updates and rows named ahead progress; waits for nobody. An Error thrown here ends the session.
template <Communicator C>
void poll(SessionCore<C>& core) {
  core.waiting.guarded("poll", CallerOrder::beside, [&] { core.progress(); });
}

}  // namespace parallax::detail
