// Owning pointers at a fraction of what <memory> costs a compiler: one owner, or many that count.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

namespace parallax {

// The sole owner of an object made by `make_owned`. Move-only. A base class that is owned has a virtual destructor.
template <class T>
class Owned {
 public:
  Owned() = default;
  explicit Owned(T* object) noexcept : object_{object} {}
  Owned(Owned&& other) noexcept : object_{std::exchange(other.object_, nullptr)} {}
  template <class U>
    requires std::is_convertible_v<U*, T*>
  Owned(Owned<U>&& other) noexcept : object_{other.release()} {}
  Owned& operator=(Owned&& other) noexcept {
    if (this != &other) delete std::exchange(object_, std::exchange(other.object_, nullptr));
    return *this;
  }
  ~Owned() { delete object_; }

  T* get() const noexcept { return object_; }
  T& operator*() const noexcept { return *object_; }
  T* operator->() const noexcept { return object_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }
  T* release() noexcept { return std::exchange(object_, nullptr); }

 private:
  T* object_ = nullptr;
};

template <class T, class... Arguments>
Owned<T> make_owned(Arguments&&... arguments) {
  return Owned<T>{new T(std::forward<Arguments>(arguments)...)};
}

// What can be shared derives from it. The count is not for several threads at a time, like the session that it belongs to.
class Counted {
 protected:
  Counted() = default;
  Counted(Counted const&) noexcept {}
  Counted& operator=(Counted const&) noexcept { return *this; }
  ~Counted() = default;

 private:
  template <class T>
  friend class Shared;
  std::int64_t owners_ = 0;
};

// One of the owners of a Counted object, which goes with the last of them.
template <class T>
class Shared {
 public:
  Shared() = default;
  explicit Shared(T* object) noexcept : object_{object} {
    if (object_) ++count();
  }
  Shared(Shared const& other) noexcept : Shared{other.object_} {}
  Shared(Shared&& other) noexcept : object_{std::exchange(other.object_, nullptr)} {}
  Shared& operator=(Shared other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Shared() { reset(); }

  void reset() noexcept {
    T* const object = std::exchange(object_, nullptr);
    if (object && --object->Counted::owners_ == 0) destroy(object);
  }
  T* get() const noexcept { return object_; }
  T& operator*() const noexcept { return *object_; }
  T* operator->() const noexcept { return object_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }
  std::int64_t owners() const noexcept { return object_ ? object_->Counted::owners_ : 0; }

 private:
  std::int64_t& count() noexcept { return object_->Counted::owners_; }
  [[gnu::noinline]] static void destroy(T* object) noexcept { delete object; }  // rare: what owns it stays small
  T* object_ = nullptr;
};

template <class T, class... Arguments>
Shared<T> make_counted(Arguments&&... arguments) {
  return Shared<T>{new T(std::forward<Arguments>(arguments)...)};
}

}  // namespace parallax
