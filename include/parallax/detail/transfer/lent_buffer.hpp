// Scratch of dense exchanges, in memory that a communicator can lend if this makes a difference.
#pragma once

#include <concepts>
#include <cstddef>

#include "parallax/comm/communicator.hpp"
#include "parallax/comm/topology.hpp"
#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/memory/buffer.hpp"
#include "parallax/detail/memory/space.hpp"

namespace parallax::inline v0_2 {

// Owns a block of memory that a communicator can lend to peers, or none.
class LentBlock {
 public:
  LentBlock() = default;
  LentBlock(LentBlock const&) = delete;
  LentBlock& operator=(LentBlock const&) = delete;
  ~LentBlock() { release(); }

  // Makes the block at least `bytes` large, by the functions of `from`; if it grows, its contents are lost. Throws the errors
  // of the allocation, and keeps the block as it was.
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

// Owns scratch in the peers' reach, if ranks lend each other their memory; else, and if no such memory can be had, on the heap.
// No memory of a device is lent, and none to an exchange that is not `direct`.
template <class T, Communicator C, MemorySpace Space = HostSpace, bool direct = true>
class LentBuffer {
  static constexpr bool lends = LendsMemory<C> && std::same_as<Space, HostSpace> && direct;

 public:
  // Local. Decides on its place, then resizes to `size` elements as Buffer: its contents may be lost. If the lent space has no
  // room, the heap is used, and the exchange stages.
  void resize_with_slack(Topology<C> const& topology, std::size_t size) {
    shared_ = !can_be(topology, this);  // the heap is out of the peers' reach; not if all memory can be lent
    if (shared_) try {
        return block_.reserve(detail::lent_memory(topology.world()), size * sizeof(T));
      } catch (Error const&) {
        shared_ = false;
      }
    heap_.resize_with_slack(size);
  }
  // Returns the first of as many elements as were asked for last; moves when it grows.
  T* data() { return shared_ ? static_cast<T*>(block_.data()) : heap_.data(); }
  // Returns true if an exchange needs no copy of `memory` in such scratch: peers can reach it, or need not, or none lends.
  static bool can_be([[maybe_unused]] Topology<C> const& topology, [[maybe_unused]] void const* memory) {
    if constexpr (lends) {
      bool const any = detail::any_of(topology.hops(), [](Hop const& hop) { return hop.lends; });
      return topology.size() == 1 || !any || topology.world().place_of(memory).id;
    }
    return true;
  }

 private:
  Buffer<T, Space> heap_;
  LentBlock block_;
  bool shared_ = false;
};

}  // namespace parallax
