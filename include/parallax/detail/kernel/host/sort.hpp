// Grouping equal keys on the host: a stable radix sort of (key, position) pairs over the significant bits only, or a merge of
// runs in order. Every plan of a batch is made by it, through `RowOps<HostSpace>::unique_with_inverse`.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>

#include "parallax/core/error.hpp"
#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/core/config.hpp"
#include "parallax/detail/kernel/row_ops.hpp"

namespace parallax::inline v0_2 {
namespace detail {

// A key and its position in one word, the key above: ordering the words orders by key, then by position.
struct PackedKeys {
  int shift;  // bits of a position

  // Returns the word of a key and a position. `key << shift` loses no bit of a key in the bound: group_keys packs keys only if
  // both fit 64 bits.
  std::uint64_t pack(std::uint64_t key, std::size_t position) const { return key << shift | position; }
  std::uint64_t key(std::uint64_t item) const { return item >> shift; }
  std::uint32_t position(std::uint64_t item) const {
    return static_cast<std::uint32_t>(item & ((std::uint64_t{1} << shift) - 1));
  }
};

// The cut of a key's bits into digits: wide ones for many keys, for few passes; narrow ones for few keys, so clearing and
// summing counters costs little. At 13 bits the counters of a pass still fit the L1 cache.
struct DigitPlan {
  // Number of digits, the lowest first; 0 if the bound leaves one key.
  int passes;
  // The bits of every digit.
  int bits;

  // Plans for `count` keys with `key_bits` significant bits.
  DigitPlan(int key_bits, std::size_t count) {
    int const widest = std::clamp(static_cast<int>(std::bit_width(count)) - 1, 8, 13);
    passes = (key_bits + widest - 1) / widest;
    bits = passes ? (key_bits + passes - 1) / passes : 0;
  }
  // Returns the number of values of a digit, and of its counters.
  std::size_t radix() const { return std::size_t{1} << bits; }
  // Returns the beginning of a pass's counters among those of all passes.
  std::size_t first_counter(int pass) const { return static_cast<std::size_t>(pass) << bits; }
};

// A reader of one digit of a key. A value, so loops that write counters keep it in registers.
struct Digit {
  int shift;
  std::uint64_t mask;

  Digit(DigitPlan const& plan, int pass) : shift{pass * plan.bits}, mask{plan.radix() - 1} {}
  std::size_t operator()(std::uint64_t key) const { return key >> shift & mask; }
};

// Up to so many keys, to compare each with each wins over clearing the counters.
inline constexpr std::size_t few_keys = 64;

// Up to so many runs in order are merged, in three passes; more are sorted as if they were none.
inline constexpr std::size_t most_runs = 8;

// From this many keys on, words written out of order go beyond the second cache: each line is asked for some keys earlier.
inline constexpr std::size_t many_keys = std::size_t{1} << 18, keys_ahead = 24;

}  // namespace detail

// Memory of a sort on the host: two buffers for pairs to move between, and counters. Plans keep one.
template <class Index>
struct SortScratch<Index, HostSpace> {
  std::array<Buffer<std::uint64_t>, 2> packed;  // pairs in the form of detail::PackedKeys
  Buffer<std::uint32_t> counters;               // one row of `radix` per digit
};

namespace detail {

// Counts, in `counters`, the digits of all keys in one pass over them, two digits at a time.
template <class Index>
void count_digits(std::span<Index const> keys, DigitPlan const& plan, Buffer<std::uint32_t>& counters) {
  counters.resize_with_slack(plan.first_counter(plan.passes));
  counters.fill(0);
  int pass = 0;
  for (; pass + 1 < plan.passes; pass += 2) {
    Digit const low{plan, pass}, high{plan, pass + 1};
    std::uint32_t* const lows = &counters[plan.first_counter(pass)];
    std::uint32_t* const highs = &counters[plan.first_counter(pass + 1)];
    for (Index const key : keys) {
      ++lows[low(static_cast<std::uint64_t>(key))];
      ++highs[high(static_cast<std::uint64_t>(key))];
    }
  }
  if (pass < plan.passes) {
    Digit const digit{plan, pass};
    std::uint32_t* const counts = &counters[plan.first_counter(pass)];
    for (Index const key : keys) ++counts[digit(static_cast<std::uint64_t>(key))];
  }
}

// Turns counts of one digit into first places. Returns false, with nothing to move, if all `total` keys agree in the digit.
inline bool make_places(std::uint32_t* counts, std::size_t digits, std::size_t total) {
  std::uint32_t place = 0;
  for (std::size_t digit = 0; digit < digits; ++digit) {
    std::uint32_t const here = counts[digit];
    if (here == total) return false;
    counts[digit] = place;
    place += here;
  }
  return true;
}

// Moves n pairs, read through pair_at(i), to their places in `target` by one digit, and counts on the `places` of its values.
template <class PairAt>
void move_pairs(std::size_t n, PairAt const& pair_at, PackedKeys form, Digit digit, std::uint32_t* __restrict places,
                std::uint64_t* __restrict target) {
  auto const move = [&](std::size_t i) {
    std::uint64_t const item = pair_at(i);
    target[places[digit(form.key(item))]++] = item;
  };
  std::size_t i = 0;
  if (n >= many_keys)
    for (; i + keys_ahead < n; ++i) {
      __builtin_prefetch(target + places[digit(form.key(pair_at(i + keys_ahead)))], 1);  // its place, or one shortly before
      move(i);
    }
  for (; i < n; ++i) move(i);
}

// Puts n different items, at most `few_keys`, at their places in `sorted`: before an item lie as many as are less. `items` has
// few_keys readable. Counted four vectors at a time, without a branch decided by keys, for nobody could predict it. Always
// inlined, so it is compiled for each width of vectors.
template <class Vector>
[[gnu::always_inline]] inline void place_few(std::int32_t const* items, std::size_t n, std::uint64_t* sorted) {
  constexpr std::size_t lanes = sizeof(Vector) / sizeof(std::int32_t), block = 4 * lanes;
  for (std::size_t first = 0; first < n; first += block) {
    Vector a, b, c, d, before_a{}, before_b{}, before_c{}, before_d{};
    std::memcpy(&a, items + first, sizeof a);
    std::memcpy(&b, items + first + lanes, sizeof b);
    std::memcpy(&c, items + first + 2 * lanes, sizeof c);
    std::memcpy(&d, items + first + 3 * lanes, sizeof d);
    for (std::size_t i = 0; i < n; ++i) {
      Vector const item = Vector{} + items[i];
      before_a -= item < a;  // -1 in the lanes of such items
      before_b -= item < b;
      before_c -= item < c;
      before_d -= item < d;
    }
    std::int32_t before[block];
    std::memcpy(before, &before_a, sizeof a);
    std::memcpy(before + lanes, &before_b, sizeof b);
    std::memcpy(before + 2 * lanes, &before_c, sizeof c);
    std::memcpy(before + 3 * lanes, &before_d, sizeof d);
    for (std::size_t i = first; i < std::min(first + block, n); ++i)
      sorted[before[i - first]] = static_cast<std::uint64_t>(items[i]);
  }
}
PARALLAX_WIDER inline void place_few_wider(std::int32_t const* items, std::size_t n, std::uint64_t* sorted) {
  using Vector [[gnu::vector_size(32)]] = std::int32_t;
  place_few<Vector>(items, n, sorted);
}

// Sorts (key, position) pairs by key, stably; returns the one of the scratch's two buffers with the result. The first digit in
// which keys differ is moved from the keys themselves, later ones from pairs.
template <class Index>
Buffer<std::uint64_t>& sort_pairs(std::span<Index const> keys, PackedKeys form, DigitPlan const& plan,
                                  SortScratch<Index, HostSpace>& scratch) {
  std::size_t const n = keys.size();
  auto& [work, counters] = scratch;
  for (auto& buffer : work) buffer.resize_with_slack(n);
  auto const from_keys = [keys, form](std::size_t i) { return form.pack(static_cast<std::uint64_t>(keys[i]), i); };
  if (n <= few_keys && plan.passes * plan.bits + form.shift < 32) {
    std::int32_t items[few_keys] = {};
    for (std::size_t i = 0; i < n; ++i) items[i] = static_cast<std::int32_t>(from_keys(i));
    using Vector [[gnu::vector_size(16)]] = std::int32_t;
    if (may_widen && machine_is_wider()) place_few_wider(items, n, work[0].data());
    else place_few<Vector>(items, n, work[0].data());
    return work[0];
  }

  count_digits(keys, plan, counters);
  Buffer<std::uint64_t>*from = nullptr, *to = &work[0];
  for (int pass = 0; pass < plan.passes; ++pass) {
    std::uint32_t* const places = counters.data() + plan.first_counter(pass);
    if (!make_places(places, plan.radix(), n)) continue;
    Digit const digit{plan, pass};
    if (from)
      move_pairs(
          n, [pairs = from->data()](std::size_t i) { return pairs[i]; }, form, digit, places, to->data());
    else move_pairs(n, from_keys, form, digit, places, to->data());
    from = to;
    to = from == &work[0] ? &work[1] : &work[0];
  }
  if (from) return *from;
  for (std::size_t i = 0; i < n; ++i) work[0][i] = from_keys(i);
  return work[0];
}

// Merges two runs in order, one behind the other, into `target`. A step takes one of two words without a branch.
inline void merge_two(std::uint64_t const* left, std::uint64_t const* const middle, std::uint64_t const* const last,
                      std::uint64_t* target) {
  std::uint64_t const* right = middle;
  while (left < middle && right < last) {
    bool const from_right = *right < *left;
    *target++ = from_right ? *right : *left;
    right += from_right;
    left += !from_right;
  }
  target = std::copy(left, middle, target);
  std::copy(right, last, target);
}

// Sorts like sort_pairs, keys in runs in order: run r is keys [begins[r], begins[r + 1]). Neighbours are merged up to the last.
template <class Index>
Buffer<std::uint64_t>& merge_pairs(std::span<Index const> keys, PackedKeys form, std::span<std::size_t const> begins,
                                   SortScratch<Index, HostSpace>& scratch) {
  std::size_t const n = keys.size(), runs = begins.size() - 1;
  auto& work = scratch.packed;
  for (auto& buffer : work) buffer.resize_with_slack(n);
  auto *from = &work[0], *to = &work[1];
  for (std::size_t i = 0; i < n; ++i) (*from)[i] = form.pack(static_cast<std::uint64_t>(keys[i]), i);
  auto const at = [&](std::size_t run) { return begins[std::min(run, runs)]; };
  for (std::size_t length = 1; length < runs; length *= 2, std::swap(from, to))
    for (std::size_t run = 0; run < runs; run += 2 * length)
      merge_two(from->data() + at(run), from->data() + at(run + length), from->data() + at(run + 2 * length),
                to->data() + at(run));
  return *from;
}

// Reads the runs off sorted pairs, into `out`. Stores are unconditional: a run's end is overwritten until the next run begins.
template <class Index>
void emit_groups(Buffer<std::uint64_t> const& sorted, PackedKeys form, Grouping<Index>& out) {
  std::size_t const n = sorted.size();
  std::size_t distinct = n > 0 ? 1 : 0;
  for (std::size_t i = 1; i < n; ++i) distinct += form.key(sorted[i]) != form.key(sorted[i - 1]);

  out.keys.resize_with_slack(distinct);
  out.offsets.resize_with_slack(distinct + 1);
  out.order.resize_with_slack(n);
  out.inverse.resize_with_slack(n);
  Index* const keys = out.keys.data();
  std::uint32_t* const offsets = out.offsets.data();
  std::uint32_t* const order = out.order.data();
  std::uint32_t* const inverse = out.inverse.data();

  offsets[0] = 0;
  std::uint32_t run = 0;
  std::uint64_t previous = n > 0 ? form.key(sorted[0]) : 0;
  for (std::size_t i = 0; i < n; ++i) {
    std::uint64_t const key = form.key(sorted[i]);
    std::uint32_t const position = form.position(sorted[i]);
    run += key != previous;
    previous = key;
    keys[run] = static_cast<Index>(key);
    offsets[run + 1] = static_cast<std::uint32_t>(i + 1);
    order[i] = position;
    inverse[position] = run;
  }
}

// Groups as group_keys does, if keys and positions together need more than 64 bits: rows by the trillion, and a batch of many
// millions. Positions are sorted by their keys; then keys go by their numbers among the distinct ones.
template <class Index>
PARALLAX_COLD void group_long_keys(std::span<Index const> keys, PackedKeys form, Grouping<Index>& out,
                                   SortScratch<Index, HostSpace>& scratch) {
  auto& sorted = scratch.packed[0];
  sorted.resize_with_slack(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) sorted[i] = i;
  auto const before = [&](std::uint64_t a, std::uint64_t b) { return keys[a] != keys[b] ? keys[a] < keys[b] : a < b; };
  std::make_heap(sorted.data(), sorted.data() + keys.size(), before);
  std::sort_heap(sorted.data(), sorted.data() + keys.size(), before);
  std::uint64_t number = 0;
  for (std::size_t i = 0, last = 0; i < keys.size(); ++i) {
    std::size_t const position = sorted[i];
    number += i > 0 && keys[position] != keys[last];
    sorted[i] = form.pack(number, position);
    last = position;
  }
  emit_groups(sorted, form, out);
  for (std::size_t k = 0; k < out.size(); ++k) out.keys[k] = keys[out.order[out.offsets[k]]];
}

// Keeps the promise of `RowOps<HostSpace>::unique_with_inverse`, errors too: sorts pairs, or merges them, and reads off the
// groups. Linear in the number of keys, times the passes. `begins`: of runs in order, and the end; or empty.
template <class Index>
void group_keys(std::span<Index const> keys, std::int64_t bound, Grouping<Index>& out, SortScratch<Index, HostSpace>& scratch,
                std::span<std::size_t const> begins) {
  std::size_t const n = keys.size();
  if (n > std::numeric_limits<std::uint32_t>::max())
    throw Error{Errc::invalid_argument, -1, "unique_with_inverse", "",
                joined({n, " keys; at most 2^32 - 1 can be grouped at once"})};
  int const key_bits = bound > 1 ? static_cast<int>(std::bit_width(static_cast<std::uint64_t>(bound - 1))) : 0;
  PackedKeys const form{n > 1 ? static_cast<int>(std::bit_width(n - 1)) : 0};
  if (key_bits + form.shift > 64) return group_long_keys(keys, form, out, scratch);
  bool const merges = !begins.empty() && begins.size() - 1 <= most_runs;
  emit_groups(merges ? merge_pairs(keys, form, begins, scratch) : sort_pairs(keys, form, DigitPlan{key_bits, n}, scratch), form,
              out);
}

}  // namespace detail
}  // namespace parallax
