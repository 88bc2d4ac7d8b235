// Elements in a row in memory, for lists of the library's own types: passed and returned by engine, policies and searches. Such
// a list as a std::span costs g++ 12 some 40 to 90 million instructions for each element type, for the concepts of its
// constructors; this costs a tenth.
#pragma once

#include <cstddef>
#include <type_traits>

namespace parallax::inline v0_2 {

// Does not own: the elements must outlive it. Like std::span, made from arrays and from everything with data() and size().
// Ranges are preconditions; nothing checks them.
template <class T>
class Slice {
 public:
  // Target of `data`, const if the elements may not be written.
  using element_type = T;
  // Type of an element without const, for generic code over ranges.
  using value_type = std::remove_cv_t<T>;

  constexpr Slice() = default;
  // Takes `size` elements from `data` on.
  constexpr Slice(T* data, std::size_t size) : data_{data}, size_{size} {}
  // Takes all elements of a vector, a span or another run of T. Refers to them, also if the run is a temporary.
  template <class Run>
    requires requires(Run& run) {
      static_cast<T*>(run.data());
      run.size();
    }
  constexpr Slice(Run&& run) : data_{run.data()}, size_{run.size()} {}
  // Takes all elements of an array.
  template <std::size_t n>
  constexpr Slice(T (&run)[n]) : data_{run}, size_{n} {}

  // Returns the first element; may be null if there is none.
  constexpr T* data() const { return data_; }
  // Returns the number of elements.
  constexpr std::size_t size() const { return size_; }
  // Returns true if there is none.
  constexpr bool empty() const { return size_ == 0; }
  // Returns the first element, for loops.
  constexpr T* begin() const { return data_; }
  // Returns the place behind the last element.
  constexpr T* end() const { return data_ + size_; }
  // Returns element i, 0 <= i < size().
  constexpr T& operator[](std::size_t i) const { return data_[i]; }
  // Returns the first element of a slice that is not empty.
  constexpr T& front() const { return data_[0]; }
  // Returns the last element of a slice that is not empty.
  constexpr T& back() const { return data_[size_ - 1]; }
  // Returns the first `count` elements, of at least so many.
  constexpr Slice first(std::size_t count) const { return {data_, count}; }
  // Returns the elements from number `offset` on, at most size().
  constexpr Slice subspan(std::size_t offset) const { return {data_ + offset, size_ - offset}; }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace parallax
