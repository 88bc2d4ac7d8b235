// The ranks' shares of the data: index ranges for every rank, in contiguous blocks or dealt one by one. A trainer asks for its
// share before its first step, and walks it in every epoch; or from a DataPosition on, as kept in a checkpoint. The room `data`
// deals a trainer's data to ranks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "parallax/core/error.hpp"
#include "parallax/detail/transfer/dense.hpp"

namespace parallax::inline v0_2 {

// The indices first, first + stride, …: `count` in all. `shard_block` and `shard_cyclic` return a range, and a range-based
// `for` walks it. Owns no data, and is copied freely.
class IndexRange {
 public:
  // A position in a range, or its end. The indices are computed: it stays valid when the range is gone.
  class iterator {
   public:
    // An index into the trainer's data.
    using value_type = std::size_t;
    // The difference of two positions, named because standard concepts ask for it; they are compared and not subtracted.
    using difference_type = std::ptrdiff_t;

    iterator() = default;
    // Stands at `index`, with `stride` between neighbours.
    iterator(std::size_t index, std::size_t stride) : index_{index}, stride_{stride} {}
    // Returns the index at this position; not to be called at the end.
    std::size_t operator*() const { return index_; }
    // Goes on by one stride. Returns itself.
    iterator& operator++() {
      index_ += stride_;
      return *this;
    }
    // Goes on by one stride. Returns the position from before.
    iterator operator++(int) {
      iterator const old = *this;
      ++*this;
      return old;
    }
    friend bool operator==(iterator const&, iterator const&) = default;

   private:
    std::size_t index_ = 0, stride_ = 1;
  };

  // Makes a range of `count` indices from `first` on; `stride` is at least 1. Nothing is checked.
  IndexRange(std::size_t first, std::size_t count, std::size_t stride) : first_{first}, count_{count}, stride_{stride} {}
  // Returns the position of the first index; of an empty range the end.
  iterator begin() const { return {first_, stride_}; }
  // Returns the position one stride past the last index.
  iterator end() const { return {first_ + count_ * stride_, stride_}; }
  // Returns the number of indices: samples, batches or other things the trainer counts. 0 on a rank without any.
  std::size_t size() const { return count_; }
  // Returns the i-th index of the share, with i < size(), unchecked.
  std::size_t operator[](std::size_t i) const { return first_ + i * stride_; }

 private:
  std::size_t first_, count_, stride_;
};

// Local. Returns this rank's share of [0, n): contiguous, sizes differ by at most one. Every index is in the share of one rank,
// and lower ranks have lower indices. `world` is a communicator or a session.
template <class World>
IndexRange shard_block(std::size_t n, World const& world) {
  std::size_t const begin = part_begin(n, world.rank(), world.size());
  return {begin, part_begin(n, world.rank() + 1, world.size()) - begin, 1};
}

// Local. Returns this rank's share of [0, n) among N ranks: rank, rank + N, rank + 2N, … Sizes differ by at most one, and the
// lower ranks have the larger shares. `world` is a communicator or a session.
template <class World>
IndexRange shard_cyclic(std::size_t n, World const& world) {
  auto const rank = static_cast<std::size_t>(world.rank()), ranks = static_cast<std::size_t>(world.size());
  return {rank, n > rank ? (n - rank - 1) / ranks + 1 : 0, ranks};
}

// This rank's elements of a random-access sequence (batches, file names): every N-th of N ranks, beginning with its rank, as
// many on every rank, so that all ranks take as many steps; the up to N - 1 remaining elements are left out. Refers to the
// sequence, which outlives it. `shard` makes one.
template <class Sequence>
class Shard {
 public:
  // Shows the elements at `indices`; each index must be less than the size of the sequence.
  Shard(Sequence& elements, IndexRange indices) : elements_{&elements}, indices_{indices} {}

  // A position at one of this rank's elements, or the end. It refers to the sequence, not to the Shard.
  class iterator {
   public:
    // Stands at the element with the index of `at`.
    iterator(Sequence* elements, IndexRange::iterator at) : elements_{elements}, at_{at} {}
    // Returns `elements[i]` as it is: a reference into most containers.
    decltype(auto) operator*() const { return (*elements_)[*at_]; }
    // Goes on to this rank's next element, N further on in the sequence. Returns itself.
    iterator& operator++() {
      ++at_;
      return *this;
    }
    friend bool operator==(iterator const&, iterator const&) = default;

   private:
    Sequence* elements_;
    IndexRange::iterator at_;
  };

  // Returns the position of this rank's first element; the end on a rank without any.
  iterator begin() const { return {elements_, indices_.begin()}; }
  // Returns the position past this rank's last element.
  iterator end() const { return {elements_, indices_.end()}; }
  // Returns the number of this rank's elements, equal on every rank: the sequence's size divided by N, rounded down.
  std::size_t size() const { return indices_.size(); }
  // Returns this rank's i-th element, with i < size(), unchecked: `elements[…]` as it is.
  decltype(auto) operator[](std::size_t i) const { return (*elements_)[indices_[i]]; }

 private:
  Sequence* elements_;
  IndexRange indices_;
};

// Local. Returns a `Shard` of `elements`, a sequence with `operator[]` and a size, which must stay. `world` is a communicator
// or a session. The ranks must give equally long sequences if they are to take equally many steps.
//   for (auto const& batch : px::shard(batches, session)) train(batch);
template <class Sequence, class World>
auto shard(Sequence& elements, World const& world) {
  auto const ranks = static_cast<std::size_t>(world.size());
  return Shard<Sequence>{elements, {static_cast<std::size_t>(world.rank()), std::size(elements) / ranks, ranks}};
}

// The progress of a training in its data, equal on all ranks, and with any number of them. The trainer keeps one, `shard` moves
// it on, and a checkpoint takes it as `px::shared_value("data", position)`.
struct DataPosition {
  // Completed epochs. Differences between epochs, such as the order of the elements, are made from this number.
  std::int64_t epoch = 0;
  // Elements of this epoch given to all ranks together, from the beginning of the sequence on.
  std::int64_t taken = 0;

  friend bool operator==(DataPosition const&, DataPosition const&) = default;
};

// The rest of an epoch, for this rank, to be walked once: of N ranks rank r is given the elements taken + r, taken + r + N, …,
// as many on every rank; the up to N - 1 remaining ones are left out. With each element the position moves on by N before the
// body of the loop begins. So a checkpoint in the body, after the element's step, goes on with the next one, and so does a loop
// left by `break`. Behind the last one the epoch is over. Refers to sequence and position, which must stay. `shard` makes one.
template <class Sequence>
class RestOfShard {
 public:
  // Shows the rest of `elements` from `position` on to rank `rank` of `ranks`. Throws Error (invalid_argument) if the position
  // is none of the sequence.
  RestOfShard(Sequence& elements, int rank, int ranks, DataPosition& position)
      : elements_{&elements}, rank_{rank}, ranks_{ranks}, position_{&position} {
    check();
  }

  // The end of a walk, behind the last element.
  struct End {};
  // A position at the element given to this rank last, or at the end of the epoch. It refers to the range, which outlives it.
  class iterator {
   public:
    // Takes the first element of the rest, as operator++ does.
    explicit iterator(RestOfShard const& rest) : rest_{&rest} { ++*this; }
    // Returns `elements[i]` as it is: a reference into most containers. Not to be called at the end.
    decltype(auto) operator*() const { return (*rest_->elements_)[at_]; }
    // Takes the element at the position; if too few are left for every rank to have one, the next epoch begins. Throws Error
    // (invalid_argument) if the body has set the position to one outside the sequence. Returns itself.
    iterator& operator++() {
      ended_ = !rest_->take(at_);
      return *this;
    }
    friend bool operator==(iterator const& a, End) { return a.ended_; }

   private:
    RestOfShard const* rest_;
    std::size_t at_ = 0;
    bool ended_ = false;
  };

  // Takes the first element, and moves the position. Begun again after a `break`, the range goes on behind the element of the
  // `break`. Throws as operator++ of the iterator.
  iterator begin() const { return iterator{*this}; }
  // Returns the end, behind the last element.
  End end() const { return {}; }
  // Returns the number of elements yet to be given to this rank, equal on every rank.
  std::size_t size() const { return static_cast<std::size_t>((all() - position_->taken) / ranks_); }

 private:
  std::int64_t all() const { return static_cast<std::int64_t>(std::size(*elements_)); }
  void check() const {
    if (position_->taken < 0 || position_->taken > all())
      throw Error{Errc::invalid_argument, rank_, "shard", "",
                  joined({"the position has taken ", position_->taken, " elements of a sequence of ", all()})};
  }
  // Takes this rank's next element, its index as `at`. Returns false at the end of the epoch. Throws as `check`.
  bool take(std::size_t& at) const {
    check();
    if (all() - position_->taken < ranks_) {
      *position_ = {position_->epoch + 1, 0};
      return false;
    }
    at = static_cast<std::size_t>(position_->taken + rank_);
    position_->taken += ranks_;
    return true;
  }

  Sequence* elements_;
  int rank_, ranks_;
  DataPosition* position_;
};

// Local. Returns the rest of this epoch's elements from `position` on, for this rank; both arguments outlive the rest, and the
// position moves on with each element. `elements` has `operator[]` and a size. `world` is a communicator or a session. The
// ranks must give equally long sequences and equal positions. After a restore on other ranks each element not taken yet is
// given once. Throws Error (invalid_argument) if `position.taken` is below 0 or above the size of the sequence.
//   while (position.epoch < epochs)
//     for (auto const& batch : px::shard(batches, session, position)) train(batch), every.step();
template <class Sequence, class World>
auto shard(Sequence& elements, World const& world, DataPosition& position) {
  return RestOfShard<Sequence>{elements, world.rank(), world.size(), position};
}

}  // namespace parallax
