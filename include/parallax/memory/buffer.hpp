// An owning array of trivially copyable elements that grows without initialising and never shrinks: scratch for steady steps.
#pragma once

#include <cstddef>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "parallax/core/algorithm.hpp"
#include "parallax/memory/space.hpp"

namespace parallax {

// Owns its memory. `resize` keeps nothing of the old contents and leaves the new ones indeterminate; it allocates only when
// the size exceeds every earlier one. Strong guarantee: when an allocation throws, the buffer is as it was. Of a space whose
// giving back waits (`gives_back_late`), memory that became too small is kept until the buffer goes.
template <class T, MemorySpace Space = HostSpace>
  requires std::is_trivially_copyable_v<T>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::size_t size) { resize(size); }
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer{std::move(other)}.swap(*this);
    return *this;
  }
  ~Buffer() { release(); }

  void resize(std::size_t size) {
    if (size > capacity_) {
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
    size_ = size;
  }

  // For scratch whose need creeps up from step to step: grows by half, so that soon nothing is allocated any more.
  void resize_with_slack(std::size_t size) {
    if (size > capacity_) resize(size + size / 2);
    size_ = size;
  }

  void fill(T const& value)
    requires(Space::host_readable)
  {
    std::fill_n(data_, size_, value);
  }

  T* data() noexcept { return data_; }
  T const* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  std::size_t capacity() const noexcept { return capacity_; }
  bool empty() const noexcept { return size_ == 0; }
  T& operator[](std::size_t i) noexcept { return data_[i]; }
  T const& operator[](std::size_t i) const noexcept { return data_[i]; }
  std::span<T> span() noexcept { return {data_, size_}; }
  std::span<T const> span() const noexcept { return {data_, size_}; }

  void swap(Buffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    if constexpr (late) outgrown_.blocks.swap(other.outgrown_.blocks);
  }

 private:
  static constexpr bool late = requires { requires Space::gives_back_late; };
  struct Block {
    T* data;
    std::size_t capacity;
  };
  struct Nothing {};
  struct Outgrown {
    std::vector<Block> blocks;
    ~Outgrown() {
      for (Block const& block : blocks) Space::deallocate(block.data, block.capacity * sizeof(T));
    }
  };

  void release() noexcept {
    if (data_) Space::deallocate(data_, capacity_ * sizeof(T));
    data_ = nullptr;
    size_ = capacity_ = 0;
  }

  T* data_ = nullptr;
  std::size_t size_ = 0, capacity_ = 0;
  [[no_unique_address]] std::conditional_t<late, Outgrown, Nothing> outgrown_;
};

}  // namespace parallax
