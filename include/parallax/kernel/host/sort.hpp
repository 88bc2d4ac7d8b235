// Grouping equal keys on the host: a stable radix sort of (key, position) pairs over the significant bits only. Every plan of
// a batch is made by it, through `RowOps<HostSpace>::unique_with_inverse`.
#pragma once

#include <array>
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>

#include "parallax/core/algorithm.hpp"
#include "parallax/core/error.hpp"
#include "parallax/kernel/row_ops.hpp"

namespace parallax {
namespace detail {

// A key and its position in one word, the key above: ordering the words orders by key, then by position.
struct PackedKeys {
  using Item = std::uint64_t;
  int shift;  // bits of a position

  // `key << shift` loses no bit of a key in the bound: group_keys chooses this form only where both fit 64 bits.
  Item pack(std::uint64_t key, std::uint32_t position) const { return key << shift | position; }
  std::uint64_t key(Item item) const { return item >> shift; }
  std::uint32_t position(Item item) const { return static_cast<std::uint32_t>(item & ((Item{1} << shift) - 1)); }
};

// The same where key and position need more than 64 bits together.
struct WideKeys {
  struct Item {
    std::uint64_t key;
    std::uint32_t position;
    auto operator<=>(Item const&) const = default;
  };

  Item pack(std::uint64_t key, std::uint32_t position) const { return {key, position}; }
  std::uint64_t key(Item const& item) const { return item.key; }
  std::uint32_t position(Item const& item) const { return item.position; }
};

// How the bits of a key are cut into digits: wide ones for many keys, so that passes are few; narrow ones for few keys,
// so that clearing and summing counters costs little. At 13 bits the counters of a pass still fit the L1 cache.
struct DigitPlan {
  // How many digits there are, the lowest first; 0 where the bound leaves one key.
  int passes;
  // The bits of every digit.
  int bits;

  // Of keys with `key_bits` significant bits, `count` of them.
  DigitPlan(int key_bits, std::size_t count) {
    int const widest = std::clamp(static_cast<int>(std::bit_width(count)) - 1, 8, 13);
    passes = (key_bits + widest - 1) / widest;
    bits = passes ? (key_bits + passes - 1) / passes : 0;
  }
  // The number of values of a digit, which is that of its counters.
  std::size_t radix() const { return std::size_t{1} << bits; }
  // Where the counters of a pass begin among those of all passes.
  std::size_t first_counter(int pass) const { return static_cast<std::size_t>(pass) << bits; }
};

// Reads one digit of a key. A value, so that loops which write counters keep it in registers.
struct Digit {
  int shift;
  std::uint64_t mask;

  Digit(DigitPlan const& plan, int pass) : shift{pass * plan.bits}, mask{plan.radix() - 1} {}
  std::size_t operator()(std::uint64_t key) const { return key >> shift & mask; }
};

// Below this many keys a comparison sort wins over clearing the counters.
inline constexpr std::size_t few_keys = 64;

// From this many keys on, what is written out of order lies beyond the second cache: its line is asked for some keys earlier.
inline constexpr std::size_t many_keys = std::size_t{1} << 18, keys_ahead = 24;

}  // namespace detail

// What a sort on the host works in: two buffers that pairs move between, of one of two forms, and counters. Plans keep one.
template <class Index>
struct SortScratch<Index, HostSpace> {
  // Pairs of 8 bytes, for keys whose bits and those of their positions fit one word.
  std::array<Buffer<detail::PackedKeys::Item>, 2> packed;
  // Pairs of 16 bytes, for all other keys.
  std::array<Buffer<detail::WideKeys::Item>, 2> wide;
  Buffer<std::uint32_t> counters;  // one row of `radix` per digit
};

namespace detail {

// Counts digits of all keys in one pass over them, two digits at a time.
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

// Turns the counts of one digit into first places. False when all keys agree in the digit: there is nothing to move.
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

// Moves n pairs, read through pair_at(i), to their places by one digit.
template <class Keys, class PairAt>
void move_pairs(std::size_t n, PairAt const& pair_at, Keys form, Digit digit, std::uint32_t* __restrict places,
                typename Keys::Item* __restrict target) {
  auto const move = [&](std::size_t i) {
    auto const item = pair_at(i);
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

// Sorts (key, position) pairs by key, stably; returns the buffer of `work` in which they lie. The first digit in which
// keys differ is moved from the keys themselves, later ones from pairs.
template <class Index, class Keys, class Item = typename Keys::Item>
Buffer<Item>& sort_pairs(std::span<Index const> keys, Keys form, DigitPlan const& plan, std::array<Buffer<Item>, 2>& work,
                         Buffer<std::uint32_t>& counters) {
  std::size_t const n = keys.size();
  for (Buffer<Item>& buffer : work) buffer.resize_with_slack(n);
  auto const from_keys = [keys, form](std::size_t i) {
    return form.pack(static_cast<std::uint64_t>(keys[i]), static_cast<std::uint32_t>(i));
  };
  if (n <= few_keys) {
    for (std::size_t i = 0; i < n; ++i) work[0][i] = from_keys(i);
    std::sort(work[0].data(), work[0].data() + n);
    return work[0];
  }

  count_digits(keys, plan, counters);
  Buffer<Item>*from = nullptr, *to = &work[0];
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

// Reads the runs off sorted pairs. Stores are unconditional: a run's end is overwritten until the next run begins.
template <class Index, class Keys>
void emit_groups(Buffer<typename Keys::Item> const& sorted, Keys form, Grouping<Index>& out) {
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

// What `RowOps<HostSpace>::unique_with_inverse` promises: chooses the form of pairs by the bound, sorts them, and reads off
// the groups. Linear in the number of keys, times the passes.
template <class Index>
void group_keys(std::span<Index const> keys, std::int64_t bound, Grouping<Index>& out, SortScratch<Index, HostSpace>& scratch) {
  std::size_t const n = keys.size();
  if (n > std::numeric_limits<std::uint32_t>::max())
    throw Error{Errc::invalid_argument, -1, "unique_with_inverse", "",
                joined({n, " keys; at most 2^32 - 1 can be grouped at once"})};
  int const key_bits = bound > 1 ? static_cast<int>(std::bit_width(static_cast<std::uint64_t>(bound - 1))) : 0;
  int const position_bits = n > 1 ? static_cast<int>(std::bit_width(n - 1)) : 0;
  DigitPlan const plan{key_bits, n};
  if (key_bits + position_bits <= 64) {
    PackedKeys const form{position_bits};
    emit_groups(sort_pairs(keys, form, plan, scratch.packed, scratch.counters), form, out);
  } else {
    WideKeys const form{};
    emit_groups(sort_pairs(keys, form, plan, scratch.wide, scratch.counters), form, out);
  }
}

}  // namespace detail
}  // namespace parallax
