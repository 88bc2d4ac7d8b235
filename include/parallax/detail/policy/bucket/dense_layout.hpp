// The fusion of dense segments into parcels and their deal to owners, in numbers: no memory of gradients, no ranks. A
// DenseBucket closes one in each step, and moves bytes by it.
#pragma once

#include <cstddef>

#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/core/config.hpp"
#include "parallax/detail/core/list.hpp"

namespace parallax::inline v0_2 {

// Options of dense gradients' travel. A variable of at least `direct_bytes`, or one alone, is exchanged in place; smaller ones
// are fused into parcels of up to `fusion_bytes`. Rounds of `round_bytes` per owner bound the scratch: a parcel of b bytes
// needs b / N for its sum and N · min(round_bytes, b / N) for arrivals, and, if fused or gathered, b for the whole, perhaps in
// the memory of gradients given in_place; scratch that grows from step to step grows by half more than it must. None of these
// numbers changes a bit of a result.
struct FusionOptions {
  // Bytes of the largest parcel of fused small segments.
  std::size_t fusion_bytes = std::size_t{4} << 20;
  // Least bytes of a segment exchanged in place.
  std::size_t direct_bytes = std::size_t{1} << 20;
  // Bytes of each owner's part in one round, at most.
  std::size_t round_bytes = std::size_t{4} << 20;

  bool operator==(FusionOptions const&) const = default;
};

// The order of a parcel's elements in its memory.
enum class Packing : unsigned char {
  none,        // one segment, as it is
  by_segment,  // segment after segment
  by_owner,    // owner after owner, and within an owner's part segment after segment
};

// Segments dealt to owners: each owner has a part of every segment. Phases: `clear`, `add` all segments, `close`, look, and
// `allot` if memory has to be had. While the segments of each update have the same sizes and units, and the terms are the same,
// the layout stays as it is. All sizes and places are in elements, except for named bytes.
class DenseLayout {
 public:
  // The terms of a layout, besides the segments.
  struct Terms {
    // Number of owners to deal the segments to, at least 1.
    std::size_t owners = 1;
    std::size_t element = 1;            // bytes of one
    Packing fused = Packing::by_owner;  // of parcels of several segments
    // The ends of parcels. The session's options, the same on all ranks.
    FusionOptions options = {};
    bool operator==(Terms const&) const = default;
  };
  // The gradient of one update, as a bucket adds it.
  struct Segment {
    // Elements of all of it, on every rank.
    std::size_t size = 0, unit = 1;  // elements that stay with one owner
    // The number of its parcel.
    std::size_t parcel = 0, place = 0;  // its first element in that parcel, packed by segment
  };
  // Segments that travel together: one reduction, then one gathering, for all of them.
  struct Parcel {
    // The number of its first segment.
    std::size_t first, last;  // behind the number of its last segment
    // The order of its elements if they are put together; `none` for one segment.
    Packing packing = Packing::none;
    // Elements of all its segments.
    std::size_t size = 0;
    std::size_t begins = 0;  // index into the parts' begins: owners + 1 of them
    std::size_t own_at = 0,  // this rank's part, in scratch as `allot` has placed it
        staged_at = 0,       // the packed parcel, likewise
        whole_at = 0;        // the whole of a parcel that is not packed, likewise
  };
  // Elements [begin, end) of a segment or of a parcel.
  struct Range {
    // The first one.
    std::size_t begin, end;  // behind the last one
    // Returns the number of elements; an owner may have none.
    std::size_t size() const { return end - begin; }
  };

  // Begins the next step: no segment is added yet. Local. The layout stays, for as long as `add` repeats it.
  void clear() { added_ = 0; }
  // Returns true if no segment was added since `clear`.
  bool empty() const { return added_ == 0; }
  // Adds a segment of `size` elements; returns its number. Parts are multiples of `unit`, which divides `size`; 0 is like 1.
  std::size_t add(std::size_t size, std::size_t unit);

  // Closes the layout. Local; allocates. Returns false if all is as it was at the last `close`. Otherwise it lays out anew, in
  // a time that grows with the number of segments times owners.
  PARALLAX_COLD bool close(Terms const& terms);

  // Forgets the layout: called for a bucket that stays empty in this step.
  void forget() {
    laid_out_ = 0;
    parcels_.clear();
  }

  // Returns the number of owners of the last terms.
  std::size_t owners() const { return terms_.owners; }
  // Returns the options of the last terms.
  FusionOptions const& options() const { return terms_.options; }
  // Returns the segments laid out, in the order of `add`; valid until the next `add`.
  Slice<Segment const> segments() const { return {segments_.data(), laid_out_}; }
  // Returns the segment of this number, from `add`.
  Segment const& segment(std::size_t s) const { return segments_[s]; }
  // Returns the parcels, in the order of their segments and of their travel; valid until the next `close`.
  Slice<Parcel const> parcels() const { return parcels_; }
  // Returns the parcel of a segment.
  Parcel const& parcel_of(std::size_t segment) const { return parcels_[segments_[segment].parcel]; }

  // Returns an owner's part of a segment, both by number: elements of the segment.
  Range part(std::size_t segment, std::size_t owner) const {
    std::size_t const cut = at(segment, owner) + segment;  // a segment has one more cut than owners
    return {cuts_[cut], cuts_[cut + 1]};
  }
  // Returns the first element, in a segment's parcel packed by owner, of an owner's part of the segment.
  std::size_t place(std::size_t segment, std::size_t owner) const { return offsets_[at(segment, owner)]; }
  // Returns the first element of every owner's part in a parcel packed by owner, and the parcel's end: owners() + 1 numbers.
  // They last as long as the layout.
  Slice<std::size_t const> begins(Parcel const& parcel) const { return {begins_.data() + parcel.begins, owners() + 1}; }
  // Returns an owner's part of a parcel packed by owner, as elements of the parcel: the parts of its segments in a row.
  Range part(Parcel const& parcel, std::size_t owner) const {
    return {begins_[parcel.begins + owner], begins_[parcel.begins + owner + 1]};
  }

  // Calls f(segment, first element, count, place in the parcel) for every run of elements that lie in a row in a segment and in
  // its parcel as it is packed, in the order of the parcel's memory.
  template <class F>
  void each_run(Parcel const& parcel, F&& f) const {
    std::size_t place = 0;
    std::size_t const owners = terms_.owners, stride = owners + 1, last = parcel.last;
    if (parcel.packing != Packing::by_owner) {
      Segment const* const segments = segments_.data();
      for (std::size_t s = parcel.first; s < last; ++s) {
        std::size_t const size = segments[s].size;
        f(s, std::size_t{0}, size, place);
        place += size;
      }
      return;
    }
    std::size_t const* const cuts = cuts_.data();
    for (std::size_t owner = 0; owner < owners; ++owner) {
      std::size_t cut = parcel.first * stride + owner;
      for (std::size_t s = parcel.first; s < last; ++s) {
        std::size_t const begin = cuts[cut], size = cuts[cut + 1] - begin;
        f(s, begin, size, place);
        place += size;
        cut += stride;
      }
    }
  }

  // The scratch needed: for the parts of one owner, for packed parcels, for the wholes of the parcels not packed.
  struct Scratch {
    std::size_t own = 0,  // this rank's parts; all three in elements
        staged = 0,       // parcels that are packed
        whole = 0;        // the wholes of parcels not packed
  };
  // Gives every parcel its place in scratch; returns the elements needed. `owner`: the owner of the parts, or -1 for none.
  // Parcels with `elsewhere(parcel)` have a part only; and there are wholes if `wholes`.
  template <class Elsewhere>
  Scratch allot(int owner, bool wholes, Elsewhere&& elsewhere) {
    Scratch scratch;
    for (Parcel& parcel : parcels_) {
      bool const here = !elsewhere(parcel), packed = parcel.packing != Packing::none;
      parcel.own_at = scratch.own;
      parcel.staged_at = scratch.staged;
      parcel.whole_at = scratch.whole;
      if (owner >= 0) scratch.own += part(parcel, static_cast<std::size_t>(owner)).size();
      if (here && packed) scratch.staged += parcel.size;
      if (here && !packed && wholes) scratch.whole += parcel.size;
    }
    return scratch;
  }

 private:
  // Returns the index of an owner's part of a segment in a table by segment, then owner.
  std::size_t at(std::size_t segment, std::size_t owner) const { return segment * terms_.owners + owner; }

  // Assigns a segment, by number, to its parcel: the last one, if both are small and it has room.
  void assign(std::size_t s);
  // Cuts a segment: the begins of all owners' parts, and its end: part_begin of whole units, by one division.
  void cut(Segment const& s);
  // Deals a parcel: the begin of each owner's part, packed by owner, and the places of its segments' parts in it.
  void deal(Parcel& parcel);

  Terms terms_;
  std::size_t added_ = 0;     // segments of this update
  std::size_t laid_out_ = 0;  // segments of the layout that stands, 0 without one
  List<Segment> segments_;
  List<Parcel> parcels_;
  List<std::size_t> begins_;   // of the parcels' parts, by parcel, then owner
  List<std::size_t> offsets_;  // of the segments' parts in their parcels, by segment, then owner
  List<std::size_t> cuts_;     // by segment, then owner: the begins of the segments' parts, and the end
};

}  // namespace parallax

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/policy/bucket/dense_layout-inl.hpp"
#endif
