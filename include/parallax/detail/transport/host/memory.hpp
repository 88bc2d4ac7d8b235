// Memory mapped by all ranks of a host together. Backends with processes as ranks include it, each with a meeting of its own.
#pragma once

#include <cstddef>

#include "parallax/detail/core/clock.hpp"
#include "parallax/detail/core/config.hpp"
#include "parallax/detail/core/list.hpp"
#include "parallax/detail/memory/nameless_file.hpp"
#include "parallax/detail/memory/place.hpp"

namespace parallax::inline v0_2::detail {

// Communication of a host's ranks before they share memory. Both functions are collective over these ranks, wait for all of
// them, and throw the errors of the transport.
class HostMeeting {
 public:
  // Returns each rank's Place of memory to be found by the others, in the order of the host's ranks. `mine`: this rank's.
  virtual List<Place> gather(Place const& mine) = 0;
  // Returns true, on every rank alike, if all ranks gave true.
  virtual bool all(bool mine) = 0;

 protected:
  ~HostMeeting() = default;
};

// Owner of this process's mappings of HostMemory, each made once for all ranks here if they are threads: so tools that watch
// memory by its address, like sanitizers, see these ranks meet. Any thread may call it, under a lock.
class HostMappings {
 public:
  // Returns the mapping of that place's file, made or shared, until this rank's `drop`; `memory` is null if it is not found.
  NamelessFile find(Place const& place);
  // Counts a rank less for a mapping returned by `find`; after its last rank it is unmapped.
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

// Memory of a host; holds its mapping. The memory is a file without a name, of the host's first rank: nothing of it is left
// behind, however the job ends. Its content stays until the last rank has gone.
class HostMemory {
 public:
  HostMemory() = default;
  // Collective over the ranks of the host; waits for them by `host`, used only here, and throws its errors. `self`: this rank's
  // index on the host. Maps `bytes` zeros; `data` is null on all ranks if one could not find a place shown by another.
  PARALLAX_COLD HostMemory(HostMeeting& host, std::size_t self, std::size_t bytes);
  HostMemory(HostMemory&&) = delete;
  ~HostMemory();

  // Returns the memory, at another address in every process, good as long as this object; null if there is none.
  std::byte* data() const { return mapping_.memory; }

 private:
  // Takes back this rank's place shown to others (`hide`), or lets go of the host's memory (`leave`). Local.
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
