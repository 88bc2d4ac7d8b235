// What a session uses again from operation to operation: flights of updates and fetches of rows, by their types. Its core owns
// one.
#pragma once

#include <utility>

#include "parallax/detail/core/list.hpp"
#include "parallax/detail/core/pointer.hpp"
#include "parallax/detail/core/type.hpp"
#include "parallax/detail/pull/fetch.hpp"
#include "parallax/detail/step/flight.hpp"

namespace parallax::detail {

// Owns flights and fetches, as long as the session. A step of a list of argument types takes the flight that the last such step
// used, with its seats, ways and buckets; so steady use allocates nothing. Looking one up takes as long as there are pooled
// ones.
template <Communicator C>
class Pools {
 public:
  // For `step` and `start`. A flight of this type on these channels that nobody uses; made where there is none. F: a FlightOf.
  template <class F>
  F& flight(FlightRoom<C> const& room, FlightChannels route) {
    for (auto& pooled : flights_)
      if (pooled.channel == route.rows && !pooled.flight->busy() && pooled.type == type_tag<F>())
        return static_cast<F&>(*pooled.flight);
    auto* const flight = new F(room, route);
    flights_.push_back({type_tag<F>(), route.rows, Owned<Flight<C>>{flight}});
    return *flight;
  }
  // For `prefetch`. A fetch of this type that nobody uses: the pool's own hold is the only one. F: a Fetch.
  template <class F>
  Shared<F> fetch() {
    for (auto& pooled : fetches_)
      if (pooled.fetch.owners() == 1 && pooled.type == type_tag<F>()) return Shared<F>{static_cast<F*>(pooled.fetch.get())};
    auto fetch = make_counted<F>();
    fetches_.push_back({type_tag<F>(), Shared<FetchBase<C>>{fetch.get()}});
    return fetch;
  }
  // By a captured step, whose graph goes on using what its updates were prepared in: the flight is nobody else's from here on.
  Owned<Flight<C>> take(Flight<C> const& flight) {
    Owned<Flight<C>> taken;
    for (auto& pooled : flights_)
      if (pooled.flight.get() == &flight) taken = std::move(pooled.flight);
    drop_if(flights_, [](PooledFlight const& pooled) { return !pooled.flight; });
    return taken;
  }
  // After an abort: no flight has anything under way that a peer reads. Fetches travel by the core's mail, which is withdrawn
  // there.
  void withdraw() noexcept {
    for (auto& pooled : flights_) pooled.flight->withdraw();
  }

 private:
  struct PooledFlight {
    TypeTag type;
    int channel;
    Owned<Flight<C>> flight;
  };
  struct PooledFetch {
    TypeTag type;
    Shared<FetchBase<C>> fetch;
  };
  List<PooledFlight> flights_;
  List<PooledFetch> fetches_;  // that were named ahead
};

}  // namespace parallax::detail
