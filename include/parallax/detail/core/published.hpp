// A value that one thread writes for another, at a fraction of what <atomic> costs a compiler.
#pragma once

namespace parallax::inline v0_2::detail {

// A number or a pointer that one thread writes and others read; 0 to begin with. A reader that sees a value sees all that the
// writer wrote before it.
template <class T>
class Published {
 public:
  // Returns the newest value that has come. For readers.
  T seen() const noexcept { return __atomic_load_n(&value_, __ATOMIC_ACQUIRE); }
  // Returns the value. For its writer.
  T own() const noexcept { return __atomic_load_n(&value_, __ATOMIC_RELAXED); }
  // Writes a value, behind all that was written before. For its writer.
  void publish(T value) noexcept { __atomic_store_n(&value_, value, __ATOMIC_RELEASE); }

 private:
  T value_{};
};

}  // namespace parallax::detail
