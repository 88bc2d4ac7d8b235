// What a step of a variable is expected to need: what policies are given by those who ask them (`Auto`, `describe`), and how
// they answer.
#pragma once

#include <cstdint>

#include "parallax/comm/topology.hpp"
#include "parallax/core/algorithm.hpp"

namespace parallax {

// The α-β-γ model (Hockney, Parallel Computing 20, 1994, for messages): seconds of a round in which every rank of a hop sends a
// small message to every other, seconds of a byte that a rank sends, and seconds of the local work on ids and rows. Where the
// topology has two levels, `host_…` are those within a host. All zero: not measured.
struct Costs {
  double round = 0, per_byte = 0;
  double host_round = 0, host_per_byte = 0;
  double per_key = 0;                    // an id sorted and grouped
  double per_row = 0, per_row_byte = 0;  // a row gathered, summed or updated by index, and each of its bytes
  double per_stream_byte = 0;            // a byte of contiguous memory summed

  friend bool operator==(Costs const&, Costs const&) = default;
  bool measured() const { return *this != Costs{}; }
};

// How a table is used in a step, in distinct rows: those that a rank pushes and pulls, those that a host pushes, and those
// that all ranks push. Means over ranks or hosts, and over recent steps.
struct TableUse {
  double pushed = 0, pulled = 0, by_host = 0, by_all = 0;
};

// What does not change about a table. `row_bytes`: of the parameters of a row; `state_bytes`: these and the optimizer's state.
struct TableFacts {
  double rows, row_bytes, state_bytes, id_bytes;
};

// What a step of one table is expected to need, without the agreements that all methods share: the bytes that a rank sends to
// other hosts, and seconds.
struct Prediction {
  double bytes = 0, seconds = 0;
};

// The ranks of a topology as the model sees them: `hosts` that exchange, each of `per_host` ranks that are summed first; where
// there is one level every rank is a host.
struct RankShape {
  double hosts, per_host;

  template <Communicator C>
  explicit RankShape(Topology<C> const& topology) : hosts{0} {
    auto const& of_rank = topology.hosts();  // without levels every rank's own
    for (auto host = of_rank.begin(); host != of_rank.end(); ++host) hosts += std::find(of_rank.begin(), host, *host) == host;
    per_host = static_cast<double>(topology.size()) / hosts;
  }
  RankShape(double its_hosts, double its_ranks_per_host) : hosts{its_hosts}, per_host{its_ranks_per_host} {}
  double ranks() const { return hosts * per_host; }
  // The share of what a rank handles that goes out, where every rank of a hop sends to every other.
  double out() const { return (hosts - 1) / hosts; }
  double out_within() const { return (per_host - 1) / per_host; }
};

// Collects what a step needs. Bytes are those that a rank sends; nothing is sent where a hop has one rank.
class Bill {
 public:
  Bill(Costs const& costs, RankShape const& shape) : costs_{costs}, shape_{shape} {}

  void between_hosts(double rounds, double bytes) {
    if (shape_.hosts <= 1) return;
    sum_.bytes += bytes;
    sum_.seconds += rounds * costs_.round + bytes * costs_.per_byte;
  }
  void within_host(double rounds, double bytes) {
    if (shape_.per_host > 1) sum_.seconds += rounds * costs_.host_round + bytes * costs_.host_per_byte;
  }
  void keys(double count) { sum_.seconds += count * costs_.per_key; }
  void rows(double count, double bytes) { sum_.seconds += count * (costs_.per_row + bytes * costs_.per_row_byte); }
  void streamed(double bytes) { sum_.seconds += bytes * costs_.per_stream_byte; }
  Prediction sum() const { return sum_; }

 private:
  Costs const& costs_;
  RankShape const& shape_;
  Prediction sum_;
};

}  // namespace parallax
