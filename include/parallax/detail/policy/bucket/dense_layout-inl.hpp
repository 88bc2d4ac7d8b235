// Bodies of parallax/detail/policy/bucket/dense_layout.hpp.
#pragma once

#include "parallax/detail/policy/bucket/dense_layout.hpp"

namespace parallax::inline v0_2 {

// Ends the standing layout at a segment unlike the last update's: all from there on is laid out anew.
PARALLAX_INLINE std::size_t DenseLayout::add(std::size_t size, std::size_t unit) {
  if (added_ >= laid_out_ || segments_[added_].size != size || segments_[added_].unit != unit) {
    laid_out_ = 0;
    segments_.resize(added_);
    segments_.push_back({.size = size, .unit = unit});
  }
  return added_++;
}

PARALLAX_INLINE bool DenseLayout::close(Terms const& terms) {
  if (added_ > 0 && added_ == laid_out_ && terms == terms_) return false;
  laid_out_ = 0;
  terms_ = terms;
  segments_.resize(added_);
  parcels_.clear();
  begins_.clear();
  cuts_.clear();
  offsets_.assign(added_ * terms.owners, 0);
  for (std::size_t s = 0; s < added_; ++s) assign(s), cut(segments_[s]);
  for (Parcel& parcel : parcels_) {
    if (parcel.last - parcel.first == 1) parcel.packing = Packing::none;  // nothing to fuse it with
    deal(parcel);
  }
  laid_out_ = added_;
  return true;
}

PARALLAX_INLINE void DenseLayout::assign(std::size_t s) {
  std::size_t const bytes = segments_[s].size * terms_.element;
  bool const large = bytes >= terms_.options.direct_bytes;
  bool const fits = !large && !parcels_.empty() && parcels_.back().packing != Packing::none &&
                    parcels_.back().size * terms_.element + bytes <= terms_.options.fusion_bytes;
  if (!fits) parcels_.push_back({s, s, large ? Packing::none : terms_.fused});
  Parcel& parcel = parcels_.back();
  segments_[s].parcel = parcels_.size() - 1;
  segments_[s].place = parcel.size;
  parcel.last = s + 1;
  parcel.size += segments_[s].size;
}

PARALLAX_INLINE void DenseLayout::cut(Segment const& s) {
  std::size_t const unit = std::max<std::size_t>(s.unit, 1), units = unit == 1 ? s.size : s.size / unit;
  std::size_t const each = units / terms_.owners, more = units % terms_.owners;
  std::size_t begin = 0, due = 0;
  for (std::size_t owner = 0; owner <= terms_.owners; ++owner, begin += each) {
    cuts_.push_back(begin * unit);
    if ((due += more) >= terms_.owners) due -= terms_.owners, ++begin;
  }
}

PARALLAX_INLINE void DenseLayout::deal(Parcel& parcel) {
  parcel.begins = begins_.size();
  std::size_t place = 0;
  for (std::size_t owner = 0; owner < terms_.owners; ++owner) {
    begins_.push_back(place);
    for (std::size_t s = parcel.first; s < parcel.last; ++s) {
      offsets_[at(s, owner)] = place;
      place += part(s, owner).size();
    }
  }
  begins_.push_back(place);
}

}  // namespace parallax
