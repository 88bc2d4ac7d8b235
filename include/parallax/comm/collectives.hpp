// Typed collectives on spans: called by whoever has a communicator and no variable. They need nothing but its one exchange.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/core/list.hpp"
#include "parallax/detail/transfer/dense.hpp"

namespace parallax::inline v0_2 {

// All functions here are collective over the communicator, blocking, and use one channel of their own, so they may stand
// between the operations of a session. They throw the communicator's errors, and after its deadline Error (timeout). Sums are
// formed in the order of ranks from a copy of the first addend: the same bits on every communicator.

namespace detail {

// One blocking collective: a flat topology over the caller's communicator, a lane on the channel of collectives, and the name
// for its errors. Every function below makes one, declares its blocks on the lane, and drives it to its end.
template <Communicator C>
class BlockingCollective {
 public:
  // Local. Refers to the communicator and to the text of the name, which must outlive it.
  BlockingCollective(C& comm, std::string_view name)
      : topology_{comm}, lane_{topology_, collectives_channel, traffic_}, name_{name} {}

  // Returns the lane, on which blocks are declared before `exchange`, in bytes of its arguments.
  Lane<C>& lane() { return lane_; }
  // Waits: calls `poll` until it returns true. Past the deadline aborts the communicator and throws Error (timeout) with a rank
  // still to deliver.
  template <class Poll>
  void drive(Poll&& poll) {
    Patience<C> patience{topology_.world()};
    while (!poll()) {
      if (patience.pause()) continue;
      Error const error = timeout_error(topology_.world(), lane_.waiting_for(), name_);
      topology_.world().abort(error);
      throw error;
    }
  }
  // Posts the declared blocks and waits, as `drive`, until all have arrived and left.
  void exchange(void const* send, void* receive) {
    lane_.post(send, receive);
    drive([&] { return lane_.test(); });
  }

 private:
  // The lane refers to the topology and to the counts, read by nobody.
  Topology<C> topology_;
  Traffic traffic_;
  Lane<C> lane_;
  std::string_view name_;
};

// Returns the first element of each rank's part of n elements, and n behind them: ranks + 1 numbers.
inline List<std::size_t> even_parts(std::size_t n, int ranks) {
  List<std::size_t> begins;
  for (int rank = 0; rank <= ranks; ++rank) begins.push_back(part_begin(n, rank, ranks));
  return begins;
}

// Throws Error (invalid_argument) unless a span has the number of elements needed by the call. Local, before anything is
// posted. `what`: the span's name.
template <class T>
void require_size(std::span<T> given, std::size_t needed, int rank, char const* operation, char const* what) {
  if (given.size() != needed)
    throw Error{Errc::invalid_argument, rank, operation, "",
                joined({what, " has ", given.size(), " elements instead of ", needed})};
}

}  // namespace detail

// Waits until every rank has called it. Throws the communicator's errors, and past its deadline Error (timeout).
template <Communicator C>
void barrier(C& comm) {
  detail::BlockingCollective<C> round{comm, "barrier"};
  List<std::byte> sent(1), received(static_cast<std::size_t>(comm.size()));
  for (int rank = 0; rank < comm.size(); ++rank) {
    if (rank == comm.rank()) continue;
    round.lane().send(rank, 0, 1, Payload::control);
    round.lane().expect(rank, static_cast<std::size_t>(rank), 1, Payload::control);
  }
  round.exchange(sent.data(), received.data());
}

// Sends each rank its elements, packed in the order of ranks: send_counts[r] elements of `send` go to rank r, and
// receive_counts[r] elements of `receive` come from rank r. Throws Error (invalid_argument), before anything is sent, unless
// both lists have a count for each rank, and both spans as many elements as their counts add up to.
template <class T, Communicator C>
void alltoallv(C& comm, std::span<T const> send, std::span<std::size_t const> send_counts, std::span<T> receive,
               std::span<std::size_t const> receive_counts) {
  auto const ranks = static_cast<std::size_t>(comm.size());
  detail::require_size(send_counts, ranks, comm.rank(), "alltoallv", "send_counts");
  detail::require_size(receive_counts, ranks, comm.rank(), "alltoallv", "receive_counts");
  detail::BlockingCollective<C> round{comm, "alltoallv"};
  std::size_t out = 0, in = 0;
  for (int rank = 0; rank < comm.size(); ++rank) {
    auto const r = static_cast<std::size_t>(rank);
    round.lane().send(rank, out * sizeof(T), send_counts[r] * sizeof(T), Payload::dense);
    round.lane().expect(rank, in * sizeof(T), receive_counts[r] * sizeof(T), Payload::dense);
    out += send_counts[r];
    in += receive_counts[r];
  }
  detail::require_size(send, out, comm.rank(), "alltoallv", "send");
  detail::require_size(receive, in, comm.rank(), "alltoallv", "receive");
  round.exchange(send.data(), receive.data());
}

// Sends every rank's values to every rank, packed in the order of ranks: counts[r] elements from rank r, known on all ranks.
// Throws Error (invalid_argument), before anything is sent, unless there is a count for each rank and the spans fit the counts.
template <class T, Communicator C>
void allgatherv(C& comm, std::span<T const> send, std::span<T> receive, std::span<std::size_t const> counts) {
  detail::require_size(counts, static_cast<std::size_t>(comm.size()), comm.rank(), "allgatherv", "counts");
  detail::BlockingCollective<C> round{comm, "allgatherv"};
  std::size_t in = 0;
  for (int rank = 0; rank < comm.size(); ++rank) {
    auto const r = static_cast<std::size_t>(rank);
    round.lane().send(rank, 0, send.size_bytes(), Payload::dense);
    round.lane().expect(rank, in * sizeof(T), counts[r] * sizeof(T), Payload::dense);
    in += counts[r];
  }
  detail::require_size(send, counts[static_cast<std::size_t>(comm.rank())], comm.rank(), "allgatherv", "send");
  detail::require_size(receive, in, comm.rank(), "allgatherv", "receive");
  round.exchange(send.data(), receive.data());
}

// Returns the value of every rank, by rank. Collective: waits for all ranks.
template <class T, Communicator C>
std::vector<T> allgather(C& comm, T const& value) {
  std::vector<T> values(static_cast<std::size_t>(comm.size()));
  List<std::size_t> const counts(values.size(), 1);
  allgatherv<T>(comm, std::span{&value, 1}, values, counts);
  return values;
}

// Collective. Returns every rank's bytes at rank 0, by rank; an empty list elsewhere. Ranks may differ in the number of bytes.
template <Communicator C>
std::vector<std::vector<std::byte>> gather(C& comm, std::span<std::byte const> mine) {
  std::vector<std::size_t> sizes = allgather(comm, mine.size()), to(sizes.size());
  if (comm.rank() != 0) sizes.assign(sizes.size(), 0);
  to[0] = mine.size();
  std::vector<std::byte> in;
  for (std::size_t const size : sizes) in.resize(in.size() + size);
  alltoallv<std::byte>(comm, mine, to, in, sizes);
  std::vector<std::vector<std::byte>> all;
  auto next = in.begin();
  for (std::size_t const size : sizes) {
    if (comm.rank() == 0) all.emplace_back(next, next + static_cast<std::ptrdiff_t>(size));
    next += static_cast<std::ptrdiff_t>(size);
  }
  return all;
}

// Writes the sum over ranks of elements [part_begin(n, r, N), part_begin(n, r + 1, N)) of `values` to `part` at rank r. Throws
// Error (invalid_argument), before anything is sent, if `part` has another size. All ranks give equally many values.
template <std::floating_point T, Communicator C>
void reduce_scatter(C& comm, std::span<T const> values, std::span<T> part) {
  auto const begins = detail::even_parts(values.size(), comm.size());
  auto const r = static_cast<std::size_t>(comm.rank());
  detail::require_size(part, begins[r + 1] - begins[r], comm.rank(), "reduce_scatter", "part");
  if (comm.size() == 1) {
    std::copy(values.begin(), values.end(), part.begin());
    return;
  }
  detail::BlockingCollective<C> round{comm, "reduce_scatter"};
  ReduceScatter<T, C> scatter;
  scatter.start(values.data(), begins, std::size_t{1} << 20, part.data());
  round.drive([&] { return scatter.poll(round.lane()); });
}

// Sums `values` over ranks, in place: every rank ends with all sums. By the vendor if the communicator was told so, else by
// reduce-scatter and allgather in the order of ranks. All ranks give the same number of elements.
template <std::floating_point T, Communicator C>
void allreduce(C& comm, std::span<T> values) {
  if (comm.size() == 1) return;
  detail::BlockingCollective<C> round{comm, "allreduce"};
  if constexpr (VendorAllreduce<C>) {
    if (comm.sum_order() == SumOrder::vendor) {
      round.lane().template post_allreduce<HostSpace>(values.data(), values.data(), values.size());
      return round.drive([&] { return round.lane().test(); });
    }
  }
  auto const begins = detail::even_parts(values.size(), comm.size());
  auto const r = static_cast<std::size_t>(comm.rank());
  ReduceScatter<T, C> scatter;
  scatter.start(values.data(), begins, std::size_t{1} << 20, values.data() + begins[r], values.data());
  round.drive([&] { return scatter.poll(round.lane()); });
  if (round.lane().topology().spreads()) return;
  Allgather<T, C> gather;
  gather.start(values.data(), begins);
  round.drive([&] { return gather.poll(round.lane()); });
}

// Sums, as the other `allreduce`, a span whose type says its number of elements.
template <std::floating_point T, std::size_t N, Communicator C>
  requires(N != std::dynamic_extent)
void allreduce(C& comm, std::span<T, N> values) { allreduce(comm, std::span<T>{values}); }

// Copies the values of rank `root` to every rank, in place; all give the same number. Throws Error (invalid_argument), before
// anything is sent, for a root that is no rank.
template <class T, Communicator C>
void broadcast(C& comm, std::span<T> values, int root = 0) {
  if (root < 0 || root >= comm.size())
    throw Error{Errc::invalid_argument, comm.rank(), "broadcast", "",
                joined({"the root is ", root, ", and ranks are from 0 to ", comm.size() - 1})};
  detail::BlockingCollective<C> round{comm, "broadcast"};
  for (int rank = 0; rank < comm.size(); ++rank) {
    if (comm.rank() == root && rank != root) round.lane().send(rank, 0, values.size_bytes(), Payload::dense);
    if (comm.rank() != root && rank == root) round.lane().expect(root, 0, values.size_bytes(), Payload::dense);
  }
  round.exchange(values.data(), values.data());
}
// Copies, as the other `broadcast`, a span whose type says its number of elements.
template <class T, std::size_t N, Communicator C>
  requires(N != std::dynamic_extent)
void broadcast(C& comm, std::span<T, N> values, int root = 0) { broadcast(comm, std::span<T>{values}, root); }

}  // namespace parallax
