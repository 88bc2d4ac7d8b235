// What a step of a variable is expected to need. `Auto` and `Session::describe` ask a policy's `predict`: here is what they
// give it, and what it answers by.
#pragma once

#include <cstdint>

#include "parallax/comm/topology.hpp"
#include "parallax/detail/core/algorithm.hpp"

namespace parallax::inline v0_2 {

// The α-β-γ model (Hockney, Parallel Computing 20, 1994, for messages): seconds of a round in which every rank of a hop sends a
// small message to every other, seconds of a byte that a rank sends, and seconds of the local work on ids and rows. Where the
// topology has two levels, `host_…` are those within a host. All zero: not measured.
struct Costs {
  // Of a round between hosts, or between all ranks of a flat topology.
  double round = 0, per_byte = 0;  // of a byte that a rank sends in it
  // Of a round within a host; 0 where the topology has no levels.
  double host_round = 0, host_per_byte = 0;  // of a byte that a rank sends in it
  // Of an id sorted and grouped.
  double per_key = 0;
  // Of a row gathered, summed or updated by index.
  double per_row = 0, per_row_byte = 0;  // and of each of its bytes
  // Of a byte of contiguous memory summed.
  double per_stream_byte = 0;

  friend bool operator==(Costs const&, Costs const&) = default;
  // Whether they are a machine's. The session measures what is not, by `calibrate`, when `Auto` first needs it.
  bool measured() const { return *this != Costs{}; }
};

// How a table is used in a step, in distinct rows: those that a rank pushes and pulls, those that a host pushes, and those
// that all ranks push. Means over ranks or hosts, and over recent steps. A chooser measures it under `Auto`
// (detail/policy/auto/choice.hpp).
struct TableUse {
  double pushed = 0,  // by a rank
      pulled = 0,     // by a rank
      by_host = 0,    // pushed by the ranks of a host together, each row once
      by_all = 0;     // pushed by all ranks together, each row once
};

// What does not change about a table. `row_bytes`: of the parameters of a row; `state_bytes`: these and the optimizer's state.
// Of a dense variable a row is an element.
struct TableFacts {
  // Of the whole table.
  double rows,
      // Of a row's gradient: its width times the bytes of a scalar.
      row_bytes,
      // Of a row with the optimizer's slots beside it.
      state_bytes,
      // Of an index, as it travels.
      id_bytes;
  // Bytes that travel for a byte of a row: 0.5 under a wire of half as many bits (see `wire_share`).
  double wire = 1;
  // The same of a row that a pull brings: 0.5 where rows are kept in half as many bits as their gradients have.
  double pull_wire = wire;

  // Of a row's gradient, as it travels.
  double sent_bytes() const { return row_bytes * wire; }
  // Of a row, as a pull brings it.
  double pulled_bytes() const { return row_bytes * pull_wire; }
};

// What a step of one table is expected to need, without the agreements that all methods share: the bytes that a rank sends to
// other hosts, and seconds.
struct Prediction {
  // Sent to other hosts by a rank. Without levels every other rank is another host.
  double bytes = 0, seconds = 0;  // zero where the costs were not measured
};

// The ranks of a topology as the model sees them: `hosts` that exchange, each of `per_host` ranks that are summed first; where
// there is one level every rank is a host.
struct RankShape {
  // As many as the topology tells apart.
  double hosts, per_host;  // ranks of a host; a mean, where hosts are unequal

  // Local, at most O(ranks²). As the topology is laid out.
  template <Communicator C>
  explicit RankShape(Topology<C> const& topology) : hosts{0} {
    auto const& of_rank = topology.hosts();  // without levels every rank's own
    for (auto host = of_rank.begin(); host != of_rank.end(); ++host) hosts += std::find(of_rank.begin(), host, *host) == host;
    per_host = static_cast<double>(topology.size()) / hosts;
  }
  // Of ranks that need not be there: to ask a policy about another cluster.
  RankShape(double its_hosts, double its_ranks_per_host) : hosts{its_hosts}, per_host{its_ranks_per_host} {}
  // All ranks of the world.
  double ranks() const { return hosts * per_host; }
  // The share of what a rank handles that goes out, where every rank of a hop sends to every other: to other hosts.
  double out() const { return (hosts - 1) / hosts; }
  // To other ranks of its host, likewise.
  double out_within() const { return (per_host - 1) / per_host; }
};

// Collects what a step needs. A policy's `predict` makes one, adds the parts of a step to it in any order, and returns its sum.
// Bytes are those that a rank sends; nothing is sent where a hop has one rank.
class Bill {
 public:
  // Refers to both, which must outlive it.
  Bill(Costs const& costs, RankShape const& shape) : costs_{costs}, shape_{shape} {}

  // `rounds` rounds between hosts, in which this rank sends `bytes` to other hosts in all. Only these count as bytes of a step.
  void between_hosts(double rounds, double bytes) {
    if (shape_.hosts <= 1) return;
    sum_.bytes += bytes;
    sum_.seconds += rounds * costs_.round + bytes * costs_.per_byte;
  }
  // `rounds` rounds between the ranks of a host, in which this rank sends `bytes` to the others in all.
  void within_host(double rounds, double bytes) {
    if (shape_.per_host > 1) sum_.seconds += rounds * costs_.host_round + bytes * costs_.host_per_byte;
  }
  // So many ids sorted and grouped.
  void keys(double count) { sum_.seconds += count * costs_.per_key; }
  // So many rows gathered, summed or updated by index, of `bytes` bytes each.
  void rows(double count, double bytes) { sum_.seconds += count * (costs_.per_row + bytes * costs_.per_row_byte); }
  // So many bytes of contiguous memory summed, cleared or updated.
  void streamed(double bytes) { sum_.seconds += bytes * costs_.per_stream_byte; }
  // What was added so far.
  Prediction sum() const { return sum_; }

 private:
  Costs const& costs_;
  RankShape const& shape_;
  Prediction sum_;
};

}  // namespace parallax
