// A batch's plan and its route: who needs which rows from whom, made once by a pull and used again by the push. Journeys travel
// by it. A table's pool owns plans, and handles and updates hold them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "parallax/comm/topology.hpp"
#include "parallax/core/slice.hpp"
#include "parallax/policy/journey/batch_plan.hpp"

namespace parallax {

// What a leg over one hop looked like: contiguous runs of this rank's sorted keys to the targets, and of received keys from
// the sources.
struct HopRuns {
  std::vector<std::size_t> sent;      // targets + 1 begins in the keys of the level below
  std::vector<std::size_t> received;  // sources + 1 begins in the received keys
};

// The route of a batch over the hops of a topology. Levels of distinct keys: level 0 are this rank's own, the batch's; level
// k + 1 those that arrived over hop k, merged. Every level keeps the grouping by which rows are summed on the way up and spread
// on the way down. Owns its memory.
template <class Index, MemorySpace Space = HostSpace>
struct Route {
  // What moves and sums rows in memory of the space.
  using Ops = RowOps<Space>;

  // The topology's, which must outlive the plan: the first one from this rank, the last one to the owners.
  Slice<Hop const> hops;
  std::vector<Grouping<Index>> arrived;  // by hop: level k + 1
  // By hop; known as far as `agreed` says.
  std::vector<HopRuns> runs;
  Buffer<std::byte> received;      // scratch: keys as they arrived
  Buffer<std::byte, Space> below;  // scratch: rows on their way down, between two hops
  std::size_t agreed = 0;          // hops whose runs are known on all their ranks

  // The keys that arrived last, where operations in the space find them. At the owner a pull gathers rows by them.
  std::span<Index const> shown_received(Ops const& ops) {
    return shown_received_.of(ops, {reinterpret_cast<Index const*>(received.data()), received.size() / sizeof(Index)});
  }
  // Other keys have arrived.
  void renew_received() { shown_received_.renew(); }

  // Local. The runs of `keys`, a level's in ascending order, that go to the targets of hop k. `bases` has the first key of
  // every owner, and the end. What the sources send is not known yet.
  void cut(std::size_t k, std::span<Index const> keys, std::span<Index const> bases) {
    Hop const& hop = hops[k];
    HopRuns& run = runs[k];
    bounds_.clear();
    for (std::size_t t = 0; t <= hop.targets.size(); ++t)
      bounds_.push_back(bases[static_cast<std::size_t>(hop.base) + t * static_cast<std::size_t>(hop.stride)]);
    run.sent.resize(hop.targets.size() + 1);
    if (hop.targets.empty()) run.sent[0] = 0;
    else RowOps<HostSpace>::bucket(keys, bounds_, run.sent);
    run.received.assign(hop.sources.size() + 1, 0);
  }
  // Keys that go to a target of hop k, by its place in `targets`. Valid once the hop is cut.
  std::size_t sent(std::size_t k, std::size_t target) const { return runs[k].sent[target + 1] - runs[k].sent[target]; }
  // Keys that come from a source of hop k, by its place in `sources`. Valid once they were expected.
  std::size_t received_from(std::size_t k, std::size_t source) const {
    return runs[k].received[source + 1] - runs[k].received[source];
  }
  // So many keys are going to come from a source of hop k: said of source after source, in their order.
  void expect(std::size_t k, std::size_t source, std::size_t count) {
    runs[k].received[source + 1] = runs[k].received[source] + count;
  }

 protected:
  // By hop: `arrived`, where operations in the space find it.
  std::vector<Shown<Grouping<Index>, Space>> shown_arrived_;

 private:
  std::vector<Index> bounds_;  // scratch: the keys at which a hop cuts
  Shown<Index, Space> shown_received_;
};

// Both in one, as handles and updates hold them: `users` counts who does, and a plan without users is free for another batch.
// Prepared, grouped and cut for its first hop it is ready to travel.
template <class Index, MemorySpace Space = HostSpace>
struct RowPlan : BatchPlan<Index, Space>, Route<Index, Space> {
  // The integer that holds a key, the table's.
  using index_type = Index;
  // What moves and sums rows in memory of the space.
  using Ops = RowOps<Space>;

  // Local. For a new batch, over these hops: nothing of the last one counts, and all memory stays.
  void prepare(Slice<Hop const> route) {
    this->hops = route;
    this->arrived.resize(route.size());
    this->shown_arrived_.resize(route.size());
    this->runs.resize(route.size());
    this->agreed = this->dropped = this->bags.count = 0;
    this->retired = false;
    this->named.resize(0);
    this->renew_received();
  }

  // The grouping of level k: this rank's own keys at 0, what has arrived over hop k - 1 above. The highest level is
  // hops.size().
  Grouping<Index> const& level(std::size_t k) const { return k == 0 ? this->groups : this->arrived[k - 1]; }
  // The grouping at the owner: all keys that were asked of this rank, or given to it. Empty on a rank that owns nothing.
  Grouping<Index> const& top() const { return this->arrived.back(); }
  // Where operations in the space find a level's grouping.
  decltype(auto) shown(std::size_t k, Ops const& ops) {
    return k == 0 ? this->shown_groups(ops) : this->shown_arrived_[k - 1].of(ops, this->arrived[k - 1]);
  }
  // Local. Keys of hop k have arrived, `received`: merged into level k + 1, each less than `rows`. From here on the ranks of
  // the hop know its runs.
  void merge_received(std::size_t k, std::int64_t rows) {
    std::span const came{reinterpret_cast<Index const*>(this->received.data()), this->received.size() / sizeof(Index)};
    RowOps<HostSpace>::unique_with_inverse(came, rows, this->arrived[k], this->sort);
    this->shown_arrived_[k].renew();
    this->renew_received();
    this->agreed = k + 1;
  }
  // Local. Cuts level k for its hop, by the placement's `bases`. For 0 as the plan is made, then by the journey when a level
  // has arrived.
  void cut(std::size_t k, std::span<Index const> bases) { Route<Index, Space>::cut(k, level(k).keys.span(), bases); }
};

}  // namespace parallax
