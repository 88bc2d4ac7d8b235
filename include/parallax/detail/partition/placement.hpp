// A table's rows in the order of their owners: the keys for plans to sort, exchange and group by. The state of a sparse
// variable has one, and makes another one for a move.
#pragma once

#include <cstdint>
#include <span>

#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/core/list.hpp"
#include "parallax/partition/partitioner.hpp"

namespace parallax::inline v0_2 {

// A layout and the key of each row. Key of a row = bases[owner] + local row. Keys are a permutation of [0, rows), so they fit
// the index type of the table, need few bits to sort, and once sorted lie owner after owner; the owner of a key is found from
// `bases` alone.
template <class Index, Partitioner P>
class Placement {
 public:
  // The partitioner's layout of a table.
  using Layout = decltype(std::declval<P const&>().layout(std::int64_t{}, int{}));

  // Deals `rows`, within Index's range, to so many owners. Throws the errors of the partitioner's `layout`, and std::bad_alloc.
  // Takes time and memory in proportion to the owners, beside the layout's.
  Placement(P const& partitioner, std::int64_t rows, int owners) : layout_{partitioner.layout(rows, owners)} {
    bases_.reserve(static_cast<std::size_t>(owners) + 1);
    std::int64_t base = 0;
    for (int owner = 0; owner < owners; ++owner) {
      bases_.push_back(static_cast<Index>(base));
      base += layout_.local_rows(owner);
    }
    bases_.push_back(static_cast<Index>(base));
  }

  // Returns the number of rows of the whole table, which is the number of keys.
  std::int64_t rows() const { return layout_.rows(); }
  // Returns the number of owners, with rows dealt to them or without.
  int owners() const { return layout_.owners(); }
  // Returns the first key of an owner; for owners() the number of keys.
  Index base(int owner) const { return bases_[static_cast<std::size_t>(owner)]; }
  // Returns the number of rows of an owner; 0 for owner -1, the number of a rank that owns nothing.
  std::int64_t local_rows(int owner) const { return owner < 0 ? 0 : base(owner + 1) - base(owner); }
  // Returns the first key of each owner and the number of keys: owners() + 1 numbers. Valid as long as the placement.
  std::span<Index const> bases() const { return bases_; }
  // Returns the layout, valid as long as the placement, for work that locates rows itself.
  Layout const& layout() const { return layout_; }

  // Returns the key of a row, 0 <= row < rows().
  Index key(std::int64_t row) const {
    Location const at = layout_.locate(row);
    return static_cast<Index>(bases_[static_cast<std::size_t>(at.owner)] + at.local);
  }
  // Returns the row of a key: the inverse of `key`, by a search among the owners.
  std::int64_t row(Index key) const {
    auto const owner = std::upper_bound(bases_.begin(), bases_.end() - 1, key) - bases_.begin() - 1;
    return layout_.global_row(static_cast<int>(owner), key - bases_[static_cast<std::size_t>(owner)]);
  }
  // Returns the number of a row's owner, 0 <= row < rows().
  int owner(std::int64_t row) const { return layout_.locate(row).owner; }
  // Returns the row of the whole table with number `local` in the shard of an owner.
  std::int64_t global_row(int owner, std::int64_t local) const { return layout_.global_row(owner, local); }

 private:
  Layout layout_;
  List<Index> bases_;
};

}  // namespace parallax
