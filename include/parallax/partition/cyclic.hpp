// Rows dealt one by one: the library's default, which spreads ids sorted by frequency evenly over the owners.
#pragma once

#include <cstdint>
#include <string_view>

#include "parallax/partition/partitioner.hpp"

namespace parallax {

// Row r is in piece r mod pieces, whose owner is piece mod owners. Rows of an owner keep their order. When `pieces` is
// a multiple of the owners, that is row r at owner r mod owners, local row r / owners, however many pieces there are.
// Ids with a stride that shares a factor with the owners load only some of them: take Hash for those.
struct Cyclic {
  using axis = partitioner_axis;
  static constexpr std::string_view name = "Cyclic";
  std::int64_t pieces = 0;  // 0: one per owner

  class Layout;
  Layout layout(std::int64_t rows, int owners) const;
};

class Cyclic::Layout {
 public:
  Layout(std::int64_t rows, int owners, std::int64_t pieces)
      : rows_{rows}, by_pieces_{pieces % owners == 0 ? owners : pieces}, by_owners_{owners} {}

  constexpr std::int64_t rows() const { return rows_; }
  constexpr int owners() const { return static_cast<int>(by_owners_.divisor()); }

  constexpr Location locate(std::int64_t row) const {
    std::int64_t const round = by_pieces_.quotient(row), piece = row - round * by_pieces_.divisor();
    if (by_pieces_.divisor() == by_owners_.divisor()) return {static_cast<int>(piece), round};
    std::int64_t const turn = by_owners_.quotient(piece);
    int const owner = static_cast<int>(piece - turn * owners());
    return {owner, round * pieces_of(owner) + turn};
  }

  constexpr std::int64_t global_row(int owner, std::int64_t local) const {
    std::int64_t const held = pieces_of(owner), round = local / held, turn = local % held;
    return round * by_pieces_.divisor() + turn * owners() + owner;
  }

  constexpr std::int64_t local_rows(int owner) const {
    std::int64_t const rounds = rows_ / by_pieces_.divisor(), rest = rows_ % by_pieces_.divisor();
    return rounds * pieces_of(owner) + detail::dealt_to(rest, owner, owners());
  }

 private:
  constexpr std::int64_t pieces_of(int owner) const { return detail::dealt_to(by_pieces_.divisor(), owner, owners()); }

  std::int64_t rows_;
  detail::Divider by_pieces_, by_owners_;
};

inline Cyclic::Layout Cyclic::layout(std::int64_t rows, int owners) const {
  return {rows, owners, detail::checked_pieces(name, pieces, rows, owners)};
}

static_assert(Partitioner<Cyclic>);

}  // namespace parallax
