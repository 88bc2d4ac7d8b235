// Memory within reach of other processes of the host: a memory space, the places of its blocks, and of others'. Communicators
// of processes include it to lend gradients in place; users allocate theirs in SharedSpace.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "parallax/core/error.hpp"
#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/core/clock.hpp"
#include "parallax/detail/core/list.hpp"
#include "parallax/detail/memory/buffer.hpp"
#include "parallax/detail/memory/nameless_file.hpp"
#include "parallax/detail/memory/place.hpp"
#include "parallax/detail/memory/space.hpp"

namespace parallax::inline v0_2 {

namespace detail {

// The blocks shared by this process, until it gives them back, and the ones found of other processes: files without a name
// (detail/memory/nameless_file.hpp). Opened blocks of others are mapped once, and unmapped at the first search after their
// owners have given them back. Called by SharedSpace for its own blocks, and by communicators for places. Any thread may call;
// every call takes the lock, and is local.
class SharedBlocks {
 public:
  // Returns at least `bytes` of zeros. Throws Error (out_of_memory) if the system has none to share, and std::bad_alloc.
  void* allocate(std::size_t bytes) {
    NamelessFile const block = NamelessFile::make(bytes);
    if (!block.memory)
      throw Error{Errc::out_of_memory, -1, "SharedSpace", "",
                  joined({bytes, " bytes cannot be had as memory that processes share: ", std::strerror(errno)})};
    Guard const guard{lock_};
    try {
      own_.push_back(block);
    } catch (...) {
      drop(block);
      throw;
    }
    return block.memory;
  }
  // Gives back a block of `allocate`: frees its pages at once, even if others have found it. Does nothing for other memory.
  void deallocate(void* memory) noexcept {
    Guard const guard{lock_};
    for (NamelessFile& block : own_) {
      if (block.memory != memory) continue;
      block.give_back();
      drop(block);
      block = own_.back();
      return own_.pop_back();
    }
  }
  // Returns the place of memory inside one of this process's blocks; one with id 0 if `memory` is in none. Linear in the number
  // of own blocks.
  Place place_of(void const* memory) const {
    auto const* const at = static_cast<std::byte const*>(memory);
    Guard const guard{lock_};
    for (NamelessFile const& block : own_)
      if (at >= block.memory && at < block.memory + block.bytes) return block.place_of(at);
    return {};
  }
  // Gives an own block other pages, with the same bytes at the same address: its earlier finders read and write the old ones
  // alone. Places from before lead to nothing any more. Returns false if the system cannot; true if there is no such block.
  bool renew(std::uint64_t id) noexcept {
    Guard const guard{lock_};
    for (NamelessFile& block : own_)
      if (block.id == id) return block.renew();
    return true;
  }
  // Returns the address of a place of this or another process of the host; null if it cannot be had. It stays until the block's
  // owner gives it back. Throws std::bad_alloc.
  std::byte* address_of(Place const& place) {
    Guard const guard{lock_};
    for (auto const* blocks : {&own_, &found_})
      for (NamelessFile const& block : *blocks)
        if (block.id == place.id) return block.memory + place.offset;
    sweep();
    NamelessFile const block = NamelessFile::find(place);
    if (!block.memory) return nullptr;
    try {
      found_.push_back(block);
    } catch (...) {
      block.unmap();
      throw;
    }
    return block.memory + place.offset;
  }

 private:
  // Ends this process's mapping of an own block, out of any finder's reach by now.
  static void drop(NamelessFile const& block) noexcept {
    block.unmap();
    block.close();
  }
  // Unmaps and forgets the found blocks that their owners have given back.
  void sweep() {
    detail::drop_if(found_, [](NamelessFile const& block) {
      bool const gone = __atomic_load_n(&block.mark().gone, __ATOMIC_ACQUIRE) != 0;
      if (gone) block.unmap();
      return gone;
    });
  }

  // Guards all members below; never held while a block is made, only while the lists are read or changed.
  mutable SpinLock lock_;
  List<NamelessFile> own_, found_;
};

inline SharedBlocks shared_blocks;

}  // namespace detail

// Memory open to all processes of a host: communicators of MPI and of sockets sum its contents in place, without a copy on the
// way. Zeros at first. Allocating is local; a block holds a file descriptor, and leaves nothing in any file system, however the
// process ends. Throws Error (out_of_memory) if it cannot be had: Linux has it.
struct SharedSpace {
  // An option of variables on the axis of memory spaces.
  using axis = space_axis;
  // The name of this space in texts with a variable's type.
  static constexpr std::string_view name = "SharedSpace";
  // True: to this process it is memory like any other.
  static constexpr bool host_readable = true;

  // Local. Returns `bytes` of zeros, rounded up to a multiple of 64 KiB, and 64 KiB more; only pages touched take memory.
  // Throws Error (out_of_memory) if the system has none to share, and std::bad_alloc.
  static void* allocate(std::size_t bytes) { return detail::shared_blocks.allocate(bytes); }
  // Local. Gives back a block; the pages are free at once, and peers with a mapping read zeros from then on.
  static void deallocate(void* memory, std::size_t) noexcept { detail::shared_blocks.deallocate(memory); }
};

// Owns its elements: SharedBuffer<float> gradient(n). Ranks as threads gain nothing by it, and lose nothing.
template <class T>
using SharedBuffer = Buffer<T, SharedSpace>;

}  // namespace parallax
