// Time and patience for polling loops, at a fraction of what <chrono> with its calendars and <thread> cost a compiler.
#pragma once

#if defined(__GLIBCXX__) && __has_include(<bits/chrono.h>)
#include <bits/chrono.h>  // durations and clocks alone; what <chrono> itself begins with
#else
#include <chrono>
#endif
#if __has_include(<sched.h>)
#include <sched.h>
#else
#include <thread>
#endif

namespace parallax::detail {

// Lets another thread of this core run.
inline void yield() noexcept {
#if __has_include(<sched.h>)
  sched_yield();
#else
  std::this_thread::yield();
#endif
}

// Held for some instructions at a time; a std::mutex that costs a compiler nothing.
class SpinLock {
 public:
  void lock() noexcept {
    while (__atomic_test_and_set(&held_, __ATOMIC_ACQUIRE)) yield();
  }
  bool try_lock() noexcept { return !__atomic_test_and_set(&held_, __ATOMIC_ACQUIRE); }
  void unlock() noexcept { __atomic_clear(&held_, __ATOMIC_RELEASE); }

 private:
  bool held_ = false;
};

// While it lives, the lock is held, where there is one.
class Guard {
 public:
  explicit Guard(SpinLock& lock) noexcept : Guard{&lock} {}
  explicit Guard(SpinLock* lock) noexcept : lock_{lock} {
    if (lock_) lock_->lock();
  }
  Guard(Guard const&) = delete;
  Guard& operator=(Guard const&) = delete;
  ~Guard() {
    if (lock_) lock_->unlock();
  }

 private:
  SpinLock* lock_;
};

}  // namespace parallax::detail
