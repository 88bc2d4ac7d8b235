// The expected needs of a variable's step. `Auto` and `Session::describe` ask a policy's `predict`: here are its arguments and
// the means of its answer.
#pragma once

#include "parallax/comm/topology.hpp"
#include "parallax/detail/core/algorithm.hpp"

namespace parallax::inline v0_2 {

// The α-β-γ model (Hockney, Parallel Computing 20, 1994, for messages): seconds of a round in which every rank of a hop sends a
// small message to every other, seconds of a byte sent by a rank, and seconds of the local work on ids and rows. Of a topology
// with two levels, `host_…` are the seconds within a host. All zero: not measured.
struct Costs {
  // Seconds of a round between hosts, or between all ranks of a flat topology.
  double round = 0, per_byte = 0;  // of a byte sent in it by a rank
  // Seconds of a round within a host; 0 if the topology has no levels.
  double host_round = 0, host_per_byte = 0;  // of a byte sent in it by a rank
  // Seconds of an id sorted and grouped.
  double per_key = 0;
  // Seconds of a row gathered, summed or updated by index.
  double per_row = 0, per_row_byte = 0;  // and of each of its bytes
  // Seconds of a byte of contiguous memory summed.
  double per_stream_byte = 0;

  friend bool operator==(Costs const&, Costs const&) = default;
  // Returns true if any is not 0. The session measures missing ones, by `calibrate`, at the first need of `Auto`.
  bool measured() const { return *this != Costs{}; }
};

// The use of a table in a step, in distinct rows: pushed and pulled by a rank, pushed by a host, and pushed by all ranks. Means
// over ranks or hosts, and over recent steps. A chooser measures it under `Auto` (detail/policy/auto/choice.hpp).
struct TableUse {
  double pushed = 0,  // by a rank
      pulled = 0,     // by a rank
      by_host = 0,    // pushed by the ranks of a host together, each row once
      by_all = 0;     // pushed by all ranks together, each row once
};

// The constant facts of a table. `row_bytes`: of the parameters of a row; `state_bytes`: these and the optimizer's state. Of a
// dense variable a row is an element.
struct TableFacts {
  // Rows of the whole table.
  double rows,
      // Bytes of a row's gradient: its width times the bytes of a scalar.
      row_bytes,
      // Bytes of a row with the optimizer's slots beside it.
      state_bytes,
      // Bytes of an index, as it travels.
      id_bytes;
  // Bytes on the wire for a byte of a row: 0.5 under a wire of half as many bits (see `wire_share`).
  double wire = 1;
  // Bytes on the wire for a byte of a pulled row: 0.5 if rows are kept in half as many bits as their gradients have.
  double pull_wire = wire;

  // Returns the bytes of a row's gradient on the wire.
  double sent_bytes() const { return row_bytes * wire; }
  // Returns the bytes of a pulled row on the wire.
  double pulled_bytes() const { return row_bytes * pull_wire; }
};

// The expected needs of a step of one table, without the agreements shared by all methods: the bytes a rank sends to other
// hosts, and seconds.
struct Prediction {
  // Sent to other hosts by a rank. Without levels every other rank is another host.
  double bytes = 0, seconds = 0;  // zero if the costs were not measured
};

// The ranks of a topology in the model: `hosts` exchange, each of `per_host` ranks that are summed first; on one level every
// rank is a host.
struct RankShape {
  // As many hosts as the topology tells apart.
  double hosts, per_host;  // ranks of a host; a mean, if hosts are unequal

  // Takes the shape of the topology, not kept. Local, at most O(ranks²).
  template <Communicator C>
  explicit RankShape(Topology<C> const& topology) : hosts{0} {
    auto const& of_rank = topology.hosts();  // without levels every rank's own
    for (auto host = of_rank.begin(); host != of_rank.end(); ++host) hosts += std::find(of_rank.begin(), host, *host) == host;
    per_host = static_cast<double>(topology.size()) / hosts;
  }
  // Takes numbers of hosts and of ranks on each, which need not be there: to ask a policy about another cluster.
  RankShape(double its_hosts, double its_ranks_per_host) : hosts{its_hosts}, per_host{its_ranks_per_host} {}
  // Returns the number of all ranks of the world.
  double ranks() const { return hosts * per_host; }
  // Returns the share of a rank's bytes for other hosts, if it sends as many to every host, its own included.
  double out() const { return (hosts - 1) / hosts; }
  // Returns the share of a rank's bytes for other ranks of its host, if it sends as many to each, itself included.
  double out_within() const { return (per_host - 1) / per_host; }
};

// Bill of a step's needs. A policy's `predict` makes one, adds the parts of a step to it in any order, and returns its sum.
// Bytes are counted at the sending rank; nothing is sent in a hop of one rank.
class Bill {
 public:
  // Begins at zero. Refers to both arguments, which must outlive the bill.
  Bill(Costs const& costs, RankShape const& shape) : costs_{costs}, shape_{shape} {}

  // Adds `rounds` rounds between hosts, with `bytes` from this rank to other hosts in all. Only these count as bytes of a step.
  void between_hosts(double rounds, double bytes) {
    if (shape_.hosts <= 1) return;
    sum_.bytes += bytes;
    sum_.seconds += rounds * costs_.round + bytes * costs_.per_byte;
  }
  // Adds `rounds` rounds between the ranks of a host, with `bytes` from this rank to other ranks of its host in all.
  void within_host(double rounds, double bytes) {
    if (shape_.per_host > 1) sum_.seconds += rounds * costs_.host_round + bytes * costs_.host_per_byte;
  }
  // Adds `count` ids sorted and grouped.
  void keys(double count) { sum_.seconds += count * costs_.per_key; }
  // Adds `count` rows gathered, summed or updated by index, of `bytes` bytes each.
  void rows(double count, double bytes) { sum_.seconds += count * (costs_.per_row + bytes * costs_.per_row_byte); }
  // Adds so many bytes of contiguous memory summed, cleared or updated.
  void streamed(double bytes) { sum_.seconds += bytes * costs_.per_stream_byte; }
  // Returns the sum so far.
  Prediction sum() const { return sum_; }

 private:
  Costs const& costs_;
  RankShape const& shape_;
  Prediction sum_;
};

}  // namespace parallax
