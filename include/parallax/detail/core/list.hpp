// Lists that own their elements, and slices that refer to elements, for the memory of sessions, policies and communicators.
// Users hand over and get std::vectors or spans. A std::vector costs a compiler some forty functions for each type of elements,
// and the engine has forty types: a trainer with these lists takes a fifth less to compile, and its front end a quarter. A
// std::span costs g++ 12 some 40 to 90 million instructions for each type, for its constructors' concepts; a Slice a tenth.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <new>
#include <type_traits>
#include <utility>

#include "parallax/detail/core/config.hpp"

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

namespace detail {

// Memory of a list, and its operations by the size of an element, `each`, for any type. std::bad_alloc leaves all unchanged.
class ListMemory {
 public:
  // Returns the number of elements.
  std::size_t size() const noexcept { return size_; }
  // Returns true if there is none.
  bool empty() const noexcept { return size_ == 0; }
  // Returns the number of elements that fit without an allocation.
  std::size_t capacity() const noexcept { return capacity_; }

 protected:
  // Moves `n` elements to memory that has none, and ends the old ones; null for elements that move as bytes.
  using Mover = void (*)(void* from, std::size_t n, void* to) noexcept;

  ListMemory() = default;
  ListMemory(ListMemory const&) = delete;
  ListMemory& operator=(ListMemory const&) = delete;
  ~ListMemory() = default;

  // Makes room for `least` elements, and for twice as many as before.
  void grow(std::size_t least, std::size_t each, Mover mover);
  // Makes room for `room` elements, no fewer than there are. Throws std::bad_alloc also if no memory has so many bytes.
  void move_to(std::size_t room, std::size_t each, Mover mover);
  // Sets the number of elements that are bytes to `n`; new ones are copies of `*value`.
  void fill_up(std::size_t n, void const* value, std::size_t each);
  // Appends copies of the `n` elements at `from`, outside of the list, which are copied as bytes.
  void append_bytes(void const* from, std::size_t n, std::size_t each);
  // Exchanges the contents of the lists.
  void exchange(ListMemory& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
  }

  void* memory_ = nullptr;
  std::size_t size_ = 0, capacity_ = 0;
};

}  // namespace detail

// Owned elements in a row, with the functions of a std::vector that the library needs. T moves without an exception. References
// to elements are invalid after the list has grown. Ranges are preconditions; nothing checks them.
template <class T>
class List : public detail::ListMemory {
  static_assert(std::is_nothrow_move_constructible_v<T> || !std::is_move_constructible_v<T>);
  static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);

 public:
  // Type of an element.
  using value_type = T;

  List() noexcept = default;  // other constructors begin with it: if one throws, its elements are ended
  // Makes `n` elements, each a T{}.
  explicit List(std::size_t n) : List() { resize(n); }
  // Makes `n` copies of `value`.
  List(std::size_t n, T const& value) : List() { assign(n, value); }
  // Copies the elements of a range.
  template <class It>
    requires requires(It it) { *it; }
  List(It first, It last) : List() { append(first, last); }
  // Copies these elements.
  List(std::initializer_list<T> elements) : List() { append(elements.begin(), elements.end()); }
  // Copies the elements.
  List(List const& other) : List() { append(other.begin(), other.end()); }
  // Takes the elements, and leaves `other` empty.
  List(List&& other) noexcept { exchange(other); }
  // Replaces its elements by copies of the other's.
  List& operator=(List const& other) {
    if (this != &other) assign(other.begin(), other.end());
    return *this;
  }
  // Replaces its elements by the other's.
  List& operator=(List&& other) noexcept {
    List taken{std::move(other)};
    exchange(taken);
    return *this;
  }
  // Ends the elements.
  ~List() {
    clear();
    ::operator delete(memory_);
  }

  // Returns the first element; null as long as nothing was ever allocated.
  T* data() noexcept { return static_cast<T*>(memory_); }
  // Returns the first element for reading.
  T const* data() const noexcept { return static_cast<T const*>(memory_); }
  // Returns the first element, for loops.
  T* begin() noexcept { return static_cast<T*>(memory_); }
  // Returns the first element for reading.
  T const* begin() const noexcept { return static_cast<T const*>(memory_); }
  // Returns the place behind the last element.
  T* end() noexcept { return static_cast<T*>(memory_) + size_; }
  // Returns the place behind the last element for reading.
  T const* end() const noexcept { return static_cast<T const*>(memory_) + size_; }
  // Returns element i, 0 <= i < size().
  T& operator[](std::size_t i) noexcept { return static_cast<T*>(memory_)[i]; }
  // Returns element i for reading.
  T const& operator[](std::size_t i) const noexcept { return static_cast<T const*>(memory_)[i]; }
  // Returns the first element of a list that is not empty.
  T& front() noexcept { return *static_cast<T*>(memory_); }
  // Returns the first element for reading.
  T const& front() const noexcept { return *static_cast<T const*>(memory_); }
  // Returns the last element of a list that is not empty.
  T& back() noexcept { return static_cast<T*>(memory_)[size_ - 1]; }
  // Returns the last element for reading.
  T const& back() const noexcept { return static_cast<T const*>(memory_)[size_ - 1]; }

  // Ends all elements, and keeps their memory.
  void clear() noexcept {
    if constexpr (!std::is_trivially_destructible_v<T>)
      while (size_ > 0) pop_back();
    size_ = 0;
  }
  // Ends the last element of a list that is not empty.
  void pop_back() noexcept { data()[--size_].~T(); }
  // Makes room for `n` elements in all.
  void reserve(std::size_t n) {
    if (n > capacity_) move_to(n, sizeof(T), mover());
  }
  // Appends a copy of any element, also of one of the list's.
  void push_back(T const& value) { push_back(T(value)); }
  // Moves an element of elsewhere to the end.
  void push_back(T&& value) {
    if (size_ == capacity_) grow(size_ + 1, sizeof(T), mover());
    new (data() + size_) T(std::move(value));
    ++size_;
  }
  // Appends an element made from the arguments, and returns it.
  template <class... Arguments>
  T& emplace_back(Arguments&&... arguments) {
    push_back(T(std::forward<Arguments>(arguments)...));
    return back();
  }
  // Sets the number of elements to `n`: the last ones end, or new ones are each a T{}.
  void resize(std::size_t n) {
    if constexpr (is_bytes) {
      T const value{};
      fill_up(n, &value, sizeof(T));
    } else {
      while (size_ > n) pop_back();
      if (n > capacity_) make_room(n);
      for (; size_ < n; ++size_) new (data() + size_) T();
    }
  }
  // Sets the number of elements to `n`: the last ones end, or new ones are copies of `value`, which is none of the list's.
  void resize(std::size_t n, T const& value) {
    if constexpr (is_bytes) {
      fill_up(n, &value, sizeof(T));
    } else {
      while (size_ > n) pop_back();
      reserve(n);
      for (; size_ < n; ++size_) new (data() + size_) T(value);
    }
  }
  // Replaces the elements by `n` copies of `value`, which is none of the list's.
  void assign(std::size_t n, T const& value) {
    clear();
    resize(n, value);
  }
  // Replaces the elements by copies of a range, which is none of the list's.
  template <class It>
    requires requires(It it) { *it; }
  void assign(It first, It last) {
    clear();
    append(first, last);
  }
  // Appends copies of the elements of a range.
  template <class It>
  void append(It first, It last) {
    if constexpr (is_bytes && std::is_pointer_v<It> && std::is_same_v<std::remove_cv_t<std::remove_pointer_t<It>>, T>)
      append_bytes(first, static_cast<std::size_t>(last - first), sizeof(T));
    else
      for (; first != last; ++first) push_back(T(*first));
  }
  // Takes `n` elements out, or none, from element i on; later ones keep their order.
  void drop(std::size_t i, std::size_t n = 1) {
    for (; n > 0 && i + n < size_; ++i) data()[i] = std::move(data()[i + n]);
    for (; n > 0; --n) pop_back();
  }
  // Exchanges the elements of the two.
  void swap(List& other) noexcept { exchange(other); }

  // Returns true if the elements are equal, one by one.
  friend bool operator==(List const& a, List const& b) { return a == Slice<T const>{b}; }
  // Returns true if the elements equal those of another run, one by one.
  friend bool operator==(List const& a, Slice<T const> b) {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < b.size(); ++i)
      if (!(a[i] == b[i])) return false;
    return true;
  }

 private:
  // True if an element is copied as bytes.
  static constexpr bool is_bytes = std::is_trivially_copyable_v<T>;
  static constexpr Mover mover() {
    if constexpr (is_bytes) return nullptr;
    else return move_elements;
  }
  static void move_elements(void* from, std::size_t n, void* to) noexcept {
    for (std::size_t i = 0; i < n; ++i) {
      T& element = static_cast<T*>(from)[i];
      new (static_cast<T*>(to) + i) T(std::move(element));
      element.~T();
    }
  }
  // Makes room for `n` elements. Elements that cannot move are made once, in a list without any.
  void make_room(std::size_t n) {
    if constexpr (std::is_move_constructible_v<T>) grow(n, sizeof(T), mover());
    else move_to(n, sizeof(T), nullptr);
  }
};

}  // namespace parallax

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/core/list-inl.hpp"
#endif
