// A table's rows on their way to new owners: parameters and optimizer's state, array by array, without ids on the wire. The
// table's state makes the route when `Auto`, or a search for a number of pieces, moves it; the step's last act polls the move.
#pragma once

#include <cstdint>
#include <span>

#include "parallax/detail/core/list.hpp"
#include "parallax/detail/kernel/host.hpp"
#include "parallax/detail/partition/placement.hpp"
#include "parallax/detail/transfer/lane.hpp"

namespace parallax::inline v0_2 {

// A rank's rows for each rank, and its rows from each: both sides list them in the receiver's order, so that they need no
// names. Owns its lists.
template <class Index>
struct MoveRoute {
  // Old local rows, by receiver. Without `out_begin` each rank is sent all of them.
  List<Index> out, in;  // new local rows, by sender
  // ranks + 1 begins in `out`, or none.
  List<std::size_t> out_begin, in_begin;  // ranks + 1 begins in `in`
  // Upper bound of every rank's lists; alike on all ranks. 0 if nothing is sent.
  std::size_t longest = 0;
};

namespace detail {

// Returns the number of rows of the owner with the most. O(owners), and the same on all ranks.
template <class Index, class P>
std::size_t largest_shard(Placement<Index, P> const& placement) {
  std::int64_t largest = 0;
  for (int owner = 0; owner < placement.owners(); ++owner) largest = std::max(largest, placement.local_rows(owner));
  return static_cast<std::size_t>(largest);
}

// Fills `list` with `number_of(i)` of each i below `count`, rank after rank by `rank_of(i)`, of each rank in the order of i.
// Returns the begin of every rank's numbers in it, and their end.
template <class Index, class RankOf, class NumberOf>
List<std::size_t> list_by_rank(List<Index>& list, std::int64_t count, int ranks, RankOf&& rank_of, NumberOf&& number_of) {
  List<std::size_t> begins(static_cast<std::size_t>(ranks) + 1, 0);
  for (std::int64_t i = 0; i < count; ++i) ++begins[static_cast<std::size_t>(rank_of(i)) + 1];
  for (std::size_t rank = 1; rank < begins.size(); ++rank) begins[rank] += begins[rank - 1];
  list.resize(static_cast<std::size_t>(count));
  auto next = begins;
  for (std::int64_t i = 0; i < count; ++i)
    list[next[static_cast<std::size_t>(rank_of(i))]++] = static_cast<Index>(number_of(i));
  return begins;
}

}  // namespace detail

// Returns the route from the shards of placement `from` to those of `to`. Local, O(rows of this rank · log); allocates. Each of
// this rank's old rows is in `out` once, and each of its new rows is in `in` once.
template <Communicator C, class Index, class P>
MoveRoute<Index> route_between(Topology<C> const& topology, Placement<Index, P> const& from, Placement<Index, P> const& to) {
  MoveRoute<Index> route;
  int const owner = topology.owner();
  std::int64_t const old_rows = from.local_rows(owner), new_rows = to.local_rows(owner);
  route.longest = detail::largest_shard(from);
  Buffer<Index> keys{static_cast<std::size_t>(old_rows)};
  for (std::int64_t local = 0; local < old_rows; ++local)
    keys[static_cast<std::size_t>(local)] = to.key(from.global_row(owner, local));
  Grouping<Index> sorted;
  SortScratch<Index> scratch;
  RowOps<HostSpace>::unique_with_inverse(std::span<Index const>{keys.span()}, from.rows(), sorted, scratch);
  auto const old_row = [&](std::int64_t i) { return sorted.order[static_cast<std::size_t>(i)]; };
  route.out_begin = detail::list_by_rank(
      route.out, old_rows, topology.size(),
      [&](std::int64_t i) { return topology.owner_rank(to.owner(from.global_row(owner, old_row(i)))); }, old_row);
  route.in_begin = detail::list_by_rank(
      route.in, new_rows, topology.size(),
      [&](std::int64_t local) { return topology.owner_rank(from.owner(to.global_row(owner, local))); },
      [](std::int64_t local) { return local; });
  return route;
}

// Returns the route from shards to the whole table on every rank. Local, O(rows of the table); allocates.
template <Communicator C, class Index, class P>
MoveRoute<Index> route_to_all(Topology<C> const& topology, Placement<Index, P> const& from) {
  MoveRoute<Index> route;
  std::int64_t const own = from.local_rows(topology.owner());
  route.longest = detail::largest_shard(from);
  for (std::int64_t local = 0; local < own; ++local) route.out.push_back(static_cast<Index>(local));
  List<int> owners(static_cast<std::size_t>(topology.size()), -1);  // by rank; -1 of one that owns nothing
  for (int owner = 0; owner < topology.owners(); ++owner) owners[static_cast<std::size_t>(topology.owner_rank(owner))] = owner;
  for (int const owner : owners) {
    route.in_begin.push_back(route.in.size());
    for (std::int64_t local = 0; local < from.local_rows(owner); ++local)
      route.in.push_back(static_cast<Index>(from.global_row(owner, local)));
  }
  route.in_begin.push_back(route.in.size());
  return route;  // without out_begin: every rank is sent all of `out`
}

// Returns the route from the whole table on every rank to shards: nothing is sent. Local, O(this rank's new rows); allocates.
template <Communicator C, class Index, class P>
MoveRoute<Index> route_to_own(Topology<C> const& topology, Placement<Index, P> const& to) {
  MoveRoute<Index> route;
  std::int64_t const own = to.local_rows(topology.owner());
  for (std::int64_t local = 0; local < own; ++local) {
    route.out.push_back(static_cast<Index>(to.global_row(topology.owner(), local)));
    route.in.push_back(static_cast<Index>(local));
  }
  for (int rank = 0; rank <= topology.size(); ++rank) {
    route.out_begin.push_back(rank > topology.rank() ? route.out.size() : 0);
    route.in_begin.push_back(rank > topology.rank() ? route.in.size() : 0);
  }
  return route;
}

// An array of moving rows, `row_bytes` of each, in the table's memory space. Does not own.
struct MovingArray {
  // Row `out[i]` of the route lies at `from + out[i] * row_bytes`.
  std::byte const* from;
  // Row `in[i]` is put at `to + in[i] * row_bytes`; other memory than `from`.
  std::byte* to;
  // Bytes of one row, without gaps.
  std::size_t row_bytes;
};

// The exchange, as an operation that progresses when polled: in each round a rank sends and takes in at most 16 MB of one
// array, or one row for each rank. Owns its scratch. Rows that stay with this rank are copied, and not sent.
template <Communicator C, class Index, MemorySpace Space = HostSpace>
class RowMove {
  using Ops = RowOps<Space>;

 public:
  // Local. Route and arrays' memory must stay until `poll` is true; every rank gives as many arrays, of the same row bytes.
  RowMove(Ops const& ops, MoveRoute<Index> const& route, List<MovingArray> arrays)
      : ops_{ops}, route_{&route}, arrays_{std::move(arrays)} {}

  // Returns true once every row is in its place, on a device in the order of its queue. Collective in the order of the lane;
  // only polls. Throws the communicator's errors, the device's and std::bad_alloc: rows are half moved then.
  bool poll(Lane<C>& lane) {
    std::size_t const longest = lane.topology().size() > 1 ? route_->longest : 0;
    while (array_ < arrays_.size()) {
      if (lane.in_flight()) {
        if (!lane.test()) return false;
        unpack(lane.topology());
        ++round_;
      }
      if (round_ == 0) move_own(lane.topology().rank());
      if (round_ * round_rows(lane.topology()) < longest) {
        post(lane);
      } else {
        round_ = 0;
        ++array_;
      }
    }
    return true;
  }

 private:
  // A run in `out` or `in` of the route.
  struct Rows {
    std::size_t begin, end;
  };

  // Returns the array at hand.
  MovingArray const& array() const { return arrays_[array_]; }
  // Returns true if every rank is sent the same rows.
  bool to_all() const { return route_->out_begin.empty(); }
  // Returns the number of rows of a list in one round, at least 1; alike on all ranks, and so the number of rounds.
  std::size_t round_rows(Topology<C> const& topology) const {
    constexpr std::size_t bytes = std::size_t{16} << 20;
    return std::max<std::size_t>(
        bytes / std::max<std::size_t>(array().row_bytes, 1) / static_cast<std::size_t>(topology.size()), 1);
  }
  // Returns the run of `out` for the given rank, of all rounds.
  Rows all_out(int rank) const {
    auto const r = static_cast<std::size_t>(rank);
    return to_all() ? Rows{0, route_->out.size()} : Rows{route_->out_begin[r], route_->out_begin[r + 1]};
  }
  // Returns the run of `in` from the given rank, of all rounds.
  Rows all_in(int rank) const {
    auto const r = static_cast<std::size_t>(rank);
    return {route_->in_begin[r], route_->in_begin[r + 1]};
  }
  // Returns the part of a run for this round, of at most `length` rows; empty after the end of the run.
  Rows of_round(Rows rows, std::size_t length) const {
    std::size_t const begin = std::min(rows.end, rows.begin + round_ * length);
    return {begin, std::min(rows.end, begin + length)};
  }

  // Copies rows that stay with this rank, once for each array.
  void move_own(int rank) {
    Rows const out = all_out(rank), in = all_in(rank);
    auto copies = ops_.copies();
    for (std::size_t i = 0; i < out.end - out.begin; ++i)
      copies.add(array().to + row(route_->in[in.begin + i]), array().from + row(route_->out[out.begin + i]), array().row_bytes);
    copies.start();
  }

  // Packs the outgoing rows of this round, and begins their transfer. Rows for all ranks are packed once.
  void post(Lane<C>& lane) {
    Topology<C> const& topology = lane.topology();
    std::size_t const length = round_rows(topology), bytes = array().row_bytes;
    lane.clear();
    std::size_t sent = 0, received = 0, packed = 0;
    auto const others = [&](auto&& f) {
      for (int rank = 0; rank < topology.size(); ++rank)
        if (rank != topology.rank()) f(rank);
    };
    others([&](int rank) {
      Rows const rows = of_round(all_out(rank), length);
      packed = to_all() ? rows.end - rows.begin : packed + rows.end - rows.begin;
    });
    sent_.resize_with_slack(packed * bytes);
    auto copies = ops_.copies();
    others([&](int rank) {
      Rows const out = of_round(all_out(rank), length), in = of_round(all_in(rank), length);
      bool const fresh = !to_all() || sent == 0;
      if (to_all()) sent = 0;
      lane.send(rank, sent, (out.end - out.begin) * bytes, Payload::rows);
      for (std::size_t i = out.begin; i < out.end; ++i, sent += bytes)
        if (fresh) copies.add(sent_.data() + sent, array().from + row(route_->out[i]), bytes);
      lane.expect(rank, received, (in.end - in.begin) * bytes, Payload::rows);
      received += (in.end - in.begin) * bytes;
    });
    copies.start();
    received_.resize_with_slack(received);
    lane.template post<Space>(sent_.data(), received_.data());
  }

  // Puts this round's arrivals in their places. The senders' rows lie rank after rank.
  void unpack(Topology<C> const& topology) {
    std::byte const* at = received_.data();
    auto copies = ops_.copies();
    for (int rank = 0; rank < topology.size(); ++rank) {
      if (rank == topology.rank()) continue;
      Rows const in = of_round(all_in(rank), round_rows(topology));
      for (std::size_t i = in.begin; i < in.end; ++i, at += array().row_bytes)
        copies.add(array().to + row(route_->in[i]), at, array().row_bytes);
    }
    copies.start();
  }

  // Returns the distance of the row of this number from the array's first byte, in bytes.
  std::size_t row(Index number) const { return static_cast<std::size_t>(number) * array().row_bytes; }

  [[no_unique_address]] Ops ops_;
  MoveRoute<Index> const* route_;
  List<MovingArray> arrays_;
  // The array at hand, and its round.
  std::size_t array_ = 0, round_ = 0;
  // Packed, for the transfer at hand.
  Buffer<std::byte, Space> sent_, received_;
};

}  // namespace parallax
