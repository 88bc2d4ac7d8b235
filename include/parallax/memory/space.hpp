// Where a variable's memory lives: the concept of a memory space, and the host's.
// The room `memory` has the kinds of memory, and the buffers in them.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstring>
#include <new>
#include <string_view>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "parallax/core/option.hpp"

namespace parallax {

// A memory space allocates raw bytes (throwing std::bad_alloc) and says whether the host may read them directly.
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
  using axis = space_axis;
  static constexpr std::string_view name = "HostSpace";
  static constexpr bool host_readable = true;
  static constexpr std::align_val_t alignment{64};  // a cache line, and the widest vector register
  static constexpr std::size_t huge_page = std::size_t{2} << 20, large = 2 * huge_page;

  static void* allocate(std::size_t bytes) {
    void* const memory = ::operator new(bytes, alignment_of(bytes));
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    if (bytes >= large) static_cast<void>(::madvise(memory, bytes - bytes % huge_page, MADV_HUGEPAGE));
#endif
    return memory;
  }
  // `bytes` as given to `allocate`.
  static void deallocate(void* memory, std::size_t bytes) noexcept { ::operator delete(memory, alignment_of(bytes)); }

 private:
  static constexpr std::align_val_t alignment_of(std::size_t bytes) {
    return bytes < large ? alignment : std::align_val_t{huge_page};
  }
};

// Where work on a space's memory is put in order. Of the host: the thread that calls. Work that only knows the queue is a function
// that is found by it: `copy_bytes` here, and what a kernel room adds.
struct HostQueue {};
inline void copy_bytes(HostQueue, void* to, void const* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

}  // namespace parallax
