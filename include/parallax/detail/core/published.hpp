// A value written by one thread for another, at a fraction of the cost of <atomic> to a compiler.
#pragma once

namespace parallax::inline v0_2::detail {

// A number or a pointer that one thread writes and others read; 0 at first. A reader of a value sees the writer's earlier
// writes.
template <class T>
class Published {
 public:
  // Returns the newest value that has come. For readers.
  T seen() const noexcept { return __atomic_load_n(&value_, __ATOMIC_ACQUIRE); }
  // Returns the value. For its writer.
  T own() const noexcept { return __atomic_load_n(&value_, __ATOMIC_RELAXED); }
  // Writes a value, behind all earlier writes. For its writer.
  void publish(T value) noexcept { __atomic_store_n(&value_, value, __ATOMIC_RELEASE); }

 private:
  T value_{};
};

}  // namespace parallax::detail
