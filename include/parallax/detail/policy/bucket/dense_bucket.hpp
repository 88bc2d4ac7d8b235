// Dense gradients of many variables, summed over ranks in few exchanges: entered and polled by the updates of one step.
// `Buckets` makes one for a flight's first gradient of its kind; the ways add their gradients, and the flight closes and polls
// the bucket.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/core/list.hpp"
#include "parallax/detail/kernel/host.hpp"
#include "parallax/detail/policy/bucket/dense_layout.hpp"
#include "parallax/detail/transfer/dense.hpp"
#include "parallax/detail/transfer/lent_buffer.hpp"

namespace parallax::inline v0_2 {

// Time of the spread of owners' sums to ranks: once their owners have seen them; right away, while owners change their parts
// apart from them; or right away, and owners look at their parts of them.
enum class Spread : unsigned char { later, apart, in_place };

// The dense gradients of one flight with the same scalar, sharding, space and wire, dealt to owners variable by variable.
// Phases: `add` all segments, `close`, poll `reduce` until true, look at and change `owned` parts, then either poll
// `gather_gradients` and apply the `whole`, or apply the owned parts and poll `gather_parameters`. If the owned parts are not
// going to be changed before the gathering, `gather_sums` may be polled right after `reduce`. Owns its scratch, which is
// reused. While each step adds segments of the same sizes, to be exchanged in the same way, they stay laid out as they are. W
// encodes the traffic: addends on their way to owners, sums and parameters on their way back.
template <class T, Communicator C, MemorySpace Space = HostSpace, Wire<T> W = IdentityWire>
class DenseBucket {
  using Ops = RowOps<Space>;
  static constexpr bool on_host = std::same_as<Space, HostSpace>;

 public:
  // Begins a step: no segment was added yet. Local. Layout and memory stay.
  void clear() { layout_.clear(); }

  // Adds a segment. Does not own: `gradient` (size elements) must stay until `reduce` is done, and is never written.
  // `in_place`: the same memory or null; it must stay until the next `clear`, and may be overwritten: it holds the sums instead
  // of scratch, if this is no slower. `gather_parameters` puts the updated variable at `parameters`, which may be null. Returns
  // the segment's number. Parts are whole multiples of `unit` elements, which divides `size` (a table's parts are whole rows);
  // 0 is like 1.
  [[gnu::always_inline]] std::size_t add(T const* gradient, std::size_t size, T* parameters, std::size_t unit = 1,
                                         T* in_place = nullptr) {
    std::size_t const segment = layout_.add(size, unit);
    if (segment >= segments_.size()) segments_.resize(segment + 1);
    SegmentMemory& s = segments_[segment];
    s.gradient = gradient;
    s.in_place = in_place;
    s.parameters = parameters;
    s.leads = true;
    return segment;
  }
  // Returns true if no segment was added since `clear`; alike on all ranks.
  bool empty() const { return layout_.empty(); }

  // Closes the bucket. Local; allocates, so that nothing later does in a steady step. Every rank closes the same segments.
  // `sharded`: the sums are needed by their owners only, so that a vendor's all-reduce is of no use. `spread` is of use if
  // ranks lend their memory. A wire that encodes goes by messages: it knows no vendor, and has every `spread` later.
  // Gets memory again only if the layout, the terms or the place of a gradient given in_place differs from the last step's.
  void close(Topology<C> const& topology, FusionOptions const& options, bool sharded, Spread spread = Spread::later) {
    if (empty()) return layout_.forget();
    ops_.emplace(queue_of<Space>(topology.world()));
    Terms const terms{&topology, on_host && !encodes<W> && topology.spreads() && !sharded ? spread : Spread::later,
                      !encodes<W> && !sharded && vendor_sums(topology.world()), sharded};
    owns_in_place_ = terms.vendor || terms.spread == Spread::in_place;
    bool const stands = !layout_.close({static_cast<std::size_t>(topology.owners()), sizeof(T),
                                        owns_in_place_ ? Packing::by_segment : Packing::by_owner, options});
    if (!stands || terms != terms_) allotted_ = false;
    terms_ = terms;
    lent_.resize(parcels().size());
    for (std::size_t p = 0; p < lent_.size(); ++p) {
      T* const memory = lent(parcels()[p]);
      allotted_ = allotted_ && memory == lent_[p];
      lent_[p] = memory;
    }
    if (!allotted_) allot();
    for (std::size_t p = 0; p < lent_.size(); ++p)
      if (staged(p)) stage_gradients(p);
    at_ = 0;
    running_ = holds_sums_ = false;
  }

  // Reduces parcel after parcel. Collective in the order of the lane, only polls; throws the communicator's errors. Returns
  // true once every owned part holds the sum over ranks. On a rank alone nothing travels, and its addends become its sums,
  // unless the wire encodes: `ReduceScatter` then rounds them.
  bool reduce(Lane<C>& lane) {
    bool const done = each_parcel([&](std::size_t p) {
      if (terms_.vendor) return vendor_reduce(lane, p);
      if (!running_) scatter_.start(input(p), begins(p), largest_round(), own_part(p), spreads() ? gathered(p) : nullptr);
      running_ = true;
      if (!scatter_.poll(lane)) return false;
      if (!exchanges()) ops().copy_from(own_part(p), input(p), static_cast<std::int64_t>(parcels()[p].size));
      return true;
    });
    holds_sums_ = done && spreads();
    return done;
  }

  // This rank's own part of a segment, to be read and changed between `reduce` and the next phase, and its first element. If
  // the vendor sums, every rank has, and changes alike, the whole.
  struct Part {
    // The number of the first element, from the segment's first on.
    std::size_t first = 0;
    // In scratch, or in memory given in_place; valid until the next `close`. Empty on a rank that owns nothing.
    std::span<T> values;
  };
  // Returns this rank's part of a segment, by its number from `add`: the sum over ranks once `reduce` is true. Local.
  Part owned(std::size_t segment) const { return segments_[segment].own; }
  // Returns true if `owned` is all of a segment on every rank: the vendor's all-reduce sums.
  bool owns_whole() const { return terms_.vendor; }
  bool owns_in_place() const { return owns_in_place_; }  // `owned` lies in `whole`
  // Calls f(begin, end) with each owner's part of a segment, in their order.
  template <class F>
  void each_part(std::size_t segment, F&& f) const {
    for (std::size_t owner = 0; owner < layout_.owners(); ++owner) {
      auto const [begin, end] = layout_.part(segment, owner);
      f(begin, end);
    }
  }

  // Gathers the sums; polled until true: then `whole` is valid for every segment. Collective in the order of the lane, with the
  // errors of `reduce`. Does nothing if the sums were gathered before.
  bool gather_gradients(Lane<C>& lane) { return holds_sums_ || gather(lane); }
  // Gathers the parts as `reduce` left them, right after it; else like `gather_gradients`.
  bool gather_sums(Lane<C>& lane) {
    if (has_whole()) return true;
    return holds_sums_ || (holds_sums_ = gather(lane));
  }
  bool holds_sums() const { return holds_sums_; }  // true if `whole` is from before the owned parts were changed
  void drop_sums() { holds_sums_ = false; }        // on all ranks: `gather_gradients` is to gather again

  // Calls f(first element, values, count) with the reduced gradient of a segment, run by run; f may change the values.
  template <class F>
  void whole(std::size_t segment, F&& f) {
    SegmentMemory const& s = segments_[segment];
    std::size_t const size = layout_.segment(segment).size;
    if (size == 0) return;
    if (!s.in_parts) return f(std::size_t{0}, s.whole, size);
    for (std::size_t owner = 0; owner < layout_.owners(); ++owner) {
      auto const [begin, end] = layout_.part(segment, owner);
      if (begin < end) f(begin, s.whole + layout_.place(segment, owner), end - begin);
    }
  }

  // Leaves the parameters of this segment to an earlier update of the same variable; local, on all ranks alike. If they travel
  // from and to the variable's own memory, two gatherings at once would write memory read by peers.
  void leave_parameters(std::size_t segment) { segments_[segment].leads = false; }

  // Gathers the owned parts of all parameters on every rank; polled until true. Collective in the order of the lane, with the
  // errors of `reduce`. A parcel of one segment travels in the variable's own memory, a packed one by way of scratch.
  bool gather_parameters(Lane<C>& lane) {
    return each_parcel([&](std::size_t p) {
      SegmentMemory const& first = segments_[parcels()[p].first];
      if (!exchanges() || (!packed(p) && !first.leads)) return true;
      if (!running_) {
        if (packed(p)) stage_own_parameters(p);
        gather_.start(packed(p) ? staging(p) : first.parameters, begins(p));
      }
      running_ = true;
      if (!gather_.poll(lane)) return false;
      if (packed(p)) unstage_parameters(p);
      return true;
    });
  }

  // Drops work in progress, local: its flight closes, perhaps after a failure. A bucket left half way can be used again.
  void drop() {
    at_ = 0;
    running_ = false;
  }

 private:
  // The memory of one update, and the places of this rank's part and of the whole for as long as the layout stands.
  struct SegmentMemory {
    T const* gradient = nullptr;
    T *in_place = nullptr, *parameters = nullptr;
    Part own = {};
    T* whole = nullptr;  // the whole parcel if it lies in parts
    bool in_parts = false, leads = true;
  };
  // The terms of memory, besides the layout.
  struct Terms {
    Topology<C> const* topology = nullptr;
    Spread spread = Spread::later;
    bool vendor = false, sharded = false;
    bool operator==(Terms const&) const = default;
  };

  // Returns the operations of the queue of the communicator at hand, from `close` on.
  Ops const& ops() const { return *ops_; }
  // Returns the topology of the last `close`.
  Topology<C> const& topology() const { return *terms_.topology; }
  // Returns true if this rank is among the owners; `owner` is its number.
  bool owns() const { return topology().owner() >= 0; }
  std::size_t owner() const { return static_cast<std::size_t>(topology().owner()); }
  // Returns true if this communicator sums by its own all-reduce, in memory of this space.
  static bool vendor_sums(C const& world) {
    if constexpr (on_host) return sum_order(world) == SumOrder::vendor;
    else if constexpr (DeviceAllreduce<C>) return world.device_sum_order() == SumOrder::vendor;
    else return false;
  }
  // Returns true if `reduce` brings the sums to all ranks by itself, through memory that they lend.
  bool spreads() const { return !terms_.vendor && terms_.spread != Spread::later; }
  bool exchanges() const { return encodes<W> || topology().size() > 1; }  // one rank alone sees the effect of its wire, too
  bool has_whole() const { return terms_.vendor || !exchanges(); }        // once it is reduced
  // Returns true if the whole of a parcel has a place on every rank: sums for nobody else stay with their owners.
  bool gathers() const { return !terms_.sharded && (terms_.vendor || exchanges()); }
  // Returns the elements of each owner's part in one round.
  std::size_t largest_round() const { return std::max<std::size_t>(layout_.options().round_bytes / sizeof(T), 1); }

  // Returns the parcels, by number; `begins`: of the owners' parts of one.
  Slice<DenseLayout::Parcel const> parcels() const { return layout_.parcels(); }
  Slice<std::size_t const> begins(std::size_t p) const { return layout_.begins(parcels()[p]); }
  // Returns true if its segments are put together in memory; `staged`: in scratch, with gradients copied in and sent out of it.
  bool packed(std::size_t p) const { return parcels()[p].packing != Packing::none; }
  bool staged(std::size_t p) const { return packed(p) && !lent_[p]; }
  // Returns the place of a packed parcel in scratch.
  T* staging(std::size_t p) { return staged_.data() + parcels()[p].staged_at; }
  // Returns this rank's addends for the reduction of a parcel.
  T const* input(std::size_t p) { return staged(p) ? staging(p) : segments_[parcels()[p].first].gradient; }
  // Returns the place of the gathered sums of a parcel: in memory given in_place, or in scratch.
  T* gathered(std::size_t p) {
    if (lent_[p]) return lent_[p];
    return packed(p) ? staging(p) : whole_.data() + parcels()[p].whole_at;
  }
  // Returns the place of this owner's sums of a parcel: their own, or within `gathered`.
  T* own_part(std::size_t p) {
    if (terms_.spread != Spread::in_place) return owned_.data() + parcels()[p].own_at;
    return gathered(p) + begins(p)[owner()];
  }

  // Returns the memory of a parcel whose gradients may hold the sums, if they lie in a row there, in the order of scratch; and,
  // among ranks that lend each other memory, if it can be lent.
  T* lent(DenseLayout::Parcel const& parcel) const {
    T* const first = segments_[parcel.first].in_place;
    if (!first || !gathers() || parcel.packing == Packing::by_owner) return nullptr;
    T* end = first;
    for (std::size_t s = parcel.first; s < parcel.last; ++s) {
      if (segments_[s].in_place != end) return nullptr;
      end += layout_.segment(s).size;
    }
    return staged_.can_be(topology(), first) ? first : nullptr;
  }
  // Allots scratch, and all places in it. Local; may throw std::bad_alloc.
  void allot() {
    std::size_t p = 0;
    auto const scratch = layout_.allot(topology().owner(), gathers(), [&](auto const&) { return lent_[p++] != nullptr; });
    owned_.resize_with_slack(owns_in_place() ? 0 : scratch.own);
    staged_.resize_with_slack(topology(), scratch.staged);
    whole_.resize_with_slack(topology(), scratch.whole);
    for (std::size_t s = 0; s < layout_.segments().size(); ++s) place(s);
    allotted_ = true;
  }
  // Notes the places of this rank's part of a segment, and of the whole.
  void place(std::size_t segment) {
    SegmentMemory& s = segments_[segment];
    std::size_t const p = layout_.segment(segment).parcel, in_order = layout_.segment(segment).place;
    bool const by_segment = parcels()[p].packing == Packing::by_segment;
    s.own = {};
    if (terms_.vendor) {
      s.own = {0, {gathered(p) + in_order, layout_.segment(segment).size}};
    } else if (owns()) {
      auto const part = layout_.part(segment, owner());
      T* const values = by_segment ? gathered(p) + in_order + part.begin
                                   : own_part(p) + (layout_.place(segment, owner()) - begins(p)[owner()]);
      s.own = {part.begin, {values, part.size()}};
    }
    s.whole = has_whole() ? s.own.values.data() : gathered(p) + (by_segment ? in_order : 0);
    s.in_parts = !has_whole() && parcels()[p].packing == Packing::by_owner;
  }

  // Copies the segments of a packed parcel into scratch, in the order of its packing.
  void stage_gradients(std::size_t p) {
    T* const to = staging(p);
    SegmentMemory const* const segments = segments_.data();
    auto copies = ops().copies();
    layout_.each_run(parcels()[p], [&, to, segments](std::size_t s, std::size_t begin, std::size_t count, std::size_t place) {
      if (count) copies.add(to + place, segments[s].gradient + begin, count * sizeof(T));
    });
    copies.start();
  }
  // Stages this rank's own parameters. Peers may be writing their parts of a variable for an earlier update of it: of its
  // memory only the own part is read, and only the leading update writes it.
  void stage_own_parameters(std::size_t p) {
    if (!owns()) return;
    auto copies = ops().copies();
    for (std::size_t s = parcels()[p].first; s < parcels()[p].last; ++s)
      if (auto const part = layout_.part(s, owner()); part.size() > 0)
        copies.add(staging(p) + layout_.place(s, owner()), segments_[s].parameters + part.begin, part.size() * sizeof(T));
    copies.start();
  }
  // Copies the gathered parameters to their variables, of segments that lead.
  void unstage_parameters(std::size_t p) {
    T const* const from = staging(p);
    SegmentMemory const* const segments = segments_.data();
    auto copies = ops().copies();
    layout_.each_run(parcels()[p], [&, from, segments](std::size_t s, std::size_t begin, std::size_t count, std::size_t place) {
      if (count && segments[s].leads) copies.add(segments[s].parameters + begin, from + place, count * sizeof(T));
    });
    copies.start();
  }

  // Gathers all parcels; true once done. A parcel packed by segment is dealt to owners first, for it is gathered after owners
  // have changed their parts.
  bool gather(Lane<C>& lane) {
    return each_parcel([&](std::size_t p) {
      if (has_whole()) return true;
      bool const by_segment = parcels()[p].packing == Packing::by_segment;
      if (!running_) {
        if (by_segment) dealt_.resize_with_slack(parcels()[p].size);
        T* const target = by_segment ? dealt_.data() : gathered(p);
        if (by_segment) deal(p, Dealt::own_parts_there);
        else copy_own_part(p, target);
        gather_.start(target, begins(p));
      }
      running_ = true;
      if (!gather_.poll(lane)) return false;
      if (by_segment) deal(p, Dealt::all_parts_back);
      return true;
    });
  }
  // Copies this owner's part of parcel `p` to its place in the whole parcel at `target`, unless its sums were formed there.
  void copy_own_part(std::size_t p, T* target) {
    if (owns_in_place() || !owns()) return;
    auto const [begin, end] = layout_.part(parcels()[p], owner());
    if (begin < end) ops().copy_from(target + begin, own_part(p), static_cast<std::int64_t>(end - begin));
  }
  // Direction of `deal`: this rank's parts from the wholes to the place they are sent from, or all parts from the place they
  // have come in to the wholes.
  enum class Dealt : unsigned char { own_parts_there, all_parts_back };
  void deal(std::size_t p, Dealt what) {
    bool const there = what == Dealt::own_parts_there;
    for (std::size_t s = parcels()[p].first; s < parcels()[p].last; ++s)
      for (std::size_t o = 0; o < layout_.owners(); ++o) {
        auto const part = layout_.part(s, o);
        T *const dealt = dealt_.data() + layout_.place(s, o), *const here = segments_[s].whole + part.begin;
        if (part.size() == 0 || (there && (!owns() || o != owner()))) continue;
        ops().copy_from(there ? dealt : here, there ? here : dealt, static_cast<std::int64_t>(part.size()));
      }
  }

  // Posts the vendor's all-reduce of a parcel, once, and returns true once it is done.
  bool vendor_reduce(Lane<C>& lane, std::size_t p) {
    if constexpr (on_host ? VendorAllreduce<C> : DeviceAllreduce<C>) {
      if (!running_) lane.template post_allreduce<Space>(input(p), gathered(p), parcels()[p].size);
      running_ = true;
      return lane.test();
    }
    return true;
  }

  // Runs `step` on parcel after parcel, by number, until one is not done yet; returns true after the last, and is ready for
  // another pass.
  template <class Step>
  bool each_parcel(Step&& step) {
    for (; at_ < parcels().size(); ++at_) {
      if (!step(at_)) return false;
      running_ = false;
    }
    at_ = 0;
    return true;
  }

  Terms terms_;
  // True if the parcel in progress was begun. Of all parcels: true if `whole` has the sums of `reduce`, if all memory has its
  // place, and if own parts lie in the wholes.
  bool running_ = false, holds_sums_ = false, allotted_ = false, owns_in_place_ = false;
  std::size_t at_ = 0;  // the parcel in progress
  DenseLayout layout_;
  List<SegmentMemory> segments_;  // by number; those of a larger step before are behind them
  List<T*> lent_;                 // by parcel: the gradients' own memory, if the sums are to lie in it
  std::optional<Ops> ops_;
  Buffer<T, Space> owned_;  // the own parts of all parcels, unless they lie in the wholes
  Buffer<T, Space> dealt_;  // parcels packed by segment, owner after owner
  LentBuffer<T, C, Space, !encodes<W>> staged_, whole_;
  ReduceScatter<T, C, Space, W> scatter_;
  Allgather<T, C, Space, W> gather_;
};

}  // namespace parallax
