// Sums that optimizers form over whole tensors before they move, by the parts that ranks own.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "parallax/comm/dense.hpp"
#include "parallax/core/measures.hpp"
#include "parallax/kernel/host.hpp"
#include "parallax/memory/buffer.hpp"

namespace parallax {
namespace detail {

// Owns. For each owner a row of sums over its parts of a flight's tensors, in memory of the tensors' space: a rule that is made
// of them never has to bring them to the host. Phases: `add` for each tensor, `open`, measure, poll `gather`.
template <Communicator C, MemorySpace Space>
class SumsOfParts {
 public:
  void clear() { width_ = 0; }
  bool empty() const { return width_ == 0; }
  // The place of the first of `count` sums.
  std::size_t add(std::size_t count) { return std::exchange(width_, width_ + count); }

  // Local; allocates. All sums are zero.
  void open(Topology<C> const& topology) {
    gathered_ = begun_ = false;
    if (empty()) return;
    owner_ = topology.owner();
    begins_.clear();
    for (int owner = 0; owner <= topology.owners(); ++owner) begins_.push_back(static_cast<std::size_t>(owner) * width_);
    sums_.resize_with_slack(begins_.back());
    RowOps<Space>{queue_of<Space>(topology.world())}.clear(sums_.data(), sums_.size() * sizeof(double));
  }
  double* at(std::size_t owner, std::size_t place) { return sums_.data() + begins_[owner] + place; }
  // Of this rank's part, or null if it owns none.
  double* own(std::size_t place) { return owner_ < 0 ? nullptr : at(static_cast<std::size_t>(owner_), place); }
  template <std::size_t K>
  MeasuredParts<K> parts(std::size_t place) const {
    return {sums_.data() + place, begins_.size() - 1, width_};
  }

  // Collective in the order of the lane: every owner's row reaches every rank.
  bool gather(Lane<C>& lane) {
    if (empty() || gathered_) return true;
    if (!begun_) gather_.start(sums_.data(), begins_);
    begun_ = true;
    return gathered_ = gather_.poll(lane);
  }

 private:
  std::size_t width_ = 0;
  int owner_ = -1;
  std::vector<std::size_t> begins_;  // of the owners' rows
  Buffer<double, Space> sums_;
  Allgather<double, C, Space> gather_;
  bool begun_ = false, gathered_ = false;
};

// Those of what ranks own, which are gathered; and those of what every rank has, and measures alike.
template <class C, class Space>
struct MeasuredIn {
  SumsOfParts<C, Space> sharded, replicated;

  template <bool is_sharded>
  SumsOfParts<C, Space>& of() {
    if constexpr (is_sharded) return sharded;
    else return replicated;
  }
};

}  // namespace detail
}  // namespace parallax
