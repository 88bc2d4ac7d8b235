// A table's rows in the order of their owners: the keys that plans sort, exchange and group by.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "parallax/core/algorithm.hpp"
#include "parallax/partition/partitioner.hpp"

namespace parallax {

// Key of a row = bases[owner] + local row. Keys are a permutation of [0, rows), so they fit the index type of the
// table, need few bits to sort, and once sorted lie owner after owner; the owner of a key is found from `bases` alone.
template <class Index, Partitioner P>
class Placement {
 public:
  using Layout = decltype(std::declval<P const&>().layout(std::int64_t{}, int{}));

  Placement(P const& partitioner, std::int64_t rows, int owners) : layout_{partitioner.layout(rows, owners)} {
    bases_.reserve(static_cast<std::size_t>(owners) + 1);
    std::int64_t base = 0;
    for (int owner = 0; owner < owners; ++owner) {
      bases_.push_back(static_cast<Index>(base));
      base += layout_.local_rows(owner);
    }
    bases_.push_back(static_cast<Index>(base));
  }

  std::int64_t rows() const { return layout_.rows(); }
  int owners() const { return layout_.owners(); }
  Index base(int owner) const { return bases_[static_cast<std::size_t>(owner)]; }
  std::int64_t local_rows(int owner) const { return owner < 0 ? 0 : base(owner + 1) - base(owner); }
  std::span<Index const> bases() const { return bases_; }
  Layout const& layout() const { return layout_; }

  Index key(std::int64_t row) const {
    Location const at = layout_.locate(row);
    return static_cast<Index>(bases_[static_cast<std::size_t>(at.owner)] + at.local);
  }
  std::int64_t row(Index key) const {
    auto const owner = std::upper_bound(bases_.begin(), bases_.end() - 1, key) - bases_.begin() - 1;
    return layout_.global_row(static_cast<int>(owner), key - bases_[static_cast<std::size_t>(owner)]);
  }
  int owner(std::int64_t row) const { return layout_.locate(row).owner; }
  std::int64_t global_row(int owner, std::int64_t local) const { return layout_.global_row(owner, local); }

 private:
  Layout layout_;
  std::vector<Index> bases_;
};

}  // namespace parallax
