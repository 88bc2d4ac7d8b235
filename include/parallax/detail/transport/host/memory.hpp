// Memory mapped by all ranks of a host together, and the way to it. Backends whose ranks are processes include it: each brings
// a meeting of its own.
#pragma once

#include <cstddef>

#include "parallax/detail/core/clock.hpp"
#include "parallax/detail/core/config.hpp"
#include "parallax/detail/core/list.hpp"
#include "parallax/detail/memory/nameless_file.hpp"
#include "parallax/detail/memory/place.hpp"

namespace parallax::inline v0_2::detail {

// Communication of a host's ranks before they share memory. Both functions are collective over them, and may throw.
class HostMeeting {
 public:
  // Returns the places shown by all ranks, by place on the host. `mine`: this rank's.
  virtual List<Place> gather(Place const& mine) = 0;
  // Returns true if all say yes, on every rank alike.
  virtual bool all(bool mine) = 0;

 protected:
  ~HostMeeting() = default;
};

// Such memory as mapped by this process, once for all of its ranks if they are threads: so tools that watch memory by its
// address, like sanitizers, see them meet. Under any thread.
class HostMappings {
 public:
  // Returns the memory at that place, for one more rank; none if it cannot be found.
  NamelessFile find(Place const& place);
  // Counts a rank less; after the last one the memory is unmapped.
  void drop(NamelessFile const& file) noexcept;

 private:
  struct Mapping {
    NamelessFile file;
    int ranks;
  };
  SpinLock lock_;
  List<Mapping> all_;
};

inline HostMappings host_mappings;

// Memory of a host; holds its mapping. It is a file without a name, of the host's first rank: nothing of it is left behind,
// however the job ends. Its content stays until the last rank has gone.
class HostMemory {
 public:
  HostMemory() = default;
  // Collective over the ranks of the host; this one has place `self`. Zeros. `data` is null on all of them if one could not
  // find a place shown by another: then none reaches memory of others.
  PARALLAX_COLD HostMemory(HostMeeting& host, std::size_t self, std::size_t bytes);
  HostMemory(HostMemory&&) = delete;
  ~HostMemory();

  // Returns the memory, at another address in every process; null if there is none.
  std::byte* data() const { return mapping_.memory; }

 private:
  // Takes back the place shown by this rank, and does without the memory.
  void hide() noexcept;
  void leave() noexcept;

  NamelessFile mapping_;
  NamelessFile
      shown_;  // until all have found it: of the first rank the memory itself, of another one a word for it to be reached by
};

}  // namespace parallax::detail

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/transport/host/memory-inl.hpp"
#endif
