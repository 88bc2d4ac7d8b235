// Random cases for kernels: how many there are, keys as models have them, and tables whose rows begin at odd places.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "../catch.hpp"
#include "parallax/detail/core/view.hpp"
#include "parallax/detail/kernel/cuda/strict.cuh"

namespace cases {

// Whether each access of the program is held against all others, which takes long: then less is enough of what is large.
#if defined(PARALLAX_EMULATOR_ORDER)
inline constexpr bool accesses_are_told = true;
#else
inline constexpr bool accesses_are_told = false;
#endif

// Draws the cases of a test. PARALLAX_CASES: how many times as many as usual; PARALLAX_SEED: another seed.
class Draw {
 public:
  explicit Draw(char const* what, std::size_t usual = 0) : what_{what} {
    char const* const times = std::getenv("PARALLAX_CASES");
    char const* const seed = std::getenv("PARALLAX_SEED");
    count_ = usual * (times ? std::strtoull(times, nullptr, 10) : 1);
    seed_ = seed ? std::strtoull(seed, nullptr, 10) : 20;
    engine_.seed(seed_);
  }
  ~Draw() { std::printf("%s: %zu random cases, seed %llu\n", what_, drawn_, static_cast<unsigned long long>(seed_)); }

  std::size_t count() const { return count_; }  // of rounds
  // The next case, on a device of few multiprocessors or on one of a single block.
  void next() {
    ++drawn_;
    emulator::multiprocessors = one_in(2) ? 2 : 0;
  }
  std::int64_t below(std::int64_t end) { return static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(end)); }
  bool one_in(int n) { return below(n) == 0; }

  // Mostly narrow, odd ones among them; sometimes up to 2048.
  std::int64_t width() {
    static constexpr std::int64_t known[] = {1, 2, 3, 4, 7, 8, 12, 16, 31, 32, 33, 64, 96, 100, 127, 128, 129, 255, 256, 257};
    if (one_in(64)) return 512 + below(1537);
    return one_in(2) ? 1 + below(40) : known[below(std::size(known))];
  }
  // Of keys: none, few, or some hundreds; sometimes thousands.
  std::uint32_t keys(std::int64_t width) {
    if (one_in(20)) return 0;
    if (one_in(100) && width < 40) return static_cast<std::uint32_t>(2000 + below(3000));
    return static_cast<std::uint32_t>(one_in(3) ? below(500) : 1 + below(80));
  }
  // In [0, bound): any, few that are frequent, one that is hot, or all the same.
  template <class Index>
  std::vector<Index> drawn_keys(std::uint32_t n, std::int64_t bound) {
    std::vector<Index> keys(n);
    int const kind = static_cast<int>(below(5));
    std::int64_t const hot = below(bound);
    for (Index& key : keys) {
      std::int64_t const any = below(bound);
      key = static_cast<Index>(kind == 4 || (kind == 3 && !one_in(10)) ? hot : kind == 2 ? any % 7 % bound : any);
    }
    return keys;
  }
  template <class Index>
  std::vector<Index> distinct_keys(std::uint32_t n, std::int64_t bound) {
    std::vector<Index> all(static_cast<std::size_t>(bound));
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<Index>(i);
    for (std::size_t i = 0; i < n; ++i)
      std::swap(all[i], all[i + static_cast<std::size_t>(below(bound - static_cast<std::int64_t>(i)))]);
    all.resize(n);
    return all;
  }
  template <class T>
  T value() {
    using C = parallax::device::Computed<T>;
    C const any = std::uniform_real_distribution<C>{-2, 2}(engine_);
    return parallax::device::detail::narrowed<T>(one_in(50) ? static_cast<C>(-0.0) : any);
  }

 private:
  char const* what_;
  std::size_t count_, drawn_ = 0;
  std::uint64_t seed_;
  std::mt19937_64 engine_;
};

// A table in memory of exactly its size, whose first row may begin at an odd place and whose rows may lie apart.
template <class T>
struct Table {
  std::vector<T> memory;
  std::int64_t shift, rows, width, stride;

  Table(Draw& draw, std::int64_t row_count, std::int64_t row_width, bool packed = false)
      : shift{draw.one_in(2) ? 0 : draw.below(8)},
        rows{row_count},
        width{row_width},
        stride{packed || draw.one_in(2) ? width : width + (draw.one_in(2) ? 1 + draw.below(5) : (16 - width % 16) % 16)},
        memory_size_{static_cast<std::size_t>(shift + (rows > 0 ? (rows - 1) * stride + width : 0))} {
    memory.resize(memory_size_);
    for (T& value : memory) value = draw.template value<T>();
  }
  parallax::RowsView<T> view() { return {memory.data() + shift, rows, width, stride}; }
  parallax::RowsView<T const> view() const { return {memory.data() + shift, rows, width, stride}; }
  T* data() { return memory.data() + shift; }

 private:
  std::size_t memory_size_;
};

template <class T>
bool same_bits(std::vector<T> const& a, std::vector<T> const& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

// A table in what its numbers are computed in.
template <class T>
Table<parallax::device::Computed<T>> widened(Table<T> const& table, Draw& draw) {
  Table<parallax::device::Computed<T>> wide{draw, 0, table.width};
  wide.shift = table.shift, wide.rows = table.rows, wide.stride = table.stride;
  for (T const& value : table.memory) wide.memory.push_back(parallax::device::detail::widened(value));
  wide.memory.erase(wide.memory.begin(), wide.memory.end() - static_cast<std::ptrdiff_t>(table.memory.size()));
  return wide;
}
template <class T>
std::vector<T> narrowed(std::vector<parallax::device::Computed<T>> const& wide) {
  std::vector<T> all;
  for (auto const value : wide) all.push_back(parallax::device::detail::narrowed<T>(value));
  return all;
}

// Scratch of exactly so many bytes, aligned as asked.
struct Scratch {
  explicit Scratch(std::size_t bytes) : memory{static_cast<std::byte*>(std::aligned_alloc(256, (bytes + 255) / 256 * 256))} {
    if (memory) std::memset(memory, 0xCD, (bytes + 255) / 256 * 256);
  }
  Scratch(Scratch const&) = delete;
  ~Scratch() { std::free(memory); }
  std::byte* memory;
};

}  // namespace cases
