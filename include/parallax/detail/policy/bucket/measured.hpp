// Sums over whole tensors, formed by optimizers before they move, by the ranks' own parts. A flight has them once for all its
// updates: the ways enrol, measure and read them, in a step whose optimizers measure tensors.
#pragma once

#include <cstddef>
#include <utility>

#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/core/list.hpp"
#include "parallax/detail/core/measures.hpp"
#include "parallax/detail/core/pointer.hpp"
#include "parallax/detail/core/type.hpp"
#include "parallax/detail/kernel/host.hpp"
#include "parallax/detail/memory/buffer.hpp"
#include "parallax/detail/transfer/dense.hpp"

namespace parallax::inline v0_2 {
namespace detail {

// A step's view of sums in any memory. `sharded`: of parts owned by ranks, and gathered; else of wholes, measured alike by
// every rank.
template <Communicator C>
class PartSums {
 public:
  // Takes the type of the derived class, by which it is found again; `is_sharded` is `sharded`.
  PartSums(TypeTag its_type, bool is_sharded) : type{its_type}, sharded{is_sharded} {}
  virtual ~PartSums() = default;

  // Forgets the tensors of the step before; memory stays.
  virtual void clear() = 0;
  // Returns true if no tensor of this step has a place.
  virtual bool empty() const = 0;
  // Opens the sums, all zero. Local; allocates. Called once a step, when all tensors have their places.
  virtual void open(Topology<C> const&) = 0;
  // Gathers the owners' sums, collective in the order of the lane; only polls. Returns true once all are here. May throw.
  virtual bool gather(Lane<C>&) = 0;

  TypeTag const type;
  bool const sharded;
};

// Owns. For each owner a row of sums over its parts of a flight's tensors, in memory of the tensors' space: a rule made of them
// never has to bring them to the host. Phases: `add` for each tensor, `open`, measure, poll `gather`.
template <Communicator C, MemorySpace Space>
class SumsOfParts final : public PartSums<C> {
 public:
  explicit SumsOfParts(bool is_sharded) : PartSums<C>{type_tag<SumsOfParts>(), is_sharded} {}

  // Clears: the next `add` returns 0 again.
  void clear() override { width_ = 0; }
  // Returns true if `add` was not called since `clear`; alike on all ranks.
  bool empty() const override { return width_ == 0; }
  // Takes places for `count` sums; returns the first one, a number.
  std::size_t add(std::size_t count) { return std::exchange(width_, width_ + count); }

  // Opens with all sums zero. Local; allocates.
  void open(Topology<C> const& topology) override {
    gathered_ = begun_ = false;
    if (empty()) return;
    owner_ = topology.owner();
    begins_.clear();
    for (int owner = 0; owner <= topology.owners(); ++owner) begins_.push_back(static_cast<std::size_t>(owner) * width_);
    sums_.resize_with_slack(begins_.back());
    RowOps<Space>{queue_of<Space>(topology.world())}.clear(sums_.data(), sums_.size() * sizeof(double));
  }
  // Returns the sums from `place` on of an owner's part, in memory of the space, this object's. Valid from `open` to the next.
  double* at(std::size_t owner, std::size_t place) { return sums_.data() + begins_[owner] + place; }
  // Returns the sums of this rank's part, or null if it owns none.
  double* own(std::size_t place) { return owner_ < 0 ? nullptr : at(static_cast<std::size_t>(owner_), place); }
  // Returns the K sums from `place` on, of all owners, in place: the kernels' `finish_rule` adds them up and makes a rule.
  template <std::size_t K>
  MeasuredParts<K> parts(std::size_t place) const {
    return {sums_.data() + place, begins_.size() - 1, width_};
  }

  // Brings every owner's row to every rank; collective in the order of the lane. Returns true once all are here.
  bool gather(Lane<C>& lane) override {
    if (empty() || gathered_) return true;
    if (!begun_) gather_.start(sums_.data(), begins_);
    begun_ = true;
    return gathered_ = gather_.poll(lane);
  }

 private:
  std::size_t width_ = 0;     // sums of each owner, over all tensors
  int owner_ = -1;            // this rank's number among owners, or -1
  List<std::size_t> begins_;  // of the owners' rows
  Buffer<double, Space> sums_;
  Allgather<double, C, Space> gather_;
  bool begun_ = false, gathered_ = false;  // the gathering; reset by open
};

}  // namespace detail

// The sums of a flight, by their memory, made at their first use. The flight clears and opens them, the ways add their tensors
// by `of`, and the step polls `gather` after all ways have measured.
template <Communicator C>
class MeasuredSums {
 public:
  // Local; may allocate. Returns the sums of tensors in this space, of sharded or of replicated variables; valid as long as the
  // flight.
  template <MemorySpace Space, bool sharded>
  detail::SumsOfParts<C, Space>& of() {
    using Mine = detail::SumsOfParts<C, Space>;
    for (auto& sums : all_)
      if (sums->type == type_tag<Mine>() && sums->sharded == sharded) return static_cast<Mine&>(*sums);
    all_.push_back(Owned<detail::PartSums<C>>{new Mine(sharded)});
    return static_cast<Mine&>(*all_.back());
  }

  // Clears, as a flight begins to look at its sums: no tensor has a place. Local; memory stays.
  void clear() {
    for (auto& sums : all_) sums->clear();
  }
  // Opens after the last tensor was added: all sums are zero. Local; allocates.
  void open(Topology<C> const& topology) {
    for (auto& sums : all_) sums->open(topology);
  }
  // Returns true if owners measure sums that others must know.
  bool shared() const {
    return detail::any_of(all_, [](auto const& sums) { return sums->sharded && !sums->empty(); });
  }
  // Gathers the sums of sharded variables, collective in the order of the lane. Returns true once every rank has them.
  bool gather(Lane<C>& lane) {
    return detail::all_of(all_, [&](auto& sums) { return !sums->sharded || sums->gather(lane); });
  }

 private:
  List<Owned<detail::PartSums<C>>> all_;
};

}  // namespace parallax
