// Rows dealt after a fixed shuffle: even for any pattern of ids, strided ones too. Included by parallax.hpp; given to a sparse
// Variable as an option and as a setting.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

#include "parallax/detail/core/config.hpp"
#include "parallax/detail/partition/cyclic.hpp"
#include "parallax/partition/partitioner.hpp"

namespace parallax::inline v0_2 {
namespace detail {

// A fixed pseudo-random permutation of [0, size), size >= 0. On the b = bit_width(size - 1) bits it runs the steps of
// the finaliser of MurmurHash3 (A. Appleby: xor-shift, multiplication by an odd constant, alternating), each invertible
// modulo 2^b, and again until the value lies in [0, size): the cycle-walking of Black and Rogaway, "Ciphers with
// Arbitrary Finite Domains", CT-RSA 2002; fewer than two rounds on average. The constants belong to the format of
// sharded files: never change them.
class Shuffle {
 public:
  // Makes the permutation of so many numbers.
  constexpr explicit Shuffle(std::int64_t size = 0)
      : size_{static_cast<std::uint64_t>(size)},
        bits_{size > 1 ? static_cast<int>(std::bit_width(size_ - 1)) : 1},
        half_{(bits_ + 1) / 2},
        mask_{(std::uint64_t{1} << bits_) - 1} {}

  // Returns the place of x in [0, size).
  PARALLAX_HOST_DEVICE constexpr std::int64_t operator()(std::int64_t x) const { return walk(x, first_factor, second_factor); }
  // Returns the x whose place is y: by the same steps, with the inverse factors in the other order.
  PARALLAX_HOST_DEVICE constexpr std::int64_t inverse(std::int64_t y) const {
    return walk(y, inverse_of(second_factor), inverse_of(first_factor));
  }

 private:
  static constexpr std::uint64_t first_factor = 0xff51afd7ed558ccd, second_factor = 0xc4ceb9fe1a85ec53;

  // Returns the first number below the size to which the steps with these factors lead from `from`.
  PARALLAX_HOST_DEVICE constexpr std::int64_t walk(std::int64_t from, std::uint64_t first, std::uint64_t second) const {
    auto value = static_cast<std::uint64_t>(from);
    do {
      value ^= value >> half_;
      value = value * first & mask_;
      value ^= value >> half_;
      value = value * second & mask_;
      value ^= value >> half_;
    } while (value >= size_);
    return static_cast<std::int64_t>(value);
  }
  // Returns the inverse modulo 2^64 of an odd number, by Newton's iteration: each step doubles the number of correct low bits.
  PARALLAX_HOST_DEVICE static constexpr std::uint64_t inverse_of(std::uint64_t odd) {
    std::uint64_t result = odd;  // correct in 3 bits
    for (int step = 0; step < 5; ++step) result *= 2 - odd * result;
    return result;
  }

  std::uint64_t size_;
  int bits_, half_;  // x ^= x >> half is its own inverse, because 2 * half >= bits
  std::uint64_t mask_;
};

}  // namespace detail

// A partitioner: row r is in piece p(r) mod pieces, whose owner is piece mod owners; p is a fixed permutation of [0, rows).
// Neighbours part, as do ids with a stride; the rows of an owner are in no order.
struct Hash {
  // The option's axis.
  using axis = partitioner_axis;
  // The type's name, in signatures and errors.
  static constexpr std::string_view name = "Hash";
  // Number of pieces to deal the shuffled rows to.
  std::int64_t pieces = 0;  // 0: one per owner

  // Locates rows by a shuffle and two divisions; defined below.
  class Layout;
  // Returns the layout of so many rows. Throws Error (invalid_argument) for negative numbers and for no owner. Constant time.
  Layout layout(std::int64_t rows, int owners) const;
};

// Hash's layout of a table: the deal of its shuffled rows.
class Hash::Layout : detail::RoundRobin {
 public:
  // Kernels may locate rows.
  static constexpr bool on_device = true;

  // Made by `Hash::layout`: shuffles the rows of this deal, and keeps a copy of it.
  explicit Layout(RoundRobin const& dealt) : RoundRobin{dealt}, shuffle_{dealt.rows()} {}

  // The deal's numbers of rows, of owners, and of an owner's rows: the shuffle changes none of these.
  using RoundRobin::rows, RoundRobin::owners, RoundRobin::local_rows;
  // Returns the place of a row, 0 <= row < rows(): the place of its number in the shuffle.
  PARALLAX_HOST_DEVICE constexpr Location locate(std::int64_t row) const { return RoundRobin::locate(shuffle_(row)); }
  // Returns the row at a place: the inverse of `locate`.
  PARALLAX_HOST_DEVICE constexpr std::int64_t global_row(int owner, std::int64_t local) const {
    return shuffle_.inverse(RoundRobin::global_row(owner, local));
  }

 private:
  detail::Shuffle shuffle_;
};

inline Hash::Layout Hash::layout(std::int64_t rows, int owners) const {
  return Layout{detail::RoundRobin{rows, owners, detail::checked_pieces(name, pieces, rows, owners)}};
}

}  // namespace parallax
