// How the buckets of a flight take turns on its dense lane: reduced, then gathered.
#pragma once

#include <cstddef>

#include "parallax/policy/bucket/buckets.hpp"

namespace parallax::detail {

// Refers to the buckets. The flight polls `exchange` after its ranks agreed, and the step what is gathered after its commit.
template <Communicator C>
class DenseExchange {
 public:
  DenseExchange(Topology<C> const& topology, int channel, Traffic& traffic, Buckets<C>& buckets)
      : lane_{topology, channel, traffic}, buckets_{&buckets} {}

  Lane<C>& lane() { return lane_; }
  Lane<C> const& lane() const { return lane_; }

  // Local. `gathers`: the sums reach all ranks as soon as they are formed, for nobody needs to see them before.
  void begin(bool gathers) {
    stage_ = Stage::reducing;
    gathers_ = gathers;
    bucket_ = 0;
  }
  // Collective in the order of the lane; true once all that can be done before the commit is.
  bool exchange() {
    if (stage_ == Stage::reducing) {
      if (!pass(Which::all, [](auto& bucket, auto& lane) { return bucket.reduce(lane); })) return false;
      stage_ = gathers_ ? Stage::gathering : Stage::exchanged;
    }
    if (stage_ == Stage::gathering) {
      if (!pass(Which::replicated, [](auto& bucket, auto& lane) { return bucket.gather_sums(lane); })) return false;
      stage_ = Stage::exchanged;
    }
    return true;
  }
  bool gather_gradients() {
    return pass(Which::replicated, [](auto& bucket, auto& lane) { return bucket.gather_gradients(lane); });
  }
  bool gather_parameters() {
    return pass(Which::sharded, [](auto& bucket, auto& lane) { return bucket.gather_parameters(lane); });
  }

  // Calls f with every bucket, and whether it is sharded.
  template <class F>
  void each(F&& f) {
    buckets_->each([&](auto& in_space) { in_space.each(f); });
  }

 private:
  enum class Stage : unsigned char { reducing, gathering, exchanged };
  enum class Which : unsigned char { all, replicated, sharded };

  // The buckets take turns on the lane; true once all have passed.
  template <class Phase>
  bool pass(Which which, Phase phase) {
    std::size_t number = 0;
    bool done = true;
    each([&](auto& bucket, bool sharded) {
      bool const mine = which == Which::all || (which == Which::sharded) == sharded;
      if (number++ != bucket_ || !done) return;
      done = !mine || bucket.empty() || phase(bucket, lane_);
      if (done) ++bucket_;
    });
    if (done) bucket_ = 0;
    return done;
  }

  Lane<C> lane_;
  Buckets<C>* buckets_;
  Stage stage_ = Stage::exchanged;
  bool gathers_ = false;
  std::size_t bucket_ = 0;  // whose turn it is
};

}  // namespace parallax::detail
