// Turns of a flight's buckets on its dense lane: reduced, then gathered. A flight owns one DenseExchange.
#pragma once

#include <cstddef>

#include "parallax/detail/policy/bucket/buckets.hpp"

namespace parallax::inline v0_2::detail {

// Exchange of one flight's buckets, to which it refers. The flight polls `exchange` after its ranks agreed, the step the
// gatherings after its commit; they do not wait, and throw the lane's errors. One bucket at a time is on it.
template <Communicator C>
class DenseExchange {
 public:
  DenseExchange(Topology<C> const& topology, int channel, Traffic& traffic, Buckets<C>& buckets)
      : lane_{topology, channel, traffic}, buckets_{&buckets} {}

  // Returns the lane, also for a flight's own gatherings, as of measures, while no bucket is on it.
  Lane<C>& lane() { return lane_; }
  Lane<C> const& lane() const { return lane_; }

  // Local. Begins anew. `gathers`: `exchange` brings the sums to all ranks as well, for nobody needs to see them before.
  void begin(bool gathers) {
    stage_ = Stage::reducing;
    gathers_ = gathers;
    bucket_ = 0;
  }
  // Collective in the order of the lane. Returns true once everything possible before the commit is done.
  bool exchange() {
    if (stage_ == Stage::reducing) {
      if (!pass(Which::all, &Bucket<C>::reduce)) return false;
      stage_ = gathers_ ? Stage::gathering : Stage::exchanged;
    }
    if (stage_ == Stage::gathering) {
      if (!pass(Which::replicated, &Bucket<C>::gather_sums)) return false;
      stage_ = Stage::exchanged;
    }
    return true;
  }
  // Collective in the order of the lane, after the commit. Returns true once all ranks have the sums of replicated variables.
  bool gather_gradients() { return pass(Which::replicated, &Bucket<C>::gather_gradients); }
  // Collective in the order of the lane, after the optimizers. Returns true once all ranks have the parameters updated by
  // owners of sharded variables.
  bool gather_parameters() { return pass(Which::sharded, &Bucket<C>::gather_parameters); }

 private:
  enum class Stage : unsigned char { reducing, gathering, exchanged };
  // Buckets that take part: replicated ones gather gradients, sharded ones parameters.
  enum class Which : unsigned char { all, replicated, sharded };

  // Lets the buckets take turns on the lane; returns true once all have passed.
  bool pass(Which which, bool (Bucket<C>::*phase)(Lane<C>&)) {
    auto const& buckets = buckets_->all();
    for (; bucket_ < buckets.size(); ++bucket_) {
      Bucket<C>& bucket = *buckets[bucket_];
      bool const mine = which == Which::all || (which == Which::sharded) == bucket.sharded;
      if (mine && !bucket.empty() && !(bucket.*phase)(lane_)) return false;
    }
    bucket_ = 0;
    return true;
  }

  Lane<C> lane_;
  Buckets<C>* buckets_;
  Stage stage_ = Stage::exchanged;
  bool gathers_ = false;
  std::size_t bucket_ = 0;  // the one whose turn it is
};

}  // namespace parallax::detail
