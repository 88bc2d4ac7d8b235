// The memory of variables: the concept of a memory space, and the host's. All owners of memory include it: buffers, tables, and
// the communicators that move bytes in them. The room `memory` has the kinds of memory, and the buffers in them.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstring>
#include <new>
#include <string_view>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "parallax/detail/core/option.hpp"

namespace parallax::inline v0_2 {

// A memory space allocates raw bytes (throwing `std::bad_alloc`, or an Error, out_of_memory) and tells if the host may read
// them directly. A variable is given one as an option; `Buffer` and `RowOps` are chosen by it. A space is a type without
// objects: all its members are static, and any thread may call them.
//   axis                        space_axis; by it a variable knows the meaning of its template argument
//   allocate(bytes)             memory for any trivially copyable type, contents indeterminate
//   deallocate(memory, bytes)   gives back a block of `allocate` for as many bytes
//   host_readable               true if code of the host may read and write the memory by its address
//   gives_back_late             optional, true if giving back waits for a device; then a Buffer puts it off
template <class S>
concept MemorySpace = requires(std::size_t bytes, void* memory) {
  requires std::same_as<typename S::axis, space_axis>;
  { S::allocate(bytes) } -> std::same_as<void*>;
  { S::deallocate(memory, bytes) } noexcept;
  { S::host_readable } -> std::convertible_to<bool>;
};

// Memory of the C++ heap. Blocks of `large` bytes and more begin at a huge page and, on Linux, ask the kernel for huge pages:
// rows picked at random from a table of small ones miss the address translation at almost every row. A kernel that does not
// grant them is no error. Neither kind is touched here: the pages come with the first writes.
struct HostSpace {
  // An option of variables on the axis of memory spaces; the default there.
  using axis = space_axis;
  // The space's name; texts of a variable's type leave it out, for it is the default.
  static constexpr std::string_view name = "HostSpace";
  // True: loops of the host run over this memory.
  static constexpr bool host_readable = true;
  static constexpr std::align_val_t alignment{64};  // a cache line, and the widest vector register
  // Bytes of a huge page of x86-64; large blocks begin at its multiples.
  static constexpr std::size_t huge_page = std::size_t{2} << 20, large = 2 * huge_page;  // bytes of a large block at least

  // Local. Returns `bytes` of uninitialised memory; throws `std::bad_alloc`. The block begins at a multiple of 64 bytes, a
  // large one at a multiple of `huge_page`. Compiled once, like `deallocate`: every buffer calls both.
  [[gnu::noinline]] static void* allocate(std::size_t bytes) {
    void* const memory = ::operator new(bytes, alignment_of(bytes));
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    if (bytes >= large) static_cast<void>(::madvise(memory, bytes - bytes % huge_page, MADV_HUGEPAGE));
#endif
    return memory;
  }
  // Local. Gives back a block, or null; `bytes` as given to `allocate`, for the alignment is found by them.
  [[gnu::noinline]] static void deallocate(void* memory, std::size_t bytes) noexcept {
    ::operator delete(memory, alignment_of(bytes));
  }

 private:
  // Returns the alignment of a block of so many bytes; `allocate` and `deallocate` must agree in it.
  static constexpr std::align_val_t alignment_of(std::size_t bytes) {
    return bytes < large ? alignment : std::align_val_t{huge_page};
  }
};

// The order of work on a space's memory. Of the host: the calling thread. Work that only knows the queue is a function found by
// it: `copy_bytes` and `copies_of` here, and a kernel room's additions.
struct HostQueue {};
// Copies `bytes` from `from` to `to` before it returns; the ranges do not overlap. Called by mails and exchanges, found by the
// type of their queue. Without bytes nothing is touched, and the pointers may be null.
inline void copy_bytes(HostQueue, void* to, void const* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}
// Many copies put together and started at once. In the host's memory each is made as it comes.
struct HostCopies {
  // Copies `bytes`; the ranges do not overlap.
  void add(void* to, void const* from, std::size_t bytes) { copy_bytes(HostQueue{}, to, from, bytes); }
  // Starts the copies. Nothing is left to be done.
  void start() {}
};
// Returns an empty list of copies. Called by mails, for arrivals from many ranks.
inline HostCopies copies_of(HostQueue) { return {}; }

}  // namespace parallax
