// Time and patience for polling loops, at a fraction of the cost of <chrono>, with its calendars, and <thread> to a compiler.
// Included by communicators, the progress thread and shared memory.
#pragma once

#include <cerrno>
#if defined(__GLIBCXX__) && __has_include(<bits/chrono.h>)
#include <bits/chrono.h>  // durations and clocks alone; what <chrono> itself begins with
#else
#include <chrono>
#endif
#include <sched.h>
#include <time.h>

namespace parallax::inline v0_2::detail {

// Lets this thread sleep for so long, or a little longer. Called in waits that do not poll.
inline void sleep_for(std::chrono::nanoseconds time) noexcept {
  timespec left{static_cast<time_t>(time.count() / 1'000'000'000), static_cast<long>(time.count() % 1'000'000'000)};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) {  // a signal was handled
  }
}

// Rest of a thread between two polls of a wait. It yields: a yield costs little while nobody else wants the core, and lets a
// waiting peer run. A yielding thread goes behind all other programs that want the core, for tens of milliseconds; a sleeping
// one does not. So after a slow yield a thread naps for a while instead, then tries again.
class Rest {
 public:
  // Rests once. `at_most`: how much later than possible the wait may end by this. `System` has a clock, a yield and a sleep:
  // the test's own, or RealRest. It never naps while yields are quick, for a communicator may move on by polls alone.
  template <class System>
  void take(System&& system, std::chrono::nanoseconds at_most) noexcept {
    constexpr std::chrono::nanoseconds slow{100'000}, least_nap{20'000};
    constexpr std::chrono::nanoseconds least_span{10'000'000}, most_span{1'000'000'000};
    std::chrono::nanoseconds const begin = system.now(), nap = at_most / 32;
    if (begin < naps_until_) return system.sleep_for(nap < least_nap ? least_nap : nap);
    system.yield();
    std::chrono::nanoseconds const end = system.now();
    if (end - begin >= slow) {
      span_ = 2 * span_ < least_span ? least_span : 2 * span_ > most_span ? most_span : 2 * span_;
      naps_until_ = end + span_;
    } else if (end - naps_until_ >= span_) {
      span_ /= 2;
      naps_until_ = end;
    }
  }

 private:
  // End of its naps, or since then the last time of a halved span; and the length of its naps after the next slow yield,
  // halved. Some yields are quick on contended cores, too: only a span of quick yields makes it forget.
  std::chrono::nanoseconds naps_until_{0}, span_{0};
};

// The system's own clock and scheduler.
struct RealRest {
  std::chrono::nanoseconds now() const noexcept { return std::chrono::steady_clock::now().time_since_epoch(); }
  void yield() const noexcept { sched_yield(); }
  void sleep_for(std::chrono::nanoseconds time) const noexcept { detail::sleep_for(time); }
};

// Lets others run between two polls of something that another thread or process will change; `at_most`: see Rest.
inline void rest(std::chrono::nanoseconds at_most = {}) noexcept {
  thread_local Rest own;
  own.take(RealRest{}, at_most);
}

// A lock held for some instructions at a time; a std::mutex that costs a compiler nothing.
class SpinLock {
 public:
  // Waits until the lock is free, and takes it. The caller does not hold it yet.
  void lock() noexcept {
    while (__atomic_test_and_set(&held_, __ATOMIC_ACQUIRE)) rest();
  }
  // Takes the lock if it is free. Returns true if it has taken it. Never waits.
  bool try_lock() noexcept { return !__atomic_test_and_set(&held_, __ATOMIC_ACQUIRE); }
  // Gives the lock back. The next holder sees all writes made under it.
  void unlock() noexcept { __atomic_clear(&held_, __ATOMIC_RELEASE); }

 private:
  bool held_ = false;
};

// Holder of a lock while it lives, if there is a lock. Refers to the lock, which must outlive it.
class Guard {
 public:
  // Waits for the lock and takes it.
  explicit Guard(SpinLock& lock) noexcept : Guard{&lock} {}
  // Waits for the lock and takes it; does nothing for a null pointer, passed by classes that only sometimes have threads.
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
