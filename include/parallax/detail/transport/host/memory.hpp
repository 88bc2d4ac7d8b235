// Memory that the ranks of a host map together, and how they come to it. Backends whose ranks are processes include it: each
// brings a meeting of its own.
#pragma once

#include <cstddef>

#include "parallax/detail/core/clock.hpp"
#include "parallax/detail/core/config.hpp"
#include "parallax/detail/core/list.hpp"
#include "parallax/detail/memory/nameless_file.hpp"
#include "parallax/detail/memory/place.hpp"

namespace parallax::inline v0_2::detail {

// What the ranks of a host can do together before they share memory. Both are collective over them, and may throw.
class HostMeeting {
 public:
  // What each rank has to show, by place on the host; `mine` is this one's.
  virtual List<Place> gather(Place const& mine) = 0;
  // Whether all say yes: the same answer on every rank.
  virtual bool all(bool mine) = 0;

 protected:
  ~HostMeeting() = default;
};

// What this process has mapped of such memory, once for all of its ranks where these are threads: so that whoever watches
// memory by its address, as sanitizers do, sees them meet. Under any thread.
class HostMappings {
 public:
  // One more rank has what is at that place; none where it cannot be found.
  NamelessFile find(Place const& place);
  // A rank does without it; after the last one it is unmapped.
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

// Holds its mapping. It is a file without a name, of the host's first rank: nothing of it is left behind, however the job ends.
// What is in it stays until the last rank has gone.
class HostMemory {
 public:
  HostMemory() = default;
  // Collective over the ranks of the host, of which this one has place `self`. Zeros. `data` is null on all of them where one
  // could not find what another one shows: then none reaches memory of others.
  PARALLAX_COLD HostMemory(HostMeeting& host, std::size_t self, std::size_t bytes);
  HostMemory(HostMemory const&) = delete;
  HostMemory& operator=(HostMemory const&) = delete;
  ~HostMemory();

  // At another address in every process; null where there is none.
  std::byte* data() const { return mapping_.memory; }

 private:
  // Takes back what this rank shows, and does without the memory.
  void hide() noexcept;
  void leave() noexcept;

  NamelessFile mapping_;
  NamelessFile
      shown_;  // until all have found it: of the first rank the memory itself, of another one what it can be reached by
};

}  // namespace parallax::detail

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/transport/host/memory-inl.hpp"
#endif
