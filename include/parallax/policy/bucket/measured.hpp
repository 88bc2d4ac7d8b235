// Sums that optimizers form over whole tensors before they move, by the parts that ranks own.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "parallax/comm/dense.hpp"
#include "parallax/core/algorithm.hpp"
#include "parallax/core/measures.hpp"
#include "parallax/core/pointer.hpp"
#include "parallax/core/type.hpp"
#include "parallax/kernel/host.hpp"
#include "parallax/memory/buffer.hpp"

namespace parallax {
namespace detail {

// What a step calls of sums, whatever memory they are in. `sharded`: of what ranks own, which are gathered; else of what every rank
// has, and measures alike.
template <Communicator C>
class PartSums {
 public:
  PartSums(TypeTag its_type, bool is_sharded) : type{its_type}, sharded{is_sharded} {}
  virtual ~PartSums() = default;

  virtual void clear() = 0;
  virtual bool empty() const = 0;
  virtual void open(Topology<C> const&) = 0;
  virtual bool gather(Lane<C>&) = 0;

  TypeTag const type;
  bool const sharded;
};

// Owns. For each owner a row of sums over its parts of a flight's tensors, in memory of the tensors' space: a rule that is made
// of them never has to bring them to the host. Phases: `add` for each tensor, `open`, measure, poll `gather`.
template <Communicator C, MemorySpace Space>
class SumsOfParts final : public PartSums<C> {
 public:
  explicit SumsOfParts(bool is_sharded) : PartSums<C>{type_tag<SumsOfParts>(), is_sharded} {}

  void clear() override { width_ = 0; }
  bool empty() const override { return width_ == 0; }
  // The place of the first of `count` sums.
  std::size_t add(std::size_t count) { return std::exchange(width_, width_ + count); }

  // Local; allocates. All sums are zero.
  void open(Topology<C> const& topology) override;
  double* at(std::size_t owner, std::size_t place) { return sums_.data() + begins_[owner] + place; }
  // Of this rank's part, or null if it owns none.
  double* own(std::size_t place) { return owner_ < 0 ? nullptr : at(static_cast<std::size_t>(owner_), place); }
  template <std::size_t K>
  MeasuredParts<K> parts(std::size_t place) const {
    return {sums_.data() + place, begins_.size() - 1, width_};
  }

  // Collective in the order of the lane: every owner's row reaches every rank.
  bool gather(Lane<C>& lane) override;

 private:
  std::size_t width_ = 0;
  int owner_ = -1;
  std::vector<std::size_t> begins_;  // of the owners' rows
  Buffer<double, Space> sums_;
  Allgather<double, C, Space> gather_;
  bool begun_ = false, gathered_ = false;
};

template <Communicator C, MemorySpace Space>
void SumsOfParts<C, Space>::open(Topology<C> const& topology) {
  gathered_ = begun_ = false;
  if (empty()) return;
  owner_ = topology.owner();
  begins_.clear();
  for (int owner = 0; owner <= topology.owners(); ++owner) begins_.push_back(static_cast<std::size_t>(owner) * width_);
  sums_.resize_with_slack(begins_.back());
  RowOps<Space>{queue_of<Space>(topology.world())}.clear(sums_.data(), sums_.size() * sizeof(double));
}

template <Communicator C, MemorySpace Space>
bool SumsOfParts<C, Space>::gather(Lane<C>& lane) {
  if (empty() || gathered_) return true;
  if (!begun_) gather_.start(sums_.data(), begins_);
  begun_ = true;
  return gathered_ = gather_.poll(lane);
}

}  // namespace detail

// The sums of a flight, by their memory, made when they are first needed.
template <Communicator C>
class MeasuredSums {
 public:
  // Local; may allocate.
  template <MemorySpace Space, bool sharded>
  detail::SumsOfParts<C, Space>& of() {
    using Mine = detail::SumsOfParts<C, Space>;
    for (auto& sums : all_)
      if (sums->type == type_tag<Mine>() && sums->sharded == sharded) return static_cast<Mine&>(*sums);
    all_.push_back(Owned<detail::PartSums<C>>{new Mine(sharded)});
    return static_cast<Mine&>(*all_.back());
  }

  void clear() {
    for (auto& sums : all_) sums->clear();
  }
  void open(Topology<C> const& topology) {
    for (auto& sums : all_) sums->open(topology);
  }
  // Whether owners measure what others must know.
  bool shared() const {
    return std::any_of(all_.begin(), all_.end(), [](auto const& sums) { return sums->sharded && !sums->empty(); });
  }
  // Collective in the order of the lane; true once every rank has them.
  bool gather(Lane<C>& lane) {
    return std::all_of(all_.begin(), all_.end(), [&](auto& sums) { return !sums->sharded || sums->gather(lane); });
  }

 private:
  std::vector<Owned<detail::PartSums<C>>> all_;
};

}  // namespace parallax
