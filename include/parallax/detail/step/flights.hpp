// All flights of a step: those started since the last step, and the step's own as the last. A session's core owns one; `start`
// adds to it, and `step` completes and closes it.
#pragma once

#include <cstddef>
#include <limits>
#include <string>

#include "parallax/detail/core/algorithm.hpp"

#include "parallax/detail/core/list.hpp"
#include "parallax/detail/memory/buffer.hpp"
#include "parallax/detail/step/flight.hpp"

namespace parallax::inline v0_2::detail {

// Flights of one session, which the pool owns. Flights on one channel take turns. Each phase of a step is said once, for all of
// them. The order of the flights is the order of their starts, alike on all ranks.
template <Communicator C>
class Flights {
 public:
  // Begins without flights. `channels`: number of flights after which their channels are used again.
  explicit Flights(std::size_t channels) : channels_{channels} {}

  // Returns the started flights in the order of their starts, without the step's own.
  List<Flight<C>*> const& started() const { return started_; }
  bool any_started() const { return !started_.empty(); }
  // Adds a started flight, until all are closed. By `start`, before its agreement is posted. May throw std::bad_alloc.
  void start(Flight<C>& flight);
  // Adds the flight of the step itself, until all are closed. By `step`, before anything else. May throw std::bad_alloc.
  void add_own(Flight<C>& flight) {
    done_.resize(started_.size() + 1);
    own_ = &flight;
  }
  // Returns the started flight with the channels of the next one to start, or null if there are free channels.
  Flight<C>* before_next() const { return started_.size() < channels_ ? nullptr : started_[started_.size() - channels_]; }

  // Calls f with every flight, in the order of their starts, the step's own last.
  template <class F>
  void each(F&& f) const {
    for (Flight<C>* const flight : started_) f(*flight);
    if (own_) f(*own_);
  }
  // Calls f(seat, number of its clip group in the step or -1) with every argument of every flight.
  template <class F>
  void seats(F&& f) const {
    each([&](Flight<C>& flight) { flight.seats(f); });
  }
  // Returns true if `holds` is true of some flight; calls it for none behind the first.
  bool any(FunctionRef<bool(Flight<C>&)> holds) const {
    bool found = false;
    each([&](Flight<C>& flight) { found = found || holds(flight); });
    return found;
  }
  // Returns true if `holds` is true of every flight; calls it for none behind the first counterexample.
  bool all(FunctionRef<bool(Flight<C>&)> holds) const {
    return !any([&](Flight<C>& flight) { return !holds(flight); });
  }

  // Lets started flights move on, without a wait; returns true once all have arrived or were refused. A flight waits while one
  // of a higher priority is being exchanged, to which all ranks have come.
  bool poll_started();
  // Numbers the clip groups of all flights and returns their count.
  std::size_t number_clips() const {
    int clips = 0;
    each([&](Flight<C>& flight) { clips = flight.number_clips(clips); });
    return static_cast<std::size_t>(clips);
  }

  // Notes, before the first poll of a gathering, that nobody has gathered.
  void begin_gathering() {
    for (std::size_t i = 0; i < done_.size(); ++i) done_[i] = false;
  }
  // Collective, polled. Calls `phase` with every flight until it has returned true for it; returns true once all have passed. A
  // flight waits for an earlier one on its channels.
  bool gather(FunctionRef<bool(Flight<C>&)> phase) {
    bool all = true;
    std::size_t i = 0;
    each([&](Flight<C>& flight) {
      bool const waits = &flight != own_ && i >= channels_ && !done_[i - channels_];
      if (!waits && !done_[i]) done_[i] = phase(flight);
      all = all && done_[i];
      ++i;
    });
    return all;
  }

  // Closes all flights, `applied` or not, and forgets them. At the end of a step with any outcome, and after a failure.
  void close(bool applied) noexcept {
    each([&](Flight<C>& flight) { flight.close(applied); });
    started_.clear();
    own_ = nullptr;
  }

  // Returns, for the report of a wait, a rank for which a flight waits, or -1. Asks the step's own flight first.
  int waiting_for() const {
    int rank = own_ ? own_->waiting_for() : -1;
    for (auto* flight : started_)
      if (rank < 0) rank = flight->waiting_for();
    return rank;
  }
  // Returns, for the report of a wait, the names of all flights' variables.
  std::string names() const {
    std::string list;
    each([&](Flight<C>& flight) {
      std::string const own = flight.names();
      append(list, {list.empty() || own.empty() ? "" : ", ", own});
    });
    return list;
  }

 private:
  std::size_t channels_;
  List<Flight<C>*> started_;
  Flight<C>* own_ = nullptr;
  Buffer<bool> done_;  // by flight, in the gathering at hand
};

template <Communicator C>
void Flights<C>::start(Flight<C>& flight) {
  done_.resize(started_.size() + 2);
  started_.push_back(&flight);
}

template <Communicator C>
bool Flights<C>::poll_started() {
  bool all = true;
  int least = std::numeric_limits<int>::min();
  for (auto* flight : started_)
    if (flight->exchanging()) least = std::max(least, flight->priority());
  for (auto* flight : started_) all = flight->priority() >= least && flight->poll() && all;
  return all;
}

}  // namespace parallax::detail
