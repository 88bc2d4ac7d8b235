// Memory that other processes of the host can reach: a memory space, where its blocks lie, and those of others. Communicators
// of MPI include it to lend gradients in place; users allocate theirs in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#if defined(__linux__)
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#endif

#include "parallax/core/algorithm.hpp"
#include "parallax/core/clock.hpp"
#include "parallax/core/error.hpp"
#include "parallax/memory/buffer.hpp"
#include "parallax/memory/place.hpp"
#include "parallax/memory/space.hpp"

namespace parallax {

namespace detail {

// The blocks that this process shares, and those of other processes that it has found. A block is a file without a name, which
// others open through the process that owns it: nothing is left behind, however it ends. At its end lies a page that says which
// block it is, and when it is gone. Used by one thread at a time, or by several. Opened blocks of others are mapped once, and
// unmapped at the first search after their owners have given them back. Called by SharedSpace for its own blocks, and by
// communicators, under any thread, for places; every call takes the lock.
class SharedBlocks {
 public:
  // Zeros. Error out_of_memory, and std::bad_alloc.
  void* allocate(std::size_t bytes) {
    Block block;
    block.bytes = (bytes + page - 1) / page * page;
    open(block);
    Guard const guard{lock_};
    block.id = next_id();
    mark_of(block).id = block.id;
    try {
      own_.push_back(block);
    } catch (...) {
      close(block);
      throw;
    }
    return block.memory;
  }
  // The pages go at once, also where others have found the block.
  void deallocate(void* memory) noexcept {
    Guard const guard{lock_};
    for (Block& block : own_) {
      if (block.memory != memory) continue;
      close(block);
      block = own_.back();
      return own_.pop_back();
    }
  }
  // The place of memory inside one of this process's blocks; one with id 0 where `memory` is in none. Linear in the number of
  // own blocks.
  Place place_of(void const* memory) const {
    auto const* const at = static_cast<std::byte const*>(memory);
    Guard const guard{lock_};
    for (Block const& block : own_)
      if (at >= block.memory && at < block.memory + block.bytes)
        return {block.id, static_cast<std::uint64_t>(at - block.memory), block.bytes, process(), block.file};
    return {};
  }
  // Where a place of this or another process of the host lies in this one; null where it cannot be had. It stays until the
  // block's owner gives it back.
  std::byte* address_of(Place const& place) {
    Guard const guard{lock_};
    for (auto const* blocks : {&own_, &found_})
      for (Block const& block : *blocks)
        if (block.id == place.id) return block.memory + place.offset;
    Block const block = find(place);
    if (!block.memory) return nullptr;
    try {
      found_.push_back(block);
    } catch (...) {
      unmap(block);
      throw;
    }
    return block.memory + place.offset;
  }

 private:
  // Bytes of the page at the end of a block, and the unit that the sizes of blocks are rounded up to.
  static constexpr std::size_t page = 4096;

  // One mapping of a block into this process. `file` is the open descriptor of an own block, and -1 of one that was found:
  // its file is closed once it is mapped.
  struct Block {
    std::byte* memory = nullptr;
    std::size_t bytes = 0;  // without the page at the end
    std::uint64_t id = 0;
    int file = -1;
  };
  // What the page at a block's end says to all processes. `id`: which block it is. `gone`: not 0 once its owner has given it
  // back.
  struct Mark {
    std::uint64_t id, gone;
  };
  static Mark& mark_of(Block const& block) { return *reinterpret_cast<Mark*>(block.memory + block.bytes); }

#if defined(__linux__)
  static std::int32_t process() { return static_cast<std::int32_t>(::getpid()); }
  // Maps a block's bytes and its page at the end; null where the system refuses.
  static std::byte* map(int file, std::size_t bytes) {
    void* const at = ::mmap(nullptr, bytes + page, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    return at == MAP_FAILED ? nullptr : static_cast<std::byte*>(at);
  }
  // Makes the nameless file of a block of `bytes` and maps it; on a throw, nothing is left open.
  static void open(Block& block) {
    block.file = ::memfd_create("parallax", MFD_CLOEXEC);
    if (block.file >= 0 && ::ftruncate(block.file, static_cast<off_t>(block.bytes + page)) == 0)
      block.memory = map(block.file, block.bytes);
    if (block.memory) return;
    if (block.file >= 0) ::close(block.file);
    throw Error{Errc::out_of_memory, -1, "SharedSpace", "",
                joined({block.bytes, " bytes cannot be had as memory that processes share"})};
  }
  // Marks the block as gone, frees its pages for all processes at once, and ends this process's mapping.
  static void close(Block const& block) noexcept {
    __atomic_store_n(&mark_of(block).gone, 1, __ATOMIC_RELEASE);
    static_cast<void>(::madvise(block.memory, block.bytes, MADV_REMOVE));
    unmap(block);
    ::close(block.file);
  }
  // Ends this process's mapping alone, of a block of its own or of another.
  static void unmap(Block const& block) noexcept { ::munmap(block.memory, block.bytes + page); }
  // Maps another process's block through its owner's list of open files; a Block without memory where that cannot be. The
  // mark is compared with the place, for the owner may have given the descriptor to another file since.
  Block find(Place const& place) {
    sweep();
    Block block{nullptr, static_cast<std::size_t>(place.bytes), place.id, -1};
    char name[64];
    std::snprintf(name, sizeof name, "/proc/%d/fd/%d", static_cast<int>(place.process), static_cast<int>(place.file));
    int const file = ::open(name, O_RDWR | O_CLOEXEC);
    if (file < 0) return block;
    auto const size = ::lseek(file, 0, SEEK_END);  // of another container's process, it may be any file
    if (size == static_cast<off_t>(block.bytes + page)) block.memory = map(file, block.bytes);
    ::close(file);
    if (!block.memory || mark_of(block).id == block.id) return block;
    unmap(block);
    return {};
  }
  // Forgets what its owners gave back.
  void sweep() {
    detail::drop_if(found_, [](Block const& block) {
      bool const gone = __atomic_load_n(&mark_of(block).gone, __ATOMIC_ACQUIRE) != 0;
      if (gone) unmap(block);
      return gone;
    });
  }
#else
  static std::int32_t process() { return 0; }
  static void open(Block&) {
    throw Error{Errc::out_of_memory, -1, "SharedSpace", "", "memory that processes share cannot be had on this system"};
  }
  static void close(Block const&) noexcept {}
  static void unmap(Block const&) noexcept {}
  static Block find(Place const&) { return {}; }
#endif

  // Unique on the host: of the process, the time and a counter, scrambled.
  std::uint64_t next_id() {
    auto const time = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
    std::uint64_t id = (time << 20) + (count_ += 2);
    id ^= static_cast<std::uint64_t>(process()) * 0x9e3779b97f4a7c15u;
    return id | 1;
  }

  // Guards all that follows; never held while a block is made, only while the lists are read or changed.
  mutable SpinLock lock_;
  std::vector<Block> own_, found_;
  std::uint64_t count_ = 0;
};

inline SharedBlocks shared_blocks;

}  // namespace detail

// Memory in which the processes of a host reach each other's: what lies in it, a communicator of MPI sums where it lies,
// without a copy on the way. Zeros at first. Allocating is local; a block holds a file descriptor, and nothing of it is left in
// any file system, however the process ends. Throws Error (out_of_memory) where it cannot be had: Linux has it.
struct SharedSpace {
  // An option of variables on the axis of memory spaces.
  using axis = space_axis;
  // What texts that spell a variable's type call this space.
  static constexpr std::string_view name = "SharedSpace";
  // True: to this process it is memory like any other.
  static constexpr bool host_readable = true;

  // Local. `bytes` of zeros, rounded up to whole pages of 4096 bytes, and one page more. Throws Error (out_of_memory).
  static void* allocate(std::size_t bytes) { return detail::shared_blocks.allocate(bytes); }
  // Local. Gives back a block; the pages are free at once, and peers that have it mapped read zeros from then on.
  static void deallocate(void* memory, std::size_t) noexcept { detail::shared_blocks.deallocate(memory); }
};

// Owns its elements: SharedBuffer<float> gradient(n). Ranks that are threads gain nothing by it, and lose nothing.
template <class T>
using SharedBuffer = Buffer<T, SharedSpace>;

}  // namespace parallax
