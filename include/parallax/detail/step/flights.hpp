// All flights of a step: those that were started and no step has completed yet, and the step's own as the last. A session's
// core owns one; `start` adds to it, and `step` completes and closes it.
#pragma once

#include <cstddef>
#include <limits>
#include <string>

#include "parallax/detail/core/algorithm.hpp"

#include "parallax/detail/core/list.hpp"
#include "parallax/detail/memory/buffer.hpp"
#include "parallax/detail/step/flight.hpp"

namespace parallax::inline v0_2::detail {

// Refers to the flights. Those that share a channel take turns on it. Each phase of a step is said once, for all of them. The
// order of the flights is that of their starts, the same on all ranks.
template <Communicator C>
class Flights {
 public:
  // `channels`: after how many flights the channels are those of an earlier one again.
  explicit Flights(std::size_t channels) : channels_{channels} {}

  // In the order of their starts, without the step's own.
  List<Flight<C>*> const& started() const { return started_; }
  bool any_started() const { return !started_.empty(); }
  // By `start`, before the flight's agreement is posted. May throw std::bad_alloc.
  void start(Flight<C>& flight);
  // By `step`, before anything else: the flight of the step itself, until all are closed.
  void add_own(Flight<C>& flight);
  // Whose channels the next one takes, or null where there are free ones.
  Flight<C>* before_next() const { return started_.size() < channels_ ? nullptr : started_[started_.size() - channels_]; }

  // Calls f with every flight, in the order of their starts.
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
  // Whether it holds of some flight; asks none behind the first.
  bool any(FunctionRef<bool(Flight<C>&)> holds) const;
  // Whether it holds of every flight; asks none behind the first of which it does not.
  bool all(FunctionRef<bool(Flight<C>&)> holds) const;

  // What was started moves on; true once all of it has arrived or was refused. A flight waits while one of a higher priority is
  // being exchanged, to which all ranks have come.
  bool poll_started();
  // Numbers the clip groups of all flights and returns how many there are.
  std::size_t number_clips() const;

  // Before the first poll of a gathering: nobody has gathered.
  void begin_gathering() {
    for (std::size_t i = 0; i < done_.size(); ++i) done_[i] = false;
  }
  // Collective, polled: calls `phase` with every flight that has not passed it, and true once all have. Of those on the same
  // channels a later one waits for the earlier.
  bool gather(FunctionRef<bool(Flight<C>&)> phase);

  // At the end of a step, however it ended, and after a failure: the updates give back what they hold, and no flight is left
  // here.
  void close(bool applied) noexcept;

  // For the report of a wait: a rank for which one of them waits, or -1; the step's own flight is asked first.
  int waiting_for() const;
  // Likewise: the variables of all.
  std::string names() const;

 private:
  std::size_t channels_;
  List<Flight<C>*> started_;
  Flight<C>* own_ = nullptr;
  Buffer<bool> done_;  // by flight, in the gathering at hand
};

template <Communicator C>
bool Flights<C>::any(FunctionRef<bool(Flight<C>&)> holds) const {
  bool found = false;
  each([&](Flight<C>& flight) { found = found || holds(flight); });
  return found;
}

template <Communicator C>
bool Flights<C>::all(FunctionRef<bool(Flight<C>&)> holds) const {
  return !any([&](Flight<C>& flight) { return !holds(flight); });
}

template <Communicator C>
bool Flights<C>::gather(FunctionRef<bool(Flight<C>&)> phase) {
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

template <Communicator C>
void Flights<C>::start(Flight<C>& flight) {
  done_.resize(started_.size() + 2);
  started_.push_back(&flight);
}

template <Communicator C>
void Flights<C>::add_own(Flight<C>& flight) {
  done_.resize(started_.size() + 1);
  own_ = &flight;
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

template <Communicator C>
std::size_t Flights<C>::number_clips() const {
  int clips = 0;
  each([&](Flight<C>& flight) { clips = flight.number_clips(clips); });
  return static_cast<std::size_t>(clips);
}

template <Communicator C>
void Flights<C>::close(bool applied) noexcept {
  each([&](Flight<C>& flight) { flight.close(applied); });
  started_.clear();
  own_ = nullptr;
}

template <Communicator C>
int Flights<C>::waiting_for() const {
  int rank = own_ ? own_->waiting_for() : -1;
  for (auto* flight : started_)
    if (rank < 0) rank = flight->waiting_for();
  return rank;
}

template <Communicator C>
std::string Flights<C>::names() const {
  std::string list;
  each([&](Flight<C>& flight) {
    std::string const own = flight.names();
    append(list, {list.empty() || own.empty() ? "" : ", ", own});
  });
  return list;
}

}  // namespace parallax::detail
