// Dense gradients of many variables, summed over ranks in few exchanges: the aggregate that AllReduce and PsShard share.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "parallax/comm/dense.hpp"
#include "parallax/core/algorithm.hpp"
#include "parallax/kernel/host.hpp"

namespace parallax {

// How dense gradients travel. A variable of at least `direct_bytes`, or one alone, is exchanged where it lies; smaller ones are
// fused into parcels of up to `fusion_bytes`. Rounds of `piece_bytes` per owner bound the scratch: a parcel of b bytes needs
// b / N for its sum and N · min(piece_bytes, b / N) for what arrives, and, if fused or gathered, b for the whole, which may be
// the memory of gradients that are given in_place; scratch that grows from step to step grows by half more than it must.
// None of these numbers changes a bit of a result.
struct FusionOptions {
  std::size_t fusion_bytes = std::size_t{4} << 20;
  std::size_t direct_bytes = std::size_t{1} << 20;
  std::size_t piece_bytes = std::size_t{4} << 20;

  bool operator==(FusionOptions const&) const = default;
};

// When ranks may have the sums that owners have formed: once their owners have seen them; right away, while owners change their
// parts apart from them; or right away, and owners look at their parts of them.
enum class Spread : unsigned char { later, apart, in_place };

// One update's dense gradients of one scalar type and policy, dealt to owners variable by variable. Phases: `add` all
// segments, `close`, poll `reduce` until true, look at and change `owned` parts, then either poll `gather_gradients` and apply
// `whole` pieces, or apply the owned parts and poll `gather_parameters`. Where the owned parts are not going to be changed
// before the gathering, `gather_sums` may be polled right after `reduce`. Owns its scratch, which is reused. While each update
// adds segments of the same sizes, to be exchanged in the same way, they stay laid out as they are.
template <class T, Communicator C, MemorySpace Space = HostSpace>
class DenseBucket {
  using Ops = RowOps<Space>;
  static constexpr bool on_host = std::same_as<Space, HostSpace>;

 public:
  void clear() { added_ = 0; }

  // Does not own: `gradient` (size elements) must stay until `reduce` is done, and is never written. `in_place`: the same
  // memory or null; it must stay until the next `clear`, and may be overwritten: instead of scratch it holds the sums, where
  // that is no slower. `parameters` is where `gather_parameters` puts the updated variable, or null. Returns the segment's
  // number. Parts are whole multiples of `unit` elements, which divides `size` (a table's parts are whole rows); 0 is like 1.
  std::size_t add(T const* gradient, std::size_t size, T* parameters, std::size_t unit = 1, T* in_place = nullptr) {
    if (added_ >= laid_out_ || segments_[added_].size != size || segments_[added_].unit != unit) {
      laid_out_ = 0;
      segments_.resize(added_);
      segments_.push_back({.size = size, .unit = unit});
    }
    Segment& s = segments_[added_];
    s.gradient = gradient;
    s.in_place = in_place;
    s.parameters = parameters;
    s.leads = true;
    return added_++;
  }
  bool empty() const { return added_ == 0; }

  // Local; allocates, so that nothing later does in a steady step. Every rank closes the same segments. `sharded`: the sums
  // are needed by their owners only, so that a vendor's all-reduce is of no use. `spread` is of use where ranks lend their
  // memory.
  void close(Topology<C> const& topology, FusionOptions const& options, bool sharded, Spread spread = Spread::later) {
    if (empty()) {
      parcels_.clear();
      laid_out_ = 0;
      return;
    }
    ops_.emplace(queue_of<Space>(topology.world()));
    Terms const terms{&topology, options, on_host && topology.spreads() && !sharded ? spread : Spread::later,
                      !sharded && vendor_sums(topology.world()), sharded};
    if (added_ != laid_out_ || terms != terms_) lay_out(terms);
    for (Parcel& parcel : parcels_) {
      T* const memory = lent(parcel);
      allotted_ = allotted_ && memory == parcel.lent;
      parcel.lent = memory;
    }
    if (!allotted_) allot();
    for (Parcel const& parcel : parcels_)
      if (!parcel.direct && !parcel.lent) stage(parcel, [](Segment const& s) { return s.gradient; });
    at_ = 0;
    running_ = holds_sums_ = false;
  }

  // Collective in the order of the lane; true once every owned part holds the sum over ranks.
  bool reduce(Lane<C>& lane) {
    bool const done = each_parcel([&](Parcel& parcel) {
      if (terms_.vendor) return vendor_reduce(lane, parcel);
      if (!running_)
        scatter_.start(input(parcel), begins(parcel), piece(parcel), own_part(parcel), spreads() ? gathered(parcel) : nullptr);
      running_ = true;
      if (!scatter_.poll(lane)) return false;
      if (topology().size() == 1) ops().copy_from(own_part(parcel), input(parcel), static_cast<std::int64_t>(own_size(parcel)));
      return true;
    });
    holds_sums_ = done && spreads();
    return done;
  }

  // The part of a segment that this rank owns, to be read and changed between `reduce` and what follows, and the first
  // element that it begins with. Where the vendor sums, every rank has, and changes alike, the whole.
  struct Part {
    std::size_t first = 0;
    std::span<T> values;
  };
  Part owned(std::size_t segment) const { return segments_[segment].own; }
  bool owns_whole() const { return terms_.vendor; }
  bool owns_in_place() const { return terms_.vendor || terms_.spread == Spread::in_place; }  // `owned` lies in `whole`
  // Calls f(begin, end) with the part of a segment that each owner has, in their order.
  template <class F>
  void each_part(std::size_t segment, F&& f) const {
    for (std::size_t owner = 0; owner < owners_; ++owner) {
      auto const [begin, end] = part_of(segment, owner);
      f(begin, end);
    }
  }

  // Collective in the order of the lane; after it `whole` is valid for every segment. Nothing is left to do where the sums
  // were gathered before.
  bool gather_gradients(Lane<C>& lane) { return holds_sums_ || gather(lane); }
  // The same, of the parts as `reduce` left them.
  bool gather_sums(Lane<C>& lane) {
    if (terms_.vendor || topology().size() == 1) return true;
    return holds_sums_ || (holds_sums_ = gather(lane));
  }
  bool holds_sums() const { return holds_sums_; }  // whether `whole` is from before the owned parts were changed
  void drop_sums() { holds_sums_ = false; }        // on all ranks: `gather_gradients` is to gather again

  // The reduced gradient of a segment, piece by piece: f(first element, values, count). May be changed.
  template <class F>
  void whole(std::size_t segment, F&& f) {
    Segment const& s = segments_[segment];
    if (s.size == 0) return;
    if (!s.in_parts) return f(std::size_t{0}, s.whole, s.size);
    for (std::size_t owner = 0; owner < owners_; ++owner) {
      auto const [begin, end] = part_of(segment, owner);
      if (begin < end) f(begin, s.whole + offsets_[at(segment, owner)], end - begin);
    }
  }

  // On all ranks: the parameters of this segment are gathered by an earlier update of the same variable. Where they travel
  // from and to the variable's own memory, two gatherings at once would write what peers read.
  void leave_parameters(std::size_t segment) { segments_[segment].leads = false; }

  // Collective in the order of the lane: the owned parts of all parameters reach every rank.
  bool gather_parameters(Lane<C>& lane) {
    return each_parcel([&](Parcel& parcel) {
      if (topology().size() == 1 || (parcel.direct && !segments_[parcel.first].leads)) return true;
      T* const target = parcel.direct ? segments_[parcel.first].parameters : staged_.data() + parcel.staged_begin;
      if (!running_) {
        if (!parcel.direct) stage_own_parameters(parcel);
        gather_.start(target, begins(parcel));
      }
      running_ = true;
      if (!gather_.poll(lane)) return false;
      if (!parcel.direct) unstage(parcel);
      return true;
    });
  }

  // Frees a bucket that a failure left half way for its next use.
  void drop() {
    at_ = 0;
    running_ = false;
  }

 private:
  Ops const& ops() const { return *ops_; }
  Topology<C> const& topology() const { return *terms_.topology; }
  bool owns() const { return topology().owner() >= 0; }
  std::size_t owner() const { return static_cast<std::size_t>(topology().owner()); }
  static bool vendor_sums(C const& world) {
    if constexpr (on_host) return sum_order(world) == SumOrder::vendor;
    else if constexpr (DeviceAllreduce<C>) return world.device_sum_order() == SumOrder::vendor;
    else return false;
  }

  struct Segment {
    T const* gradient = nullptr;
    T *in_place = nullptr, *parameters = nullptr;
    std::size_t size = 0, unit = 1;
    std::size_t parcel = 0, offset_in_parcel = 0;
    Part own = {};
    T* whole = nullptr;  // where it lies in parts, the whole parcel
    bool in_parts = false, leads = true;
  };
  struct Parcel {
    std::size_t first, last;  // segments
    bool direct;
    bool in_order = false;   // in memory segment after segment, of which an owner sums as much as it owns, where that lies
    std::size_t size = 0;    // elements
    std::size_t begins = 0;  // index into part_begins_: owners + 1 offsets, owner after owner
    std::size_t owned_begin = 0, staged_begin = 0, whole_begin = 0;
    T* lent = nullptr;  // the gradients' own memory, where the sums are to lie in it
  };

  // What a layout follows from, besides the segments' sizes and units.
  struct Terms {
    Topology<C> const* topology = nullptr;
    FusionOptions options = {};
    Spread spread = Spread::later;
    bool vendor = false, sharded = false;
    bool operator==(Terms const&) const = default;
  };
  void lay_out(Terms const& terms) {
    laid_out_ = 0;
    terms_ = terms;
    segments_.resize(added_);
    parcels_.clear();
    part_begins_.clear();
    cuts_.clear();
    owners_ = static_cast<std::size_t>(topology().owners());
    offsets_.assign(segments_.size() * owners_, 0);
    for (std::size_t s = 0; s < segments_.size(); ++s) assign(s), cut(segments_[s]);
    for (Parcel& parcel : parcels_) {
      parcel.direct = parcel.direct || parcel.last - parcel.first == 1;  // nothing to fuse it with
      parcel.in_order = !parcel.direct && !terms.vendor && terms.spread == Spread::in_place;
      lay_out(parcel);
    }
    laid_out_ = added_;
    allotted_ = false;
  }
  // The scratch of a layout, and where in it everything lies.
  void allot() {
    std::size_t owned = 0, staged = 0, whole = 0;
    for (Parcel& parcel : parcels_) {
      parcel.owned_begin = owned;
      owned += own_size(parcel);
      parcel.staged_begin = staged;
      if (!parcel.direct && !parcel.lent) staged += parcel.size;
      parcel.whole_begin = whole;
      if (parcel.direct && !parcel.lent && gathers()) whole += parcel.size;
    }
    owned_.resize_with_slack(owns_in_place() ? 0 : owned);
    staged_.resize_with_slack(topology(), staged);
    whole_.resize_with_slack(topology(), whole);
    for (std::size_t s = 0; s < segments_.size(); ++s) place(s);
    allotted_ = true;
  }
  bool gathers() const { return !terms_.sharded && (terms_.vendor || topology().size() > 1); }

  // Of a parcel whose gradients may hold the sums: their memory, if they lie in a row there, and in it as in scratch. Where
  // ranks lend each other memory, if it can be lent.
  T* lent(Parcel const& parcel) const {
    T* const first = segments_[parcel.first].in_place;
    if (!first || !gathers() || (!parcel.direct && !undivided(parcel))) return nullptr;
    T* end = first;
    for (Segment const& s : segments_of(parcel)) {
      if (s.in_place != end) return nullptr;
      end += s.size;
    }
    return staged_.can_be(topology(), first) ? first : nullptr;
  }

  void assign(std::size_t s) {
    std::size_t const bytes = segments_[s].size * sizeof(T);
    bool const direct = bytes >= terms_.options.direct_bytes;
    bool const fits = !direct && !parcels_.empty() && !parcels_.back().direct &&
                      (parcels_.back().size * sizeof(T) + bytes <= terms_.options.fusion_bytes);
    if (!fits) parcels_.push_back({s, s, direct});
    Parcel& parcel = parcels_.back();
    segments_[s].parcel = parcels_.size() - 1;
    segments_[s].offset_in_parcel = parcel.size;
    parcel.last = s + 1;
    parcel.size += segments_[s].size;
  }

  void lay_out(Parcel& parcel) {
    parcel.begins = part_begins_.size();
    std::size_t offset = 0;
    for (std::size_t owner = 0; owner < owners_; ++owner) {
      part_begins_.push_back(offset);
      for (std::size_t s = parcel.first; s < parcel.last; ++s) {
        offsets_[at(s, owner)] = offset;
        auto const [begin, end] = part_of(s, owner);
        offset += end - begin;
      }
    }
    part_begins_.push_back(offset);
  }

  struct Range {
    std::size_t begin, end;
  };
  Range part_of(std::size_t segment, std::size_t owner) const {
    std::size_t const cut = at(segment, owner) + segment;  // a segment has one more than there are owners
    return {cuts_[cut], cuts_[cut + 1]};
  }
  // The begins of all owners' parts of a segment, and its end: part_begin of whole units, by one division.
  void cut(Segment const& s) {
    std::size_t const unit = std::max<std::size_t>(s.unit, 1), units = unit == 1 ? s.size : s.size / unit;
    std::size_t const each = units / owners_, more = units % owners_;
    std::size_t begin = 0, due = 0;
    for (std::size_t owner = 0; owner <= owners_; ++owner, begin += each) {
      cuts_.push_back(begin * unit);
      if ((due += more) >= owners_) due -= owners_, ++begin;
    }
  }
  std::size_t at(std::size_t segment, std::size_t owner) const { return segment * owners_ + owner; }
  std::span<std::size_t const> begins(Parcel const& parcel) const {
    return {part_begins_.data() + parcel.begins, owners_ + 1};
  }
  std::size_t own_size(Parcel const& parcel) const {
    return owns() ? begins(parcel)[owner() + 1] - begins(parcel)[owner()] : 0;
  }
  std::size_t piece(Parcel const&) const { return std::max<std::size_t>(terms_.options.piece_bytes / sizeof(T), 1); }

  T const* input(Parcel const& parcel) const {
    if (parcel.direct || parcel.lent) return segments_[parcel.first].gradient;
    return staged_.data() + parcel.staged_begin;
  }
  bool spreads() const { return !terms_.vendor && terms_.spread != Spread::later; }
  T* own_part(Parcel const& parcel) {
    if (terms_.spread != Spread::in_place) return owned_.data() + parcel.owned_begin;
    return gathered(parcel) + begins(parcel)[owner()];
  }
  // Where this rank's part of a segment, and the whole, will lie in scratch for as long as the layout stands.
  void place(std::size_t segment) {
    Segment& s = segments_[segment];
    Parcel const& parcel = parcels_[s.parcel];
    s.own = {};
    if (terms_.vendor) {
      s.own = {0, {gathered(parcel) + s.offset_in_parcel, s.size}};
    } else if (owns()) {
      auto const [begin, end] = part_of(segment, owner());
      T* const part = parcel.in_order
                          ? gathered(parcel) + s.offset_in_parcel + begin
                          : own_part(parcel) + (offsets_[at(segment, owner())] - begins(parcel)[owner()]);
      s.own = {begin, {part, end - begin}};
    }
    bool const alone = terms_.vendor || topology().size() == 1;
    s.whole = alone ? s.own.values.data() : gathered(parcel) + (parcel.in_order ? s.offset_in_parcel : 0);
    s.in_parts = !alone && !parcel.direct && !parcel.in_order;
  }
  T* gathered(Parcel const& parcel) {
    if (parcel.lent) return parcel.lent;
    return parcel.direct ? whole_.data() + parcel.whole_begin : staged_.data() + parcel.staged_begin;
  }
  std::span<Segment const> segments_of(Parcel const& parcel) const {
    return std::span{segments_}.subspan(parcel.first, parcel.last - parcel.first);
  }
  bool undivided(Parcel const& parcel) const { return terms_.vendor || parcel.in_order; }

  // A fused parcel in memory: owner after owner, and within an owner segment after segment; for the vendor, or where owners sum
  // ranges of it, segment after segment.
  template <class F>
  void each_piece(Parcel const& parcel, F&& f) {
    T* to = staged_.data() + parcel.staged_begin;
    std::span<std::size_t const> const cuts{cuts_};
    bool const whole = undivided(parcel);
    std::size_t const owners = whole ? 1 : owners_, stride = owners_ + 1;
    for (std::size_t owner = 0; owner < owners; ++owner) {
      std::size_t cut = parcel.first * stride + owner;
      for (Segment const& s : segments_of(parcel)) {
        auto const [begin, end] = whole ? Range{0, s.size} : Range{cuts[cut], cuts[cut + 1]};
        f(s, begin, end - begin, to);
        to += end - begin;
        cut += stride;
      }
    }
  }
  template <class Source>
  void stage(Parcel const& parcel, Source source) {
    auto copies = ops().copies(copies_);
    each_piece(parcel, [&](Segment const& s, std::size_t begin, std::size_t count, T* at) {
      if (count) copies.add(at, source(s) + begin, count * sizeof(T));
    });
    copies.start();
  }
  // Peers may be writing their parts of a variable for an earlier update of it: of its memory only the own part is read, and
  // only the update that leads writes it.
  void stage_own_parameters(Parcel const& parcel) {
    if (!owns()) return;
    T* at = staged_.data() + parcel.staged_begin + begins(parcel)[owner()];
    auto copies = ops().copies(copies_);
    for (std::size_t s = parcel.first; s < parcel.last; ++s) {
      auto const [begin, end] = part_of(s, owner());
      if (begin < end) copies.add(at, segments_[s].parameters + begin, (end - begin) * sizeof(T));
      at += end - begin;
    }
    copies.start();
  }
  void unstage(Parcel const& parcel) {
    auto copies = ops().copies(copies_);
    each_piece(parcel, [&](Segment const& s, std::size_t begin, std::size_t count, T const* at) {
      if (count && s.leads) copies.add(s.parameters + begin, at, count * sizeof(T));
    });
    copies.start();
  }
  void copy_own_part(Parcel const& parcel, T* whole, T const* part) {
    if (owns_in_place()) return;
    if (std::size_t const n = own_size(parcel))
      ops().copy_from(whole + begins(parcel)[owner()], part, static_cast<std::int64_t>(n));
  }

  bool gather(Lane<C>& lane) {
    return each_parcel([&](Parcel& parcel) {
      if (terms_.vendor || topology().size() == 1) return true;
      T* const target = parcel.in_order ? dealt(parcel) : gathered(parcel);
      if (!running_) {
        if (parcel.in_order) each_dealt(parcel, true);
        else copy_own_part(parcel, target, own_part(parcel));
        gather_.start(target, begins(parcel));
      }
      running_ = true;
      if (!gather_.poll(lane)) return false;
      if (parcel.in_order) each_dealt(parcel, false);
      return true;
    });
  }
  // What lies in order, owner after owner: where sums are to be gathered again, after owners have changed their parts.
  T* dealt(Parcel const& parcel) {
    dealt_.resize_with_slack(parcel.size);
    return dealt_.data();
  }
  // The own parts there, or all parts back.
  void each_dealt(Parcel const& parcel, bool own) {
    for (std::size_t s = parcel.first; s < parcel.last; ++s)
      for (std::size_t o = 0; o < owners_; ++o) {
        auto const [begin, end] = part_of(s, o);
        T *const there = dealt_.data() + offsets_[at(s, o)], *const here = segments_[s].whole + begin;
        if (begin == end || (own && (!owns() || o != owner()))) continue;
        ops().copy_from(own ? there : here, own ? here : there, static_cast<std::int64_t>(end - begin));
      }
  }

  bool vendor_reduce(Lane<C>& lane, Parcel& parcel) {
    if constexpr (on_host ? VendorAllreduce<C> : DeviceAllreduce<C>) {
      if (!running_) lane.template post_allreduce<Space>(input(parcel), gathered(parcel), parcel.size);
      running_ = true;
      return lane.test();
    }
    return true;
  }

  // Runs `step` on parcel after parcel until one is not done yet; true after the last, and ready for another pass.
  template <class Step>
  bool each_parcel(Step&& step) {
    for (; at_ < parcels_.size(); ++at_) {
      if (!step(parcels_[at_])) return false;
      running_ = false;
    }
    at_ = 0;
    return true;
  }

  Terms terms_;
  bool running_ = false, holds_sums_ = false, allotted_ = false;
  std::size_t owners_ = 0;
  std::size_t added_ = 0;     // segments of this update
  std::size_t laid_out_ = 0;  // segments of the layout that stands, 0 without one
  std::size_t at_ = 0;        // the parcel in progress
  std::vector<Segment> segments_;
  std::vector<Parcel> parcels_;
  std::vector<std::size_t> part_begins_;
  std::vector<std::size_t> offsets_;  // of the segments' parts in their parcels, by segment, then owner
  std::vector<std::size_t> cuts_;     // of the segments, by segment, then owner: where the parts begin, and the end
  std::optional<Ops> ops_;
  typename Ops::CopyRoom copies_;
  Buffer<T, Space> owned_;
  Buffer<T, Space> dealt_;
  LentBuffer<T, C, Space> staged_, whole_;
  ReduceScatter<T, C, Space> scatter_;
  Allgather<T, C, Space> gather_;
};

}  // namespace parallax
