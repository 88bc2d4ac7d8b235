// Bodies of parallax/detail/transport/host/memory.hpp.
#pragma once

#include "parallax/detail/transport/host/memory.hpp"

namespace parallax::inline v0_2::detail {

PARALLAX_INLINE NamelessFile HostMappings::find(Place const& place) {
  Guard const guard{lock_};
  for (Mapping& mapping : all_)
    if (mapping.file.id == place.id) {
      ++mapping.ranks;
      return mapping.file;
    }
  all_.reserve(all_.size() + 1);
  NamelessFile const found = NamelessFile::find(place);
  if (found.memory) all_.push_back({found, 1});
  return found;
}

PARALLAX_INLINE void HostMappings::drop(NamelessFile const& file) noexcept {
  Guard const guard{lock_};
  for (Mapping& mapping : all_) {
    if (mapping.file.id != file.id) continue;
    if (--mapping.ranks > 0) return;
    mapping.file.unmap();
    mapping = all_.back();
    return all_.pop_back();
  }
}

PARALLAX_INLINE HostMemory::HostMemory(HostMeeting& host, std::size_t self, std::size_t bytes) : HostMemory{} {
  shown_ = NamelessFile::make(self == 0 ? bytes : 1);
  List<Place> const places = host.gather(shown_.memory ? shown_.place_of(shown_.memory) : Place{});
  bool found = true;
  for (Place const& place : places) {
    NamelessFile const other = NamelessFile::find(place);
    found = found && other.memory;
    if (other.memory) other.unmap();
  }
  if (found) mapping_ = host_mappings.find(places[0]);
  bool const all = host.all(mapping_.memory != nullptr);
  hide();
  if (!all) leave();
}

PARALLAX_INLINE HostMemory::~HostMemory() {
  hide();
  leave();
}

PARALLAX_INLINE void HostMemory::hide() noexcept {
  if (shown_.memory) shown_.unmap();
  shown_.close();
  shown_ = {};
}

PARALLAX_INLINE void HostMemory::leave() noexcept {
  if (mapping_.memory) host_mappings.drop(mapping_);
  mapping_ = {};
}

}  // namespace parallax::detail
