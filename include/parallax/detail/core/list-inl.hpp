// Bodies of parallax/detail/core/list.hpp.
#pragma once

#include "parallax/detail/core/list.hpp"

namespace parallax::inline v0_2 {

PARALLAX_INLINE void detail::ListMemory::grow(std::size_t least, std::size_t each, Mover mover) {
  move_to(least > 2 * capacity_ ? least : 2 * capacity_, each, mover);
}

PARALLAX_INLINE void detail::ListMemory::move_to(std::size_t room, std::size_t each, Mover mover) {
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(room, each, &bytes)) throw std::bad_alloc{};
  void* const memory = ::operator new(bytes);
  if (mover) mover(memory_, size_, memory);
  else if (size_ > 0) __builtin_memcpy(memory, memory_, size_ * each);
  ::operator delete(memory_);
  memory_ = memory;
  capacity_ = room;
}

PARALLAX_INLINE void detail::ListMemory::fill_up(std::size_t n, void const* value, std::size_t each) {
  if (n > capacity_) grow(n, each, nullptr);
  if (n > size_) {
    char* const first = static_cast<char*>(memory_) + size_ * each;
    std::size_t const all = (n - size_) * each;
    __builtin_memcpy(first, value, each);
    for (std::size_t done = each; done < all;) {  // the part filled already, once more
      std::size_t const next = done < all - done ? done : all - done;
      __builtin_memcpy(first + done, first, next);
      done += next;
    }
  }
  size_ = n;
}

PARALLAX_INLINE void detail::ListMemory::append_bytes(void const* from, std::size_t n, std::size_t each) {
  if (n == 0) return;
  if (size_ + n > capacity_) grow(size_ + n, each, nullptr);
  __builtin_memcpy(static_cast<char*>(memory_) + size_ * each, from, n * each);
  size_ += n;
}

}  // namespace parallax
