// Rows dealt round by round: the library's default. It spreads ids sorted by frequency evenly over the owners, and ids with a
// stride like a hash. Variables include it, as do the partitioners that deal on.
#pragma once

#include <cstdint>
#include <string_view>

#include "parallax/partition/partitioner.hpp"

namespace parallax::inline v0_2 {
namespace detail {

// The deal of other partitioners: row r is in piece r mod pieces, whose owner is piece mod owners. A *round* is `pieces` rows,
// from a multiple of `pieces` on. Rows of an owner keep their order. When `pieces` is a multiple of the owners, row r lies at
// owner r mod owners, as local row r / owners, for any number of pieces.
class RoundRobin {
 public:
  // Made by layouts: at least one owner and one piece, and rows >= 0. If every owner has as many pieces, one piece for each
  // says the same.
  RoundRobin(std::int64_t rows, int owners, std::int64_t pieces)
      : rows_{rows}, by_pieces_{pieces % owners == 0 ? owners : pieces}, by_owners_{owners} {}

  // Returns the number of rows of the whole table.
  constexpr std::int64_t rows() const { return rows_; }
  // Returns the number of owners, with pieces dealt to them or without.
  PARALLAX_HOST_DEVICE constexpr int owners() const { return static_cast<int>(by_owners_.divisor()); }
  // Returns the number of rows of a full round: the given pieces, or the owners, if these divide the pieces.
  PARALLAX_HOST_DEVICE constexpr std::int64_t pieces() const { return by_pieces_.divisor(); }
  // Returns the number of a row's round, from 0.
  PARALLAX_HOST_DEVICE constexpr std::int64_t round_of(std::int64_t row) const { return by_pieces_.quotient(row); }

  // Returns the place of a row, by two divisions at most.
  PARALLAX_HOST_DEVICE constexpr Location locate(std::int64_t row) const {
    std::int64_t const round = round_of(row);
    return locate(round, row - round * pieces());
  }
  // Returns the place of the row that a round has in this piece: behind its owner's rows of earlier rounds.
  PARALLAX_HOST_DEVICE constexpr Location locate(std::int64_t round, std::int64_t piece) const {
    if (pieces() == by_owners_.divisor()) return {static_cast<int>(piece), round};
    std::int64_t const turn = by_owners_.quotient(piece);
    int const owner = static_cast<int>(piece - turn * owners());
    return {owner, round * pieces_of(owner) + turn};
  }

  // Returns the row at a place: the inverse of `locate`.
  PARALLAX_HOST_DEVICE constexpr std::int64_t global_row(int owner, std::int64_t local) const {
    std::int64_t const held = pieces_of(owner), round = local / held, turn = local % held;
    return round * pieces() + turn * owners() + owner;
  }

  // Returns the number of rows of one owner: of its pieces of every full round, and of the last.
  constexpr std::int64_t local_rows(int owner) const {
    std::int64_t const rounds = round_of(rows_), rest = rows_ - rounds * pieces();
    return rounds * pieces_of(owner) + dealt_to(rest, owner, owners());
  }

 private:
  // Returns the number of the owner's pieces.
  PARALLAX_HOST_DEVICE constexpr std::int64_t pieces_of(int owner) const { return dealt_to(pieces(), owner, owners()); }

  std::int64_t rows_;
  Divider by_pieces_, by_owners_;
};

}  // namespace detail

// A partitioner, and the default. A round of `pieces` consecutive rows goes to all pieces, one row each, and piece p belongs to
// owner p mod owners. Each round begins at a piece of its own, by a mix of the round's number: row r is in piece (r + mix(r /
// pieces)) mod pieces, but in the last round, if it is not full, in piece r mod pieces. So neighbours part, and ids with a
// stride meet at one owner no more often than by chance. When `pieces` is a multiple of the owners, the layout is the one of
// one piece per owner, and the rows of an owner keep their order.
struct Cyclic {
  // The option's axis.
  using axis = partitioner_axis;
  // The type's name, in signatures and errors.
  static constexpr std::string_view name = "Cyclic";
  // Rows of a round.
  std::int64_t pieces = 0;  // 0: one per owner

  // Locates rows by two divisions and a mix; defined below.
  class Layout;
  // Returns the layout of so many rows. Throws Error (invalid_argument) for negative numbers and for no owner. Constant time.
  Layout layout(std::int64_t rows, int owners) const;
};

// Cyclic's layout of a table: the deal of its rounds, each of them turned.
class Cyclic::Layout : detail::RoundRobin {
 public:
  // Kernels may locate rows.
  static constexpr bool on_device = true;

  // Made by `Cyclic::layout`: turns the rounds of this deal.
  explicit Layout(RoundRobin const& dealt) : RoundRobin{dealt}, full_rounds_{dealt.round_of(dealt.rows())} {}

  // Turning changes none of these.
  using RoundRobin::rows, RoundRobin::owners, RoundRobin::local_rows;

  // Returns the place of a row, 0 <= row < rows(): the place of its piece in its round.
  PARALLAX_HOST_DEVICE constexpr Location locate(std::int64_t row) const {
    std::int64_t const round = round_of(row), length = pieces();
    std::int64_t const beyond = row - round * length - (length - first_piece(round));  // pieces past the wrap, or negative
    return RoundRobin::locate(round, beyond + ((beyond >> 63) & length));              // no branch: nobody could predict it
  }

  // Returns the row at a place: the inverse of `locate`.
  PARALLAX_HOST_DEVICE constexpr std::int64_t global_row(int owner, std::int64_t local) const {
    std::int64_t const row = RoundRobin::global_row(owner, local), round = round_of(row), begin = round * pieces();
    std::int64_t const turned = row - first_piece(round);
    return turned < begin ? turned + pieces() : turned;
  }

 private:
  // Returns the piece of the round's first row: the round's number mixed by steps of the finaliser of MurmurHash3 (A. Appleby),
  // then scaled to [0, pieces). The constants belong to the format of sharded files: never change them.
  PARALLAX_HOST_DEVICE constexpr std::int64_t first_piece(std::int64_t round) const {
    if (round == full_rounds_) return 0;
    auto mixed = static_cast<std::uint64_t>(round) * 0xff51afd7ed558ccd;
    mixed ^= mixed >> 33;
    mixed *= 0xc4ceb9fe1a85ec53;
    return detail::scaled_down(mixed, pieces());
  }

  // The number of the last round, if it is not full: such a round is not turned.
  std::int64_t full_rounds_;
};

inline Cyclic::Layout Cyclic::layout(std::int64_t rows, int owners) const {
  return Layout{detail::RoundRobin{rows, owners, detail::checked_pieces(name, pieces, rows, owners)}};
}

}  // namespace parallax
