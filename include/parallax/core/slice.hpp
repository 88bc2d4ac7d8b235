// Elements in a row in memory, for lists of the library's own types. Such a list as a std::span costs g++ 12 some 40 to 90 million
// instructions for each element type, for the concepts of its constructors; this costs a tenth (trust.compile_cost counts).
#pragma once

#include <cstddef>
#include <type_traits>

namespace parallax {

// Does not own. What std::span is, made from arrays and from all that has data() and size().
template <class T>
class Slice {
 public:
  using element_type = T;
  using value_type = std::remove_cv_t<T>;

  constexpr Slice() = default;
  constexpr Slice(T* data, std::size_t size) : data_{data}, size_{size} {}
  template <class Run>
    requires requires(Run& run) {
      static_cast<T*>(run.data());
      run.size();
    }
  constexpr Slice(Run&& run) : data_{run.data()}, size_{run.size()} {}
  template <std::size_t n>
  constexpr Slice(T (&run)[n]) : data_{run}, size_{n} {}

  constexpr T* data() const { return data_; }
  constexpr std::size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr T* begin() const { return data_; }
  constexpr T* end() const { return data_ + size_; }
  constexpr T& operator[](std::size_t i) const { return data_[i]; }
  constexpr T& front() const { return data_[0]; }
  constexpr T& back() const { return data_[size_ - 1]; }
  constexpr Slice first(std::size_t count) const { return {data_, count}; }
  constexpr Slice subspan(std::size_t offset) const { return {data_ + offset, size_ - offset}; }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace parallax
