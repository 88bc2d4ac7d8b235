// Threads that share rows: several neighbouring elements a thread, several threads a row, several rows a block. The kernels of
// rows, sums and updates are written in its terms.
#pragma once

#include <cstddef>
#include <cstdint>

#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/core/view.hpp"
#include "parallax/detail/kernel/cuda/launch.cuh"
#include "parallax/detail/kernel/cuda/strict.cuh"

namespace parallax::inline v0_2::device::detail {

// Neighbouring elements, moved in one load and one store if they have 16 bytes.
template <class T, int N>
struct alignas(N * sizeof(T)) Pack {
  T at[N];
};

inline constexpr std::size_t widest_access = 16;  // bytes

// The machine's word of so many bytes: a load or store of one is one instruction. Packs of 32 bytes are two words of 16. Stores
// are asked for by name (__stwb, a plain store), for compilers take others apart again.
template <std::size_t bytes>
struct word_of {
  using type = uint4;
};
template <>
struct word_of<8> {
  using type = uint2;
};
template <>
struct word_of<4> {
  using type = std::uint32_t;
};
template <>
struct word_of<2> {
  using type = std::uint16_t;
};

// Returns N neighbouring elements, read by whole words. `from` is aligned to all of them, by in_packs.
template <int N, class T>
__device__ inline Pack<T, N> load(T const* from) {
  using Word = typename word_of<sizeof(Pack<T, N>)>::type;
  constexpr std::size_t words = sizeof(Pack<T, N>) / sizeof(Word);
  Word held[words];
  for (std::size_t i = 0; i < words; ++i) held[i] = reinterpret_cast<Word const*>(from)[i];
  Pack<T, N> pack;
  __builtin_memcpy(&pack, held, sizeof pack);
  return pack;
}
// Writes N neighbouring elements by whole words, to a place fit for `load`.
template <int N, class T>
__device__ inline void store(T* to, Pack<T, N> const& pack) {
  using Word = typename word_of<sizeof(Pack<T, N>)>::type;
  constexpr std::size_t words = sizeof(Pack<T, N>) / sizeof(Word);
  Word held[words];
  __builtin_memcpy(held, &pack, sizeof pack);
  for (std::size_t i = 0; i < words; ++i) __stwb(reinterpret_cast<Word*>(to) + i, held[i]);
}

// Adds N elements to a sum, each rounded by itself; those of 16 bits are added in float.
template <int N, class T>
__device__ void add_pack(Pack<T, N>& sum, Pack<T, N> const& addend) {
  for (int k = 0; k < N; ++k) sum.at[k] = narrowed<T>(add(widened(sum.at[k]), widened(addend.at[k])));
}

// Calls f<M>(first) for each pack of n elements that this thread takes: packs of N, and the last n % N elements one by one.
template <int N, class F>
__device__ void for_each_pack(std::uint64_t n, F const& f) {
  std::uint64_t const whole = n / N;
  for (std::uint64_t i = thread_number(); i < whole; i += thread_count()) f.template operator()<N>(i * N);
  for (std::uint64_t i = whole * N + thread_number(); i < n; i += thread_count()) f.template operator()<1>(i);
}

// Returns true if every row of a table, and every pack of it, begins at a multiple of `bytes`.
template <class T>
bool rows_aligned(RowsView<T> table, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(table.data) % bytes == 0 &&
         static_cast<std::size_t>(table.stride) * sizeof(T) % bytes == 0 &&
         static_cast<std::size_t>(table.width) * sizeof(T) % bytes == 0;
}

// Returns true if rows of tables of unlike elements can be read pack by pack, N elements of each.
template <int N, class... T>
bool in_packs(RowsView<T>... tables) {
  return (rows_aligned(tables, N * sizeof(T)) && ...);
}

// Calls f<N>() with the number of elements of each table that a thread moves at once: as many of the largest as 16 bytes hold,
// if all tables lie so, else 1. Launchers choose their kernel by it, on the host.
template <class F, class... T>
void with_packs(F const& f, RowsView<T>... tables) {
  constexpr std::size_t largest = std::max({sizeof(T)...});
  constexpr int n = static_cast<int>(widest_access / largest);
  if (in_packs<n>(tables...)) f.template operator()<n>();
  else f.template operator()<1>();
}

// Returns the number of threads that share a row of `packs` packs: the fewest with as few steps as 32.
inline unsigned lanes_for(std::int64_t packs) {
  if (packs < 1) return 1;
  std::uint64_t const steps = ceil_div(static_cast<std::uint64_t>(packs), warp_lanes);
  return static_cast<unsigned>(ceil_div(static_cast<std::uint64_t>(packs), steps));
}
inline unsigned teams_for(unsigned lanes) { return block_threads / lanes; }  // in a block

// Launches a kernel whose teams stride over `rows`, of `packs` packs each; its last argument: a team's lanes. As `launch`.
template <class... P, class... A>
void launch_teams(cudaStream_t stream, std::uint64_t rows, std::int64_t packs, void (*kernel)(P...), A const&... arguments) {
  unsigned const lanes = lanes_for(packs);
  launch_over(stream, rows, teams_for(lanes), kernel, arguments..., lanes);
}

// A thread's place among teams of `lanes` threads: its team and its lane. Threads left over at a block's end have none.
struct Team {
  std::uint64_t number, count;
  unsigned lane;
  bool idle;

  __device__ explicit Team(unsigned lanes) {
    unsigned const teams = blockDim.x / lanes, team = threadIdx.x / lanes;
    number = std::uint64_t{blockIdx.x} * teams + team;
    count = std::uint64_t{gridDim.x} * teams;
    lane = threadIdx.x - team * lanes;
    idle = team >= teams;
  }
};

// A number of things: `most`, or the number in device memory left there by a kernel before.
struct Count {
  std::uint64_t most;
  std::uint32_t const* actual = nullptr;

  __device__ std::uint64_t operator()() const { return actual ? *actual : most; }
};

}  // namespace parallax::device::detail
