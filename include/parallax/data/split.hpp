// Which part of the data is whose: index ranges for every rank, in contiguous blocks or dealt one by one.
// The room `data` deals a trainer's data to ranks.
#pragma once

#include <cstddef>

#include "parallax/comm/dense.hpp"

namespace parallax {

// The indices first, first + stride, …: `count` of them.
class IndexRange {
 public:
  class iterator {
   public:
    using value_type = std::size_t;
    using difference_type = std::ptrdiff_t;

    iterator() = default;
    iterator(std::size_t index, std::size_t stride) : index_{index}, stride_{stride} {}
    std::size_t operator*() const { return index_; }
    iterator& operator++() {
      index_ += stride_;
      return *this;
    }
    iterator operator++(int) {
      iterator const old = *this;
      ++*this;
      return old;
    }
    friend bool operator==(iterator const&, iterator const&) = default;

   private:
    std::size_t index_ = 0, stride_ = 1;
  };

  IndexRange(std::size_t first, std::size_t count, std::size_t stride) : first_{first}, count_{count}, stride_{stride} {}
  iterator begin() const { return {first_, stride_}; }
  iterator end() const { return {first_ + count_ * stride_, stride_}; }
  std::size_t size() const { return count_; }
  std::size_t operator[](std::size_t i) const { return first_ + i * stride_; }

 private:
  std::size_t first_, count_, stride_;
};

// This rank's share of [0, n): contiguous, sizes differ by at most one. Local; `world` is a communicator or a session.
template <class World>
IndexRange shard_block(std::size_t n, World const& world) {
  std::size_t const begin = part_begin(n, world.rank(), world.size());
  return {begin, part_begin(n, world.rank() + 1, world.size()) - begin, 1};
}

// This rank's share of [0, n): rank, rank + N, rank + 2N, … Sizes differ by at most one. Local.
template <class World>
IndexRange shard_cyclic(std::size_t n, World const& world) {
  auto const rank = static_cast<std::size_t>(world.rank()), ranks = static_cast<std::size_t>(world.size());
  return {rank, n > rank ? (n - rank - 1) / ranks + 1 : 0, ranks};
}

// Does not own. This rank's elements of a random-access sequence (batches, file names): every N-th, beginning with its rank, as
// many on every rank, so that all ranks take as many steps; the up to N - 1 elements that remain are left out. Local.
template <class Sequence>
class Shard {
 public:
  Shard(Sequence& elements, IndexRange indices) : elements_{&elements}, indices_{indices} {}

  class iterator {
   public:
    iterator(Sequence* elements, IndexRange::iterator at) : elements_{elements}, at_{at} {}
    decltype(auto) operator*() const { return (*elements_)[*at_]; }
    iterator& operator++() {
      ++at_;
      return *this;
    }
    friend bool operator==(iterator const&, iterator const&) = default;

   private:
    Sequence* elements_;
    IndexRange::iterator at_;
  };

  iterator begin() const { return {elements_, indices_.begin()}; }
  iterator end() const { return {elements_, indices_.end()}; }
  std::size_t size() const { return indices_.size(); }
  decltype(auto) operator[](std::size_t i) const { return (*elements_)[indices_[i]]; }

 private:
  Sequence* elements_;
  IndexRange indices_;
};

template <class Sequence, class World>
auto shard(Sequence& elements, World const& world) {
  auto const ranks = static_cast<std::size_t>(world.size());
  return Shard<Sequence>{elements, {static_cast<std::size_t>(world.rank()), std::size(elements) / ranks, ranks}};
}

}  // namespace parallax
