// Scratch of dense exchanges, in memory that a communicator can lend if this makes a difference.
#pragma once

#include <cstddef>

#include "parallax/comm/communicator.hpp"
#include "parallax/comm/topology.hpp"
#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/memory/buffer.hpp"
#include "parallax/detail/memory/space.hpp"

namespace parallax::inline v0_2 {

// Scratch in the peers' reach, if ranks lend each other their memory; else, and if no such memory can be had, on the heap. No
// memory of a device is lent, and none to an exchange that is not `direct`.
template <class T, Communicator C, MemorySpace Space = HostSpace, bool direct = true>
class LentBuffer {
 public:
  // Resizes as Buffer does: its contents may be lost.
  void resize_with_slack(Topology<C> const&, std::size_t size) { memory_.resize_with_slack(size); }
  // Returns the first of as many elements as were asked for last; moves when it grows.
  T* data() { return memory_.data(); }
  // Returns true if the given memory serves as well as this.
  static bool can_be(Topology<C> const&, void const*) { return true; }

 private:
  Buffer<T, Space> memory_;
};
// A block of a communicator's LentMemory, which it owns.
class LentBlock {
 public:
  LentBlock() = default;
  LentBlock(LentBlock const&) = delete;
  LentBlock& operator=(LentBlock const&) = delete;
  ~LentBlock() { release(); }

  // Makes it at least so large, if it is smaller; then its contents are lost. Throws the errors of the allocation, and keeps
  // the block as it was.
  void reserve(detail::LentMemory const& from, std::size_t bytes) {
    if (bytes <= bytes_) return;
    bytes += bytes / 2;
    void* const fresh = from.allocate(bytes);
    release();
    memory_ = fresh, bytes_ = bytes, from_ = from;
  }
  // Returns the memory; null as long as nothing was reserved.
  void* data() const { return memory_; }

 private:
  void release() {
    if (memory_) from_.deallocate(memory_, bytes_);
  }

  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
  detail::LentMemory from_{};
};

// Of host memory, for exchanges that lend: memory that the communicator can lend, if this makes a difference.
template <class T, Communicator C>
class LentBuffer<T, C, HostSpace, true> {
 public:
  // Decides on its place, then resizes as Buffer. If the lent space has no room, the heap is used, and the exchange stages.
  void resize_with_slack(Topology<C> const& topology, std::size_t size) {
    shared_ = wants_block(topology);
    if (shared_) try {
        return block_.reserve(detail::lent_memory(topology.world()), size * sizeof(T));
      } catch (Error const&) {
        shared_ = false;
      }
    heap_.resize_with_slack(size);
  }
  // Returns the first of as many elements as were asked for last; moves when it grows.
  T* data() { return shared_ ? static_cast<T*>(block_.data()) : heap_.data(); }
  // Returns true if `memory` need not be copied into this first: peers can reach it, or need not, or nobody lends.
  static bool can_be(Topology<C> const& topology, [[maybe_unused]] void const* memory) {
    if constexpr (LendsMemory<C>) {
      auto const& hops = topology.hops();
      bool const lends = detail::any_of(hops, [](Hop const& hop) { return hop.lends; });
      return topology.size() == 1 || !lends || topology.world().place_of(memory).id;
    }
    return true;
  }

 private:
  // Returns true if the heap is out of the peers' reach.
  bool wants_block(Topology<C> const& topology) const { return !can_be(topology, this); }  // not if all memory can be lent

  Buffer<T> heap_;
  LentBlock block_;
  bool shared_ = false;
};

}  // namespace parallax
