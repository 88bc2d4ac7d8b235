// Grouping equal keys on the host: a stable radix sort of (key, position) pairs over the significant bits only.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>

#include "parallax/core/error.hpp"
#include "parallax/kernel/row_ops.hpp"

namespace parallax {
namespace detail {

// A key and its position in one word, the key above: ordering the words orders by key, then by position.
struct PackedKeys {
  using Item = std::uint64_t;
  int shift;  // bits of a position

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

// How the bits of a key are cut into digits. Few positions get small digits, so that clearing counters costs little.
struct DigitPlan {
  int passes;
  int bits;

  DigitPlan(int key_bits, std::size_t count) {
    int const widest = count < 4096 ? 8 : 11;
    passes = (key_bits + widest - 1) / widest;
    bits = passes ? (key_bits + passes - 1) / passes : 0;
  }
  std::size_t radix() const { return std::size_t{1} << bits; }
  std::size_t digit(std::uint64_t key, int pass) const { return key >> (pass * bits) & (radix() - 1); }
};

// Below this many keys a comparison sort wins over clearing the counters.
inline constexpr std::size_t few_keys = 192;

}  // namespace detail

template <class Index>
struct SortScratch<Index, HostSpace> {
  std::array<Buffer<detail::PackedKeys::Item>, 2> packed;
  std::array<Buffer<detail::WideKeys::Item>, 2> wide;
  Buffer<std::uint32_t> counters;  // one row of `radix` per digit
};

namespace detail {

// Counts every digit of every key in one pass over the keys.
template <class Index>
void count_digits(std::span<Index const> keys, DigitPlan const& plan, Buffer<std::uint32_t>& counters) {
  counters.resize_with_slack(static_cast<std::size_t>(plan.passes) << plan.bits);
  counters.fill(0);
  std::uint32_t* const counts = counters.data();
  for (Index const key : keys)
    for (int pass = 0; pass < plan.passes; ++pass)
      ++counts[(static_cast<std::size_t>(pass) << plan.bits) + plan.digit(static_cast<std::uint64_t>(key), pass)];
}

// Turns the counts of one digit into first places. False when all keys agree in the digit: there is nothing to move.
inline bool make_places(std::span<std::uint32_t> counts, std::size_t total) {
  std::uint32_t place = 0;
  for (std::uint32_t& count : counts) {
    if (count == total) return false;
    std::uint32_t const here = count;
    count = place;
    place += here;
  }
  return true;
}

// Sorts (key, position) pairs by key, stably; returns the buffer of `work` in which they lie.
template <class Index, class Keys, class Item = typename Keys::Item>
Buffer<Item>& sort_pairs(std::span<Index const> keys, Keys const& form, DigitPlan const& plan,
                         std::array<Buffer<Item>, 2>& work, Buffer<std::uint32_t>& counters) {
  std::size_t const n = keys.size();
  for (Buffer<Item>& buffer : work) buffer.resize_with_slack(n);
  Buffer<Item>*from = &work[0], *to = &work[1];
  auto const pair_at = [&](std::size_t i) {
    return form.pack(static_cast<std::uint64_t>(keys[i]), static_cast<std::uint32_t>(i));
  };
  bool read_keys = true;  // until a first digit has moved the keys into pairs

  if (n > few_keys) {
    count_digits(keys, plan, counters);
    for (int pass = 0; pass < plan.passes; ++pass) {
      std::span const places = counters.span().subspan(static_cast<std::size_t>(pass) << plan.bits, plan.radix());
      if (!make_places(places, n)) continue;
      std::uint32_t* const place = places.data();
      Item* const target = to->data();
      auto const move = [&, pass](Item const& item) { target[place[plan.digit(form.key(item), pass)]++] = item; };
      if (read_keys) {
        for (std::size_t i = 0; i < n; ++i) move(pair_at(i));
      } else {
        for (std::size_t i = 0; i < n; ++i) move((*from)[i]);
      }
      std::swap(from, to);
      read_keys = false;
    }
  }
  if (read_keys) {
    for (std::size_t i = 0; i < n; ++i) (*from)[i] = pair_at(i);
    if (n <= few_keys) std::sort(from->data(), from->data() + n);
  }
  return *from;
}

// Reads the runs off sorted pairs. Stores are unconditional: a run's end is overwritten until the next run begins.
template <class Index, class Keys>
void emit_groups(Buffer<typename Keys::Item> const& sorted, Keys const& form, Grouping<Index>& out) {
  std::size_t const n = sorted.size();
  std::size_t distinct = n > 0 ? 1 : 0;
  for (std::size_t i = 1; i < n; ++i) distinct += form.key(sorted[i]) != form.key(sorted[i - 1]);

  out.keys.resize_with_slack(distinct);
  out.offsets.resize_with_slack(distinct + 1);
  out.order.resize_with_slack(n);
  out.inverse.resize_with_slack(n);
  Index* const keys = out.keys.data();
  std::uint32_t *const offsets = out.offsets.data(), *const order = out.order.data(), *const inverse = out.inverse.data();

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

template <class Index>
void group_keys(std::span<Index const> keys, std::int64_t bound, Grouping<Index>& out,
                SortScratch<Index, HostSpace>& scratch) {
  std::size_t const n = keys.size();
  if (n > std::numeric_limits<std::uint32_t>::max())
    throw Error{Errc::invalid_argument, -1, "unique_with_inverse", "",
                std::to_string(n) + " keys; at most 2^32 - 1 can be grouped at once"};
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
