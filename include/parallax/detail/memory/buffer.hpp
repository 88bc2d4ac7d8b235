// An owning array of trivially copyable elements: it grows without initialising and never shrinks, as scratch for steady steps.
// Variables, plans, lanes and sorts keep their memory in buffers from step to step.
#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>

#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/core/list.hpp"
#include "parallax/detail/memory/space.hpp"

namespace parallax::inline v0_2 {

// An owner of memory. Movable, not copied. A `resize` within the capacity leaves all elements as they are. One beyond it
// allocates, keeps nothing of the old contents and leaves the new ones indeterminate; so it allocates only when the size
// exceeds every earlier one. Strong guarantee: when an allocation throws, the buffer is as it was. If the space's giving back
// waits (`gives_back_late`), outgrown memory is kept until the buffer goes. Elements may be read and written through the buffer
// only if the space is `host_readable`; elsewhere it hands out addresses for kernels and copies. One thread at a time.
template <class T, MemorySpace Space = HostSpace>
  requires std::is_trivially_copyable_v<T>
class Buffer {
 public:
  Buffer() = default;
  // Makes a buffer of `size` elements, indeterminate; throws like `resize`.
  explicit Buffer(std::size_t size) { resize(size); }
  // Takes over the memory of `other`, left empty, without capacity; pointers to elements stay valid.
  Buffer(Buffer&& other) noexcept { swap(other); }
  // Takes over the memory of `other`, left empty, without capacity; this buffer's own memory is given back to the space.
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer{std::move(other)}.swap(*this);
    return *this;
  }
  ~Buffer() { release(); }

  // Makes the size `size` elements. Throws the space's errors: `std::bad_alloc` of HostSpace, Error (out_of_memory, device) of
  // others, or their resource's; `std::bad_alloc` for bytes beyond counting. Growth past the capacity makes pointers invalid.
  void resize(std::size_t size) {
    if (size > capacity_) grow(size);
    size_ = size;
  }

  // Resizes scratch with a need creeping up from step to step: grows by half beyond the size, so soon nothing is allocated any
  // more. Otherwise as `resize`.
  void resize_with_slack(std::size_t size) {
    if (size > capacity_) resize(size + size / 2);
    size_ = size;
  }

  // Sets all size() elements to `value`, on the host.
  void fill(T const& value)
    requires(Space::host_readable)
  {
    std::fill_n(data_, size_, value);
  }

  // Returns the first element, in memory of the space; null as long as nothing was ever allocated.
  T* data() noexcept { return data_; }
  // Returns the first element for reading; null as long as nothing was ever allocated.
  T const* data() const noexcept { return data_; }
  // Returns the number of elements in use, as the last resize has set it.
  std::size_t size() const noexcept { return size_; }
  // Returns the most elements for a resize without an allocation; the size in bytes is this times `sizeof(T)`.
  std::size_t capacity() const noexcept { return capacity_; }
  // Returns true if no element is in use; memory may be held nevertheless.
  bool empty() const noexcept { return size_ == 0; }
  // Returns element i of size(), unchecked; only if the host may read.
  T& operator[](std::size_t i) noexcept { return data_[i]; }
  // Returns element i of size(), for reading, unchecked; only if the host may read.
  T const& operator[](std::size_t i) const noexcept { return data_[i]; }
  // Returns all elements in use as one range, valid until the next resize beyond the capacity.
  std::span<T> span() noexcept { return {data_, size_}; }
  // Returns all elements in use as one range for reading, valid until the next resize beyond the capacity.
  std::span<T const> span() const noexcept { return {data_, size_}; }

  // Exchanges memory and sizes with `other`, outgrown blocks included; nothing is copied, no element moves.
  void swap(Buffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    if constexpr (late) outgrown_.blocks.swap(other.outgrown_.blocks);
  }

 private:
  // True if outgrown memory is kept: `Space::gives_back_late`, false if the space does not say.
  static constexpr bool late = requires { requires Space::gives_back_late; };
  // Outgrown memory, with the capacity for its giving back.
  struct Block {
    T* data;
    std::size_t capacity;
  };
  // In place of Outgrown if memory is given back at once; takes no room.
  struct Nothing {};
  // The outgrown blocks. All of them are given back when the buffer goes, with the last one.
  struct Outgrown {
    List<Block> blocks;
    ~Outgrown() {
      for (Block const& block : blocks) Space::deallocate(block.data, block.capacity * sizeof(T));
    }
  };

  // Takes memory for more elements than there is room for; their values are lost.
  [[gnu::noinline]] void grow(std::size_t size) {
    if (size > std::numeric_limits<std::size_t>::max() / sizeof(T)) throw std::bad_alloc{};
    T* const fresh = static_cast<T*>(Space::allocate(size * sizeof(T)));
    if constexpr (late) {
      try {
        if (data_) outgrown_.blocks.push_back({data_, capacity_});
      } catch (...) {
        Space::deallocate(fresh, size * sizeof(T));
        throw;
      }
      data_ = nullptr;
    }
    release();
    data_ = fresh;
    capacity_ = size;
  }
  // Gives back the memory in use; outgrown blocks stay. The host's takes null back, too.
  void release() noexcept {
    if (data_ || std::is_same_v<Space, HostSpace>) Space::deallocate(data_, capacity_ * sizeof(T));
    data_ = nullptr;
    size_ = capacity_ = 0;
  }

  T* data_ = nullptr;
  std::size_t size_ = 0, capacity_ = 0;
  [[no_unique_address]] std::conditional_t<late, Outgrown, Nothing> outgrown_;
};

}  // namespace parallax
