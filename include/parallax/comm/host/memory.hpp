// Memory that the ranks of a host map together, and how they come to it. Backends whose ranks are processes include it: each
// brings a meeting of its own.
#pragma once

#include <cstddef>
#include <vector>

#include "parallax/core/config.hpp"
#include "parallax/memory/nameless_file.hpp"
#include "parallax/memory/place.hpp"

namespace parallax::detail {

// What the ranks of a host can do together before they share memory. Both are collective over them, and may throw.
class HostMeeting {
 public:
  // What each rank has to show, by place on the host; `mine` is this one's.
  virtual std::vector<Place> gather(Place const& mine) = 0;
  // Whether all say yes: the same answer on every rank.
  virtual bool all(bool mine) = 0;

 protected:
  ~HostMeeting() = default;
};

// Owns its mapping. It is a file without a name, of the host's first rank: nothing of it is left behind, however the job ends.
// What is in it stays until the last rank has gone.
class HostMemory {
 public:
  HostMemory() = default;
  // Collective over the ranks of the host, of which this one has place `self`. Zeros. `data` is null on all of them where one
  // could not find what another one shows: then none reaches memory of others.
  HostMemory(HostMeeting& host, std::size_t self, std::size_t bytes);
  HostMemory(HostMemory const&) = delete;
  HostMemory& operator=(HostMemory const&) = delete;
  ~HostMemory();

  // At another address in every process; null where there is none.
  std::byte* data() const { return mapping_.memory; }

 private:
  NamelessFile mapping_;
  NamelessFile shown_;  // of another rank than the first, until all have found it
};

#if PARALLAX_BODIES
PARALLAX_INLINE HostMemory::HostMemory(HostMeeting& host, std::size_t self, std::size_t bytes) : HostMemory{} {
  NamelessFile& own = self == 0 ? mapping_ : shown_;
  own = NamelessFile::make(self == 0 ? bytes : 1);
  std::vector<Place> const places = host.gather(own.memory ? own.place_of(own.memory) : Place{});
  bool found = own.memory != nullptr;
  for (std::size_t place = 0; place < places.size(); ++place) {
    if (place == self) continue;
    NamelessFile const other = NamelessFile::find(places[place]);
    found = found && other.memory;
    if (place == 0) mapping_ = other;
    else other.unmap();
  }
  bool const all = host.all(found);
  own.close();
  own.file = -1;
  shown_.unmap();
  shown_ = {};
  if (!all) mapping_.unmap();
  if (!all) mapping_ = {};
}

PARALLAX_INLINE HostMemory::~HostMemory() {
  for (NamelessFile const& file : {mapping_, shown_}) {
    file.unmap();
    file.close();
  }
}
#endif

}  // namespace parallax::detail
