// A batch's plan and its route: each rank's rows to get from others, made once by a pull and used again by the push. Journeys
// travel by it. A table's pool owns plans, and handles and updates hold them.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include "parallax/comm/topology.hpp"
#include "parallax/detail/core/function_ref.hpp"
#include "parallax/detail/core/list.hpp"
#include "parallax/detail/policy/journey/batch_plan.hpp"
#include "parallax/detail/policy/journey/lent.hpp"

namespace parallax::inline v0_2 {

// The shape of a leg over one hop: contiguous runs of this rank's sorted keys to the targets, and of received keys from the
// sources.
struct HopRuns {
  List<std::size_t> sent;      // targets + 1 begins in the keys of the level below
  List<std::size_t> received;  // sources + 1 begins in the received keys
};

// The route of a batch over the hops of a topology. Each level has distinct keys: level 0 the keys of this rank's batch, level
// k + 1 the merged arrivals over hop k. Its grouping sums rows on the way up, and spreads rows on the way down. Keys travel in
// memory of the space, and are merged there; the host knows how many go to each target and come from each source. Owns its
// memory, but not the hops.
template <class Index, MemorySpace Space = HostSpace>
struct Route {
  // Operations that move and sum rows in memory of the space.
  using Ops = RowOps<Space>;

  // The topology's hops, which must outlive the plan: the first one from this rank, the last one to the owners.
  Slice<Hop const> hops;
  List<Groups<Index, Space>> arrived;  // by hop: level k + 1
  // The runs of each hop; known as far as `agreed` says.
  List<HopRuns> runs;
  Buffer<std::byte, Space> received;  // scratch: keys as they arrived
  Buffer<std::byte, Space> below;     // scratch: rows on their way down, between two hops
  std::size_t agreed = 0;             // hops with runs known on all their ranks
  bool lent = false;                  // other ranks may have read the groups in place
  Buffer<std::byte> lent_words;       // records of this rank's lent memory, by rank
  List<void const*> heard_words;      // places of the records told to it by other ranks, by rank

  // Returns the keys that arrived last, in memory of the space, until others arrive. At the owner a pull gathers rows by them.
  std::span<Index const> received_keys() const {
    return {reinterpret_cast<Index const*>(received.data()), received.size() / sizeof(Index)};
  }

  // Returns the number of keys for a target of hop k, by its place in `targets`. Valid once the hop is cut.
  std::size_t sent(std::size_t k, std::size_t target) const { return runs[k].sent[target + 1] - runs[k].sent[target]; }
  // Returns the number of keys from a source of hop k, by its place in `sources`. Valid once they were expected.
  std::size_t received_from(std::size_t k, std::size_t source) const {
    return runs[k].received[source + 1] - runs[k].received[source];
  }
  // Notes that `count` keys come from a source of hop k, by its place: called source after source, in their order.
  void expect(std::size_t k, std::size_t source, std::size_t count) {
    runs[k].received[source + 1] = runs[k].received[source] + count;
  }

 protected:
  // Cuts `keys`, a level's in ascending order, into the runs for the targets of hop k, local, by the host. `bases` has the
  // first key of every owner, and the end. The sources' runs are not known yet.
  void cut_here(std::size_t k, std::span<Index const> keys, std::span<Index const> bases) {
    Hop const& hop = hops[k];
    bounds_.clear();
    for (std::size_t t = 0; t <= hop.targets.size(); ++t)
      bounds_.push_back(bases[static_cast<std::size_t>(hop.base) + t * static_cast<std::size_t>(hop.stride)]);
    List<std::size_t>& begins = runs_of(k).sent;
    if (!hop.targets.empty()) RowOps<HostSpace>::bucket(keys, bounds_, begins);
  }
  // Forgets the runs of hop k, and returns them, all empty.
  HopRuns& runs_of(std::size_t k) {
    runs[k].sent.assign(hops[k].targets.size() + 1, 0);
    runs[k].received.assign(hops[k].sources.size() + 1, 0);
    return runs[k];
  }

 private:
  List<Index> bounds_;  // scratch: the keys at which a hop cuts
};

// A batch's plan and its route in one, for handles and updates: `users` counts its holders, and a plan without users is free
// for another batch. Prepared, grouped and cut for its first hop it is ready to travel.
template <class Index, MemorySpace Space = HostSpace>
struct RowPlan : BatchPlan<Index, Space>, Route<Index, Space> {
  // The integer that holds a key, the table's.
  using index_type = Index;
  // The space of its travelling keys and rows.
  using space = Space;
  // Operations that move and sum rows in memory of the space.
  using Ops = RowOps<Space>;

  // Prepares for a new batch, over hops that outlive the plan. Local. Nothing of the last batch counts, and all memory stays.
  void prepare(Slice<Hop const> route) {
    if constexpr (Space::host_readable)
      if (std::exchange(this->lent, false))
        take_back(this->groups.keys), take_back(this->groups.offsets), take_back(this->groups.order);
    this->hops = route;
    this->arrived.resize(route.size());
    this->runs.resize(route.size());
    this->agreed = this->dropped = 0;
    this->bags.clear();
    this->stepped = this->retired = this->padded = false;
    this->named.resize(0);
    this->renew_named();
    bases_.renew();
  }

  // Returns the groups of level k: this rank's own keys at 0, the arrivals over hop k - 1 above. The highest level is
  // hops.size().
  Groups<Index, Space>& level(std::size_t k) { return k == 0 ? this->groups : this->arrived[k - 1]; }
  // Returns the groups at the owner: all keys asked of this rank, or given to it. Empty on a rank that owns nothing.
  Groups<Index, Space>& top() { return this->arrived.back(); }
  // Copies the keys of hop 0 from the memory of its sources, as if they had arrived; local. `run(s)` is the record of source s,
  // or null if it has none. The records stay during the call.
  [[gnu::noinline]] void copy_received(FunctionRef<LentKeys<Index> const*(std::size_t)> run) {
    std::size_t const sources = this->hops[0].sources.size();
    for (std::size_t s = 0; s < sources; ++s) this->expect(0, s, run(s) ? run(s)->count : 0);
    List<std::size_t> const& begins = this->runs[0].received;
    this->received.resize_with_slack(begins.back() * sizeof(Index));
    for (std::size_t s = 0; s < sources; ++s)
      if (this->received_from(0, s) > 0)
        std::memcpy(this->received.data() + begins[s] * sizeof(Index), run(s)->keys, run(s)->count * sizeof(Index));
  }
  // Merges the keys that have arrived over hop k, in `received`, into level k + 1; local. Keys must be less than `rows`, except
  // padding. Counts the hop as agreed: all its ranks now know the runs of its keys.
  void merge_received(Ops const& ops, std::size_t k, std::int64_t rows) {
    auto const came = this->received_keys();
    if constexpr (Space::host_readable) {
      this->arrived[k].group_runs(ops, came.data(), this->runs[k].received, rows, this->sort);
    } else {
      this->arrived[k].group(ops, came.data(), came.size(), rows + this->padded, this->sort);
      if (this->padded) this->arrived[k].drop_padding(rows);
    }
    this->agreed = k + 1;
  }
  // Cuts level k into the runs of hop k, local, by the placement's `bases`, of `rows` rows. For 0 as the plan is made, then by
  // the journey after a level has arrived. Keys grouped by a device are cut there: then the lengths are waited for, under the
  // deadline of the queue's communicator: Error (timeout).
  void cut(std::size_t k, [[maybe_unused]] Ops const& ops, std::span<Index const> bases, [[maybe_unused]] std::int64_t rows) {
    if constexpr (!Space::host_readable)
      if (level(k).made_there()) {
        begin_cut(k, bases_.of(ops, bases).data(), rows);
        return static_cast<void>(end_cut(k));
      }
    this->cut_here(k, level(k).keys_here(), bases);
  }
  // Pads on a device, in its queue: `place` writes there the keys of so many indices; they are grouped, cut for the first hop
  // and padded, and the lengths of runs are those of `padding`, for any batch. `tally`, there, counts keys without a place.
  template <class Padding, class Tally, class Place>
  void pad_there(Ops const& ops, std::size_t count, Index const* bases, std::int64_t rows, Padding padding, Tally* tally,
                 Place&& place) {
    Hop const& hop = this->hops.front();
    padding.owners = static_cast<std::uint32_t>(hop.targets.size());
    this->groups.group_padded(ops, this->place_there(count, place), count, bases, static_cast<std::size_t>(hop.base),
                              static_cast<std::size_t>(hop.stride), rows, padding, this->bags.wrongs(), tally);
    auto& sent = this->runs_of(0).sent;
    for (std::size_t t = 0; t < sent.size(); ++t) sent[t] = t * (std::size_t{padding.capacity} + 1);
    this->padded = true;
  }
  // Begins the cut of level k, which a device has grouped: the first half of `cut`, put in its queue; nothing in the host's
  // memory. `bases` lie in the device's memory.
  void begin_cut([[maybe_unused]] std::size_t k, [[maybe_unused]] Index const* bases, [[maybe_unused]] std::int64_t rows) {
    if constexpr (!Space::host_readable) {
      Hop const& hop = this->hops[k];
      level(k).cut(bases, static_cast<std::size_t>(hop.base), static_cast<std::size_t>(hop.stride), cuts(k), rows,
                   k == 0 ? this->bags.wrongs() : std::span<std::uint32_t const>{});
    }
  }
  // Returns true if `end_cut` has nothing to wait for.
  bool cut_is_here([[maybe_unused]] std::size_t k) {
    if constexpr (!Space::host_readable) return level(k).cut_is_here();
    else return true;
  }
  // Ends the cut, and waits for the device as `cut` does. At level 0 counts dropped indices, and returns false if the offsets
  // of the batch's bags were wrong: it has no bags then.
  bool end_cut([[maybe_unused]] std::size_t k) {
    bool in_order = true;
    if constexpr (!Space::host_readable) {
      level(k).await_cut();
      auto const told = level(k).take_cut({this->runs_of(k).sent.data(), cuts(k)});
      if (k == 0) this->dropped = told.none;
      in_order = told.wrong == 0;
    }
    return in_order;
  }

 private:
  // Returns the number of cuts of hop k in its level, before, between and behind its targets; 0 without targets.
  std::size_t cuts(std::size_t k) const { return this->hops[k].targets.empty() ? 0 : this->hops[k].targets.size() + 1; }

  Shown<Index, Space> bases_;
};

}  // namespace parallax
