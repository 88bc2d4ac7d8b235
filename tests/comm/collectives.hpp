// What the typed collectives must give, on any communicator: computed by each rank from what all ranks bring.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "parallax/comm/collectives.hpp"
#include "parallax/memory/shared.hpp"

namespace parallax_test {

// Element i of what rank r brings: sums of these differ in their last bits with the order.
template <class T>
T brought(int rank, std::size_t i) {
  return static_cast<T>(1.0 / (1.0 + static_cast<double>(i % 17) + 10.0 * rank));
}
template <class T>
std::vector<T> brought_by(int rank, std::size_t n) {
  std::vector<T> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = brought<T>(rank, i);
  return values;
}
// The sum in the order of ranks.
template <class T>
std::vector<T> sum_of(int ranks, std::size_t n) {
  std::vector<T> sum = brought_by<T>(0, n);
  for (int rank = 1; rank < ranks; ++rank)
    for (std::size_t i = 0; i < n; ++i) sum[i] += brought<T>(rank, i);
  return sum;
}
// Where a rank's part of n elements begins.
inline std::size_t first_of(std::size_t n, int rank, int ranks) {
  return n * static_cast<std::size_t>(rank) / static_cast<std::size_t>(ranks);
}

// The names of the collectives that gave something else on this rank.
template <class C>
std::string wrong_collectives(C& comm, std::size_t n) {
  int const rank = comm.rank(), ranks = comm.size();
  auto const N = static_cast<std::size_t>(ranks);
  std::string wrong;
  auto const expect = [&](bool right, char const* name) { wrong += right ? "" : std::string{name} + " "; };
  auto const counts_of = [&](int r) { return (n + static_cast<std::size_t>(r) * 3) % 7; };  // ragged, some none

  parallax::barrier(comm);

  std::vector<double> summed = brought_by<double>(rank, n);
  parallax::allreduce(comm, std::span{summed});
  expect(summed == sum_of<double>(ranks, n), "allreduce");

  std::vector<float> const mine = brought_by<float>(rank, n), all = sum_of<float>(ranks, n);
  std::size_t const begin = first_of(n, rank, ranks), end = first_of(n, rank + 1, ranks);
  std::vector<float> part(end - begin);
  parallax::reduce_scatter(comm, std::span<float const>{mine}, std::span{part});
  expect(part == std::vector<float>(all.begin() + static_cast<std::ptrdiff_t>(begin),
                                    all.begin() + static_cast<std::ptrdiff_t>(end)),
         "reduce_scatter");

  std::vector<std::size_t> counts(N);
  std::vector<std::int32_t> gathered, expected;
  for (int r = 0; r < ranks; ++r) {
    counts[static_cast<std::size_t>(r)] = counts_of(r);
    for (std::size_t i = 0; i < counts_of(r); ++i) expected.push_back(100 * r + static_cast<int>(i));
  }
  std::vector<std::int32_t> sent;
  for (std::size_t i = 0; i < counts_of(rank); ++i) sent.push_back(100 * rank + static_cast<int>(i));
  gathered.resize(expected.size(), -1);
  parallax::allgatherv(comm, std::span<std::int32_t const>{sent}, std::span{gathered}, std::span<std::size_t const>{counts});
  expect(gathered == expected, "allgatherv");

  std::vector<std::int64_t> const values = parallax::allgather(comm, std::int64_t{7} * rank);
  bool each = values.size() == N;
  for (std::size_t r = 0; r < N && each; ++r) each = values[r] == 7 * static_cast<std::int64_t>(r);
  expect(each, "allgather");

  // r sends (r + 2 t) % 4 words to t.
  std::vector<std::size_t> to(N), from(N);
  std::vector<std::uint64_t> outgoing, incoming, should_come;
  for (std::size_t t = 0; t < N; ++t) {
    auto const r = static_cast<std::size_t>(rank);
    to[t] = (r + 2 * t) % 4;
    from[t] = (t + 2 * r) % 4;
    for (std::size_t i = 0; i < to[t]; ++i) outgoing.push_back(1000 * r + 10 * t + i);
    for (std::size_t i = 0; i < from[t]; ++i) should_come.push_back(1000 * t + 10 * r + i);
  }
  incoming.resize(should_come.size());
  parallax::alltoallv(comm, std::span<std::uint64_t const>{outgoing}, std::span<std::size_t const>{to}, std::span{incoming},
                      std::span<std::size_t const>{from});
  expect(incoming == should_come, "alltoallv");

  for (int root : {0, ranks - 1}) {
    std::vector<double> told = brought_by<double>(rank, n);
    parallax::broadcast(comm, std::span{told}, root);
    expect(told == brought_by<double>(root, n), "broadcast");
  }
  return wrong;
}

// What all-reduces in memory give wrong: of every size about where parts and pieces end, where memory of the host's processes,
// of this process alone, and of both meet, and where it begins at no cache line, and beyond those. `share(rank)`: whose memory is shared.
template <class T, class C, class Share>
std::string wrong_sums(C& comm, Share&& share) {
  std::string wrong;
  auto const ranks = static_cast<std::size_t>(comm.size());
  std::size_t const piece = (std::size_t{1} << 20) / sizeof(T);  // of a step, all parts together
  std::size_t const sizes[] = {0, 1, ranks - 1, ranks, ranks + 1, 4'099, piece - 1, piece + 1, 4 * piece + 17,
                               9 * piece + 33};
  for (std::size_t const n : sizes)
    for (std::size_t const first : {0, 1}) {
      std::vector<T> heap(n + first);
      parallax::SharedBuffer<T> block;
      if (share(comm.rank())) block.resize(n + first);
      std::span<T> const memory{(share(comm.rank()) ? block.data() : heap.data()) + (n + first ? first : 0), n};
      auto const mine = brought_by<T>(comm.rank(), n);
      for (int again = 0; again < 2; ++again) {
        std::copy(mine.begin(), mine.end(), memory.begin());
        parallax::allreduce(comm, memory);
        auto const expected = sum_of<T>(comm.size(), n);
        if (!std::equal(memory.begin(), memory.end(), expected.begin()))
          wrong += std::to_string(n) + " elements from " + std::to_string(first) + " on; ";
      }
    }
  return wrong;
}

}  // namespace parallax_test
