// A partitioner: a choice of type and number of pieces that fixes a bijection of rows to (owner, local row). Every partitioner
// includes it, and code that deals or locates rows by one. The room `partition` has the owner of a row, and its place there.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <string_view>

#include "parallax/core/error.hpp"
#include "parallax/detail/core/config.hpp"
#include "parallax/detail/core/option.hpp"

namespace parallax::inline v0_2 {

// The place of a row: row `local` of the shard of `owner`. Returned by a layout's `locate`.
struct Location {
  // The owner's number in [0, owners): owners are numbered apart from ranks.
  int owner = 0;
  // The row in the owner's shard, from 0 on.
  std::int64_t local = 0;

  friend bool operator==(Location const&, Location const&) = default;
};

// A placement of [0, rows) on [0, owners): `locate` is a bijection whose inverse is `global_row`, and the local rows of an
// owner are exactly [0, local_rows(owner)). A pure function of its value: all ranks compute the same. Copies may share constant
// parts. Arguments outside these ranges are preconditions violated; `locate` runs once per id and checks nothing. A layout with
// the mark `static constexpr bool on_device = true` is trivially copyable, and kernels may call all but `local_rows`.
template <class L>
concept PartitionLayout = std::copyable<L> && requires(L const& layout, std::int64_t row, int owner) {
  { layout.rows() } -> std::same_as<std::int64_t>;
  { layout.owners() } -> std::same_as<int>;
  { layout.locate(row) } -> std::same_as<Location>;
  { layout.global_row(owner, row) } -> std::same_as<std::int64_t>;
  { layout.local_rows(owner) } -> std::same_as<std::int64_t>;
};

// An option on the partitioner axis. A *piece* is a unit of ownership: piece p belongs to owner p mod owners, and
// `pieces` of them are dealt (0: one per owner). `layout` accepts zero rows and fewer rows or pieces than owners, and
// throws Error (invalid_argument) for negative numbers or no owner. conformance/partitioner.hpp checks the
// behaviour of a model.
template <class P>
concept Partitioner = std::copyable<P> && std::same_as<typename P::axis, partitioner_axis> &&
    requires(P partitioner, P const& view, std::int64_t rows, int owners) {
  { P::name } -> std::convertible_to<std::string_view>;
  { partitioner.pieces } -> std::same_as<std::int64_t&>;
  { view.layout(rows, owners) } -> PartitionLayout;
};

namespace detail {

// For products of two words of 64 bits.
__extension__ typedef unsigned __int128 Wide;

// Returns word / 2^64 of `size`, rounded down: in [0, size), and evenly spread if the word is.
PARALLAX_HOST_DEVICE constexpr std::int64_t scaled_down(std::uint64_t word, std::int64_t size) {
  return static_cast<std::int64_t>(Wide{word} * static_cast<std::uint64_t>(size) >> 64);
}

// Division of 0 <= n < 2^63 by a fixed divisor d >= 1, by one multiplication: floor(n / d) = floor(n m / 2^(63 + s))
// with 2^s >= d and m = floor(2^(63 + s) / d) + 1. Exact: Granlund and Montgomery, "Division by Invariant Integers
// using Multiplication", PLDI 1994, theorem 4.2 with N = 63.
class Divider {
 public:
  // Makes the constants for a divisor of at least 1.
  constexpr explicit Divider(std::int64_t divisor = 1)
      : divisor_{divisor},
        shift_{static_cast<int>(std::bit_width(static_cast<std::uint64_t>(divisor) - 1))},
        multiplier_{static_cast<std::uint64_t>((Wide{1} << (63 + shift_)) / static_cast<Wide>(divisor) + 1)} {}

  // Returns the divisor.
  PARALLAX_HOST_DEVICE constexpr std::int64_t divisor() const { return divisor_; }
  // Returns n / divisor, rounded down, for 0 <= n < 2^63.
  PARALLAX_HOST_DEVICE constexpr std::int64_t quotient(std::int64_t n) const {
    Wide const product = Wide{multiplier_} * (2 * static_cast<std::uint64_t>(n));
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(product >> 64) >> shift_);
  }

 private:
  std::int64_t divisor_;
  int shift_;
  std::uint64_t multiplier_;
};

// Returns how many of 0, 1, …, count - 1 are congruent to `owner` modulo `owners`.
PARALLAX_HOST_DEVICE constexpr std::int64_t dealt_to(std::int64_t count, int owner, int owners) {
  return count > owner ? (count - owner - 1) / owners + 1 : 0;
}

// Returns the effective number of pieces, after the common checks of all partitioners: `pieces`, or for 0 one per owner. Throws
// Error (invalid_argument), with the partitioner's name, for negative numbers and for no owner.
std::int64_t checked_pieces(std::string_view name, std::int64_t pieces, std::int64_t rows, int owners);

}  // namespace detail
}  // namespace parallax

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/partition/partitioner-inl.hpp"
#endif
