// What was started and no step has completed yet.
#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "parallax/core/algorithm.hpp"
#include "parallax/session/flight.hpp"

namespace parallax::detail {

// The started flights, in order, as one: each phase is that of all of them. Those that share a channel take turns on it.
template <Communicator C>
class Started {
 public:
  // `channels`: after how many flights the channels are those of an earlier one again.
  explicit Started(std::size_t channels) : channels_{channels} {}

  bool empty() const { return flights_.empty(); }
  std::size_t size() const { return flights_.size(); }
  auto begin() const { return flights_.begin(); }
  auto end() const { return flights_.end(); }
  void add(FlightBase<C>& flight) {
    done_.resize(flights_.size() + 1);
    flights_.push_back(&flight);
  }
  // Whose channels the next one takes, or null where there are free ones.
  FlightBase<C>* before_next() const { return size() < channels_ ? nullptr : flights_[size() - channels_]; }

  // A flight moves on unless one of a higher priority is being exchanged, to which all ranks have come.
  bool poll() {
    bool all = true;
    int least = std::numeric_limits<int>::min();
    for (auto* flight : flights_)
      if (flight->exchanging()) least = std::max(least, flight->priority());
    for (auto* flight : flights_) all = flight->priority() >= least && flight->poll() && all;
    return all;
  }
  std::size_t groups() const {
    std::size_t sum = 0;
    for (auto* flight : flights_) sum += flight->limits().size();
    return sum;
  }
  void reduce() {
    std::size_t group = 0;
    for (auto* flight : flights_) {
      flight->reduce(static_cast<int>(group));
      group += flight->limits().size();
    }
  }
  void merge() {
    for (auto* flight : flights_) flight->merge();
  }
  void transform() {
    for (auto* flight : flights_) flight->transform();
  }
  void seek(bool finite) {
    for (auto* flight : flights_) flight->seek(finite);
  }
  bool found() const {
    return std::all_of(flights_.begin(), flights_.end(), [](auto* flight) { return flight->found(); });
  }
  void norms(double* squared) {
    for (auto* flight : flights_) {
      flight->norms(squared);
      squared += flight->limits().size();
    }
  }
  std::optional<NonFiniteFound> non_finite() {
    for (auto* flight : flights_)
      if (auto found = flight->non_finite()) return found;
    return std::nullopt;
  }
  bool idle() const {
    return std::all_of(flights_.begin(), flights_.end(), [](auto* flight) { return flight->idle(); });
  }
  bool shares_measures() const {
    return std::any_of(flights_.begin(), flights_.end(), [](auto* flight) { return flight->shares_measures(); });
  }
  void measure(double const* scales) {
    for (auto* flight : flights_) {
      flight->measure(scales);
      scales += flight->limits().size();
    }
  }
  void apply(double const* scales) {
    for (auto* flight : flights_) {
      flight->apply(scales);
      scales += flight->limits().size();
    }
  }
  bool adapts() const {
    return std::any_of(flights_.begin(), flights_.end(), [](auto* flight) { return flight->adapts(); });
  }
  std::size_t use_words() const {
    std::size_t sum = 0;
    for (auto* flight : flights_) sum += flight->use_words();
    return sum;
  }
  void tell_use(std::vector<double>& words, double now) {
    for (auto* flight : flights_) flight->tell_use(words, now);
  }
  void adapt(Adapting<C>& by, FunctionRef<double const*(int)> words_of, std::size_t& at) {
    for (auto* flight : flights_) flight->adapt(by, words_of, at);
  }
  void close() noexcept {
    for (auto* flight : flights_) flight->close();
    flights_.clear();
  }

  // Before the first poll of either: nobody has gathered.
  void begin_gathering() { done_.assign(flights_.size(), false); }
  bool gather_gradients() {
    return gather([](auto* flight) { return flight->gather_gradients(); });
  }
  bool gather_measures() {
    return gather([](auto* flight) { return flight->gather_measures(); });
  }
  bool gather_parameters() {
    return gather([](auto* flight) { return flight->gather_parameters(); });
  }

  int waiting_for() const {
    for (auto* flight : flights_)
      if (int const rank = flight->waiting_for(); rank >= 0) return rank;
    return -1;
  }
  std::string names() const {
    std::string list;
    for (auto* flight : flights_) list += (list.empty() ? "" : ", ") + flight->names();
    return list;
  }

 private:
  template <class Phase>
  bool gather(Phase phase) {
    bool all = true;
    for (std::size_t i = 0; i < flights_.size(); ++i) {
      bool const waits = i >= channels_ && !done_[i - channels_];
      if (!waits && !done_[i]) done_[i] = phase(flights_[i]);
      all = all && done_[i];
    }
    return all;
  }

  std::size_t channels_;
  std::vector<FlightBase<C>*> flights_;
  std::vector<char> done_;  // by flight, in the gathering at hand
};

}  // namespace parallax::detail
