// Owning pointers at a fraction of what <memory> costs a compiler: one owner, or many that count. Sessions and states of
// variables hold what they own by them.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

namespace parallax::inline v0_2 {

// The sole owner of an object made by `make_owned`. Move-only. A base class that is owned has a virtual destructor.
template <class T>
class Owned {
 public:
  Owned() = default;
  // Takes over an object that was made by `new`; null for none.
  explicit Owned(T* object) noexcept : object_{object} {}
  // Takes the object over, and leaves `other` without one.
  Owned(Owned&& other) noexcept : object_{std::exchange(other.object_, nullptr)} {}
  // The same for an object of a derived class.
  template <class U>
    requires std::is_convertible_v<U*, T*>
  Owned(Owned<U>&& other) noexcept : object_{other.release()} {}
  // Deletes the object that it had, and takes over the other's.
  Owned& operator=(Owned&& other) noexcept {
    if (this != &other) delete std::exchange(object_, std::exchange(other.object_, nullptr));
    return *this;
  }
  // Deletes the object, if there is one.
  ~Owned() { delete object_; }

  // The object, still owned here, or null.
  T* get() const noexcept { return object_; }
  // The object; there must be one.
  T& operator*() const noexcept { return *object_; }
  // A member of the object; there must be one.
  T* operator->() const noexcept { return object_; }
  // Whether there is an object.
  explicit operator bool() const noexcept { return object_ != nullptr; }
  // Gives the object up: the caller deletes it.
  T* release() noexcept { return std::exchange(object_, nullptr); }

 private:
  T* object_ = nullptr;
};

// A new object of T, made from the arguments in parentheses, and its sole owner.
template <class T, class... Arguments>
Owned<T> make_owned(Arguments&&... arguments) {
  return Owned<T>{new T(std::forward<Arguments>(arguments)...)};
}

// What can be shared by `Shared` derives from it. The count is not for several threads at a time, like the session that it
// belongs to.
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
  // One more owner of the object; null for none.
  explicit Shared(T* object) noexcept : object_{object} {
    if (object_) ++count();
  }
  // One more owner of the other's object.
  Shared(Shared const& other) noexcept : Shared{other.object_} {}
  // Takes the other's place among the owners.
  Shared(Shared&& other) noexcept : object_{std::exchange(other.object_, nullptr)} {}
  // Leaves the object that it had, and owns the other's.
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
  // The object, still owned here, or null.
  T* get() const noexcept { return object_; }
  // The object; there must be one.
  T& operator*() const noexcept { return *object_; }
  // A member of the object; there must be one.
  T* operator->() const noexcept { return object_; }
  // Whether there is an object.
  explicit operator bool() const noexcept { return object_ != nullptr; }
  // How many own the object, this one included; 0 where there is none. A registry sees by it that nobody else is left.
  std::int64_t owners() const noexcept { return object_ ? object_->Counted::owners_ : 0; }

 private:
  std::int64_t& count() noexcept { return object_->Counted::owners_; }
  [[gnu::noinline]] static void destroy(T* object) noexcept { delete object; }  // rare: what owns it stays small
  T* object_ = nullptr;
};

// A new object of T, made from the arguments in parentheses, and its first owner.
template <class T, class... Arguments>
Shared<T> make_counted(Arguments&&... arguments) {
  return Shared<T>{new T(std::forward<Arguments>(arguments)...)};
}

}  // namespace parallax
