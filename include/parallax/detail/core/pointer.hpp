// Owning pointers at a fraction of the cost of <memory> to a compiler: one owner, or many that count. Sessions and states of
// variables own by them.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

namespace parallax::inline v0_2 {

// The sole owner of an object made by `make_owned`. Move-only. An owned base class has a virtual destructor.
template <class T>
class Owned {
 public:
  Owned() = default;
  // Takes over an object made by `new`; null for none.
  explicit Owned(T* object) noexcept : object_{object} {}
  // Takes the object over, and leaves `other` without one.
  Owned(Owned&& other) noexcept : object_{std::exchange(other.object_, nullptr)} {}
  // Takes over an object of a derived class.
  template <class U>
    requires std::is_convertible_v<U*, T*>
  Owned(Owned<U>&& other) noexcept : object_{other.release()} {}
  // Deletes its object, and takes over the other's.
  Owned& operator=(Owned&& other) noexcept {
    if (this != &other) delete std::exchange(object_, std::exchange(other.object_, nullptr));
    return *this;
  }
  // Deletes the object, if there is one.
  ~Owned() { delete object_; }

  // Returns the object, still owned here, or null.
  T* get() const noexcept { return object_; }
  // Returns the object; there must be one.
  T& operator*() const noexcept { return *object_; }
  // Returns the object for a member; there must be one.
  T* operator->() const noexcept { return object_; }
  // Returns true if there is an object.
  explicit operator bool() const noexcept { return object_ != nullptr; }
  // Gives the object up: the caller deletes it.
  T* release() noexcept { return std::exchange(object_, nullptr); }

 private:
  T* object_ = nullptr;
};

// Makes an object of T from the arguments in parentheses, and its sole owner.
template <class T, class... Arguments>
Owned<T> make_owned(Arguments&&... arguments) {
  return Owned<T>{new T(std::forward<Arguments>(arguments)...)};
}

// Base of objects shared by `Shared`. The count is not for several threads at a time, like its session.
class Counted {
 protected:
  Counted() = default;
  // A copy of the object has no owners yet: the count is not copied.
  Counted(Counted const&) noexcept {}
  // Assigning to the object leaves its own owners as they are.
  Counted& operator=(Counted const&) noexcept { return *this; }
  ~Counted() = default;

 private:
  template <class T>
  friend class Shared;
  std::int64_t owners_ = 0;
};

// One of the owners of a Counted object, which is deleted with the last of them.
template <class T>
class Shared {
 public:
  Shared() = default;
  // Becomes one more owner of the object; null for none.
  explicit Shared(T* object) noexcept : object_{object} {
    if (object_) ++count();
  }
  // Becomes one more owner of the other's object.
  Shared(Shared const& other) noexcept : Shared{other.object_} {}
  // Takes the other's place among the owners.
  Shared(Shared&& other) noexcept : object_{std::exchange(other.object_, nullptr)} {}
  // Leaves its object, which goes with its last owner, and becomes an owner of the other's.
  Shared& operator=(Shared other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  // Leaves the object, which goes with its last owner.
  ~Shared() { reset(); }

  // Leaves the object now, and has none.
  void reset() noexcept {
    T* const object = std::exchange(object_, nullptr);
    if (object && --object->Counted::owners_ == 0) destroy(object);
  }
  // Returns the object, still owned here, or null.
  T* get() const noexcept { return object_; }
  // Returns the object; there must be one.
  T& operator*() const noexcept { return *object_; }
  // Returns the object for a member; there must be one.
  T* operator->() const noexcept { return object_; }
  // Returns true if there is an object.
  explicit operator bool() const noexcept { return object_ != nullptr; }
  // Returns the number of owners, this one included; 0 without an object. A registry sees by it that nobody else is left.
  std::int64_t owners() const noexcept { return object_ ? object_->Counted::owners_ : 0; }

 private:
  std::int64_t& count() noexcept { return object_->Counted::owners_; }
  [[gnu::noinline]] static void destroy(T* object) noexcept { delete object; }  // rare: the code of owners stays small
  T* object_ = nullptr;
};

// Makes an object of T from the arguments in parentheses, and its first owner.
template <class T, class... Arguments>
Shared<T> make_counted(Arguments&&... arguments) {
  return Shared<T>{new T(std::forward<Arguments>(arguments)...)};
}

}  // namespace parallax
