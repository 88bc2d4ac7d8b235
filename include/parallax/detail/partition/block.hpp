// Rows dealt in contiguous ranges: the classic sharding, and the baseline to measure other partitioners against. Included by
// parallax.hpp; given to a sparse Variable as an option and as a setting.
#pragma once

#include <cstdint>
#include <string_view>

#include "parallax/detail/core/algorithm.hpp"
#include "parallax/partition/partitioner.hpp"

namespace parallax::inline v0_2 {

// A partitioner: [0, rows) is cut into `pieces` ranges of equal length, the first rows mod pieces of them one row longer; range
// p belongs to owner p mod owners. An owner's rows keep their order. Frequent neighbouring ids meet at one owner; more pieces
// than owners dilute this.
struct Block {
  // The option's axis.
  using axis = partitioner_axis;
  // The type's name, in signatures and errors.
  static constexpr std::string_view name = "Block";
  // Number of ranges to cut the rows into.
  std::int64_t pieces = 0;  // 0: one per owner

  // Locates rows by three divisions at most; defined below.
  class Layout;
  // Returns the layout of so many rows. Throws Error (invalid_argument) for negative numbers and for no owner. Constant time.
  Layout layout(std::int64_t rows, int owners) const;
};

// Block's layout of a table: a few numbers to work out each row's place from.
class Block::Layout {
 public:
  // Kernels may locate rows.
  static constexpr bool on_device = true;

  // Made by `Block::layout`: at least one owner and one piece.
  Layout(std::int64_t rows, int owners, std::int64_t pieces)
      : rows_{rows},
        short_rows_{rows / pieces},
        long_pieces_{rows % pieces},
        by_long_{std::max<std::int64_t>(short_rows_ + (long_pieces_ > 0 ? 1 : 0), 1)},
        by_short_{std::max<std::int64_t>(short_rows_, 1)},
        by_owners_{owners} {}

  // Returns the number of rows of the whole table.
  constexpr std::int64_t rows() const { return rows_; }
  // Returns the number of owners, with rows dealt to them or without.
  PARALLAX_HOST_DEVICE constexpr int owners() const { return static_cast<int>(by_owners_.divisor()); }

  // Returns the place of a row, 0 <= row < rows(): the piece by division, then the rows before it at its owner.
  PARALLAX_HOST_DEVICE constexpr Location locate(std::int64_t row) const {
    std::int64_t const in_long = long_pieces_ * by_long_.divisor();
    std::int64_t const piece =
        row < in_long ? by_long_.quotient(row) : long_pieces_ + by_short_.quotient(row - in_long);
    std::int64_t const turn = by_owners_.quotient(piece);
    int const owner = static_cast<int>(piece - turn * owners());
    return {owner, row - first_row(piece) + turn * short_rows_ + least(turn, long_pieces_of(owner))};
  }

  // Returns the row at a place: the inverse of `locate`.
  PARALLAX_HOST_DEVICE constexpr std::int64_t global_row(int owner, std::int64_t local) const {
    std::int64_t const long_held = long_pieces_of(owner), in_long = long_held * by_long_.divisor();
    std::int64_t const turn =
        local < in_long ? by_long_.quotient(local) : long_held + by_short_.quotient(local - in_long);
    std::int64_t const within = local - turn * short_rows_ - least(turn, long_held);
    return first_row(owner + turn * owners()) + within;
  }

  // Returns the number of rows of one owner: of its long pieces and its short ones.
  constexpr std::int64_t local_rows(int owner) const {
    if (short_rows_ == 0) return long_pieces_of(owner);
    std::int64_t const count = (rows_ - long_pieces_) / short_rows_;
    return detail::dealt_to(count, owner, owners()) * short_rows_ + long_pieces_of(owner);
  }

 private:
  // Returns the lesser of two, on devices too.
  PARALLAX_HOST_DEVICE static constexpr std::int64_t least(std::int64_t a, std::int64_t b) { return b < a ? b : a; }
  // Returns the first row of a piece.
  PARALLAX_HOST_DEVICE constexpr std::int64_t first_row(std::int64_t piece) const {
    return piece * short_rows_ + least(piece, long_pieces_);
  }
  // Returns the number of the owner's long pieces.
  PARALLAX_HOST_DEVICE constexpr std::int64_t long_pieces_of(int owner) const { return detail::dealt_to(long_pieces_, owner, owners()); }

  std::int64_t rows_, short_rows_, long_pieces_;  // a long piece has one row more than a short one
  detail::Divider by_long_, by_short_, by_owners_;
};

inline Block::Layout Block::layout(std::int64_t rows, int owners) const {
  return {rows, owners, detail::checked_pieces(name, pieces, rows, owners)};
}

}  // namespace parallax
