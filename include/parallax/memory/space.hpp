// Where a variable's memory lives: the concept of a memory space, and the host's.
#pragma once

#include <concepts>
#include <cstddef>
#include <new>
#include <string_view>

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

struct HostSpace {
  using axis = space_axis;
  static constexpr std::string_view name = "HostSpace";
  static constexpr bool host_readable = true;
  static constexpr std::align_val_t alignment{64};  // a cache line, and the widest vector register

  static void* allocate(std::size_t bytes) { return ::operator new(bytes, alignment); }
  static void deallocate(void* memory, std::size_t) noexcept { ::operator delete(memory, alignment); }
};

}  // namespace parallax
