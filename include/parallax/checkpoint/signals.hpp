// SIGTERM and SIGINT as a wish to save and to end. Checkpoints asks a SignalWatch after each step, where its trainer wants that.
#pragma once

#include <signal.h>
#include <time.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>

#include "parallax/core/birth.hpp"
#include "parallax/core/clock.hpp"

namespace parallax::detail {

// While one lives in the process, the first SIGTERM or SIGINT is remembered, and given to the handler that was there before. A further
// one ends the process as if nobody had asked for it, but for those within a second of the first: launchers send the one that a
// terminal has sent as well. A signal that was ignored stays ignored. In a forked child, which saves nothing, a signal does what it did
// before.
class SignalWatch {
 public:
  // Throws nothing; several watches in a process are one.
  SignalWatch() {
    Guard const turn{&turns};
    if (watches++ > 0) return;
    first = 0, birth = {};
    for (std::size_t i = 0; i < signals.size(); ++i) {
      struct ::sigaction mine {};
      mine.sa_sigaction = &handle;
      mine.sa_flags = SA_SIGINFO | SA_RESTART;
      ::sigemptyset(&mine.sa_mask);
      ::sigaction(signals[i], nullptr, &before[i]);
      if (!(before[i].sa_flags & SA_SIGINFO) && before[i].sa_handler == SIG_IGN) continue;
      ::sigaction(signals[i], &mine, nullptr);
    }
  }
  SignalWatch(SignalWatch&&) = delete;
  // The last one gives back the handlers that were there before.
  ~SignalWatch() {
    Guard const turn{&turns};
    if (--watches > 0) return;
    for (std::size_t i = 0; i < signals.size(); ++i) {
      struct ::sigaction now;
      if (::sigaction(signals[i], nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) && now.sa_sigaction == &handle)
        ::sigaction(signals[i], &before[i], nullptr);
    }
  }

  // Whether this process was sent one.
  bool seen() const { return first != 0; }

 private:
  static constexpr std::array signals{SIGTERM, SIGINT};

  static std::int64_t clock() {
    ::timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
  }
  // Calls nothing that a handler may not call.
  static void handle(int signal, ::siginfo_t* info, void* context) {
    int const error = errno;
    if (struct ::sigaction const& there = before[signal == signals[0] ? 0 : 1]; birth.in_child()) {
      ::sigaction(signal, &there, nullptr);
      ::raise(signal);  // once this returns
      errno = error;
      return;
    }
    std::int64_t none = 0;
    std::int64_t const now = clock();
    if (!first.compare_exchange_strong(none, now) && now - none > 1'000'000'000) {
      ::signal(signal, SIG_DFL);
      ::raise(signal);  // once this returns
    } else {
      struct ::sigaction const& there = before[signal == signals[0] ? 0 : 1];
      if (there.sa_flags & SA_SIGINFO) there.sa_sigaction(signal, info, context);
      else if (there.sa_handler != SIG_DFL && there.sa_handler != SIG_IGN) there.sa_handler(signal);
    }
    errno = error;
  }

  static inline SpinLock turns;
  static inline int watches = 0;
  static inline Birth birth;
  static inline std::array<struct ::sigaction, signals.size()> before{};
  static inline std::atomic<std::int64_t> first{0};  // when; 0: never
};

}  // namespace parallax::detail
