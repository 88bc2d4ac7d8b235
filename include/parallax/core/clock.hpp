// Time and patience for polling loops, at a fraction of what <chrono> with its calendars and <thread> cost a compiler.
// Communicators, the progress thread and shared memory include it.
#pragma once

#include <cerrno>
#if defined(__GLIBCXX__) && __has_include(<bits/chrono.h>)
#include <bits/chrono.h>  // durations and clocks alone; what <chrono> itself begins with
#else
#include <chrono>
#endif
#if __has_include(<sched.h>)
#include <sched.h>
#include <time.h>
#else
#include <thread>
#endif

namespace parallax::detail {

// Lets another thread of this core run. Called between two polls of something that another thread or process will change.
inline void yield() noexcept {
#if __has_include(<sched.h>)
  sched_yield();
#else
  std::this_thread::yield();
#endif
}

// Lets this thread sleep for so long, or a little longer. Called where a wait is no poll.
inline void sleep_for(std::chrono::nanoseconds time) noexcept {
#if __has_include(<sched.h>)
  timespec left{static_cast<time_t>(time.count() / 1'000'000'000), static_cast<long>(time.count() % 1'000'000'000)};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) {  // a signal was handled
  }
#else
  std::this_thread::sleep_for(time);
#endif
}

// Held for some instructions at a time; a std::mutex that costs a compiler nothing.
class SpinLock {
 public:
  // Waits until the lock is free, and takes it. The caller does not hold it yet.
  void lock() noexcept {
    while (__atomic_test_and_set(&held_, __ATOMIC_ACQUIRE)) yield();
  }
  // Takes the lock if it is free, and says whether it did. Never waits.
  bool try_lock() noexcept { return !__atomic_test_and_set(&held_, __ATOMIC_ACQUIRE); }
  // Gives the lock back: what was written under it is seen by the next holder.
  void unlock() noexcept { __atomic_clear(&held_, __ATOMIC_RELEASE); }

 private:
  bool held_ = false;
};

// Holds a lock while it lives, where there is one. Refers to the lock, which must outlive it.
class Guard {
 public:
  // Waits for the lock and takes it.
  explicit Guard(SpinLock& lock) noexcept : Guard{&lock} {}
  // The same, or nothing at all for a null pointer: a class that only sometimes has threads passes that.
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
