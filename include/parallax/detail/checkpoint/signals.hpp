// Signals as a wish to save and to end. Checkpoints asks a SignalWatch after each step, if its trainer wants it to.
#pragma once

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "parallax/detail/core/birth.hpp"
#include "parallax/detail/core/clock.hpp"

namespace parallax::inline v0_2 {

// A set of signals that ask a process to save and to end: `false`, `true`, or a list, {SIGTERM, SIGUSR1}.
class Signals {
 public:
  // Makes the empty set for `false`. For `true`: SIGTERM, SIGINT and SIGHUP, and those of SIGUSR1, SIGUSR2 and SIGXCPU that
  // have no other handler when a watch begins.
  template <std::same_as<bool> Asked>
  constexpr Signals(Asked asked) : usual_{asked} {
    if (asked)
      for (int const number : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU}) add(number);
  }
  // Takes just these, by their numbers; a number of no signal is left out. A template, so that {true} is no list of signal 1.
  template <std::same_as<int> Number>
  constexpr Signals(std::initializer_list<Number> numbers) {
    for (int const number : numbers) add(number);
  }

  // One more than the highest number of a signal.
  static constexpr int end = 65;
  // Returns true if a number is of the set.
  constexpr bool has(int number) const { return number > 0 && number < end && ((numbers_ >> (number - 1)) & 1) != 0; }
  // Returns true if any number is of the set.
  constexpr bool any() const { return numbers_ != 0; }
  // Returns true if a signal is not watched while the program has a handler of its own for it.
  constexpr bool leaves(int number) const { return usual_ && number != SIGTERM && number != SIGINT && number != SIGHUP; }

 private:
  constexpr void add(int number) {
    if (number > 0 && number < end) numbers_ |= std::uint64_t{1} << (number - 1);
  }

  std::uint64_t numbers_ = 0;
  bool usual_ = false;
};

namespace detail {

// A watch for signals. While one lives in the process, a signal of its set is remembered, and given to the earlier handler. The
// first SIGTERM, SIGINT or SIGHUP ends nothing. A further one of them ends the process as if nobody had asked for it, except
// those within a second of the first: launchers send on the one of a terminal as well. Other signals are warnings, however many
// come: of SIGXCPU the system sends one each second. A signal that was ignored stays ignored.
//
// A handler set over ours, by the program or by another version of the library in it, stays, and is trusted to call ours.
// Without a watch ours hands signals on, and is taken away once it is on top.
//
// A forked child saves nothing. A signal from its parent, or from itself, works there as before the watch. One from elsewhere
// may be for the whole group, as terminals and schedulers send it: the child lives through it like its parent, for the parent's
// next step may need a batch of the child's.
class SignalWatch {
 public:
  // Begins to watch. Throws nothing; several watches in a process are one, of all their signals.
  explicit SignalWatch(Signals const& wanted) {
    Guard const turn{&turns};
    if (watches++ == 0) first = 0, asked = false, birth = {}, process = ::getpid();
    for (int number = 1; number < Signals::end; ++number) {
      auto const i = static_cast<std::size_t>(number);
      struct ::sigaction now;
      if (!wanted.has(number) || ::sigaction(number, nullptr, &now) != 0) continue;
      bool const plain = !(now.sa_flags & SA_SIGINFO), untouched = plain && now.sa_handler == SIG_DFL;
      if (plain && now.sa_handler == SIG_IGN) continue;
      if ((held[i] || wanted.leaves(number)) && !untouched) continue;
      before[i] = now;
      struct ::sigaction mine {};
      mine.sa_sigaction = &handle;
      mine.sa_flags = SA_SIGINFO | SA_RESTART;
      ::sigemptyset(&mine.sa_mask);
      held[i] = ::sigaction(number, &mine, nullptr) == 0;
    }
  }
  SignalWatch(SignalWatch&&) = delete;
  // Gives back the earlier handlers, for the last watch.
  ~SignalWatch() {
    Guard const turn{&turns};
    if (--watches > 0) return;
    for (int number = 1; number < Signals::end; ++number) {
      auto const i = static_cast<std::size_t>(number);
      if (held[i] && is_on_top(number)) held[i] = ::sigaction(number, &before[i], nullptr) != 0;
    }
  }

  // Returns true if this process was sent a watched signal since the first of the present watches began.
  bool seen() const { return asked; }

 private:
  // Returns true if the system calls our handler.
  static bool is_on_top(int number) {
    struct ::sigaction now;
    return ::sigaction(number, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) && now.sa_sigaction == &handle;
  }
  static std::int64_t clock() {
    ::timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
  }
  // Handles a signal. Calls nothing forbidden to a handler.
  static void handle(int signal, ::siginfo_t* info, void* context) {
    int const error = errno;
    auto const i = static_cast<std::size_t>(signal);
    struct ::sigaction const& there = before[i];
    bool const by_kin = info->si_pid == ::getppid() || info->si_pid == ::getpid() || process != ::getppid();
    if (watches == 0 ? is_on_top(signal) : birth.in_child() && by_kin) {
      held[i] = ::sigaction(signal, &there, nullptr) != 0;
      ::raise(signal);  // once this returns
      errno = error;
      return;
    }
    std::int64_t none = 0;
    std::int64_t const now = clock();
    bool const ends = signal == SIGTERM || signal == SIGINT || signal == SIGHUP;
    asked = true;
    if (ends && watches != 0 && !first.compare_exchange_strong(none, now) && now - none > 1'000'000'000) {
      ::signal(signal, SIG_DFL);
      ::raise(signal);  // once this returns
    } else {
      if (there.sa_flags & SA_SIGINFO) there.sa_sigaction(signal, info, context);
      else if (there.sa_handler != SIG_DFL && there.sa_handler != SIG_IGN) there.sa_handler(signal);
    }
    errno = error;
  }

  static inline SpinLock turns;
  static inline std::atomic<int> watches{0};
  static inline Birth birth;
  static inline ::pid_t process = 0;  // maker of the first of the watches
  static inline std::array<struct ::sigaction, Signals::end> before{};
  static inline std::array<std::atomic<bool>, Signals::end> held{};  // ours is on top, or beneath a later one
  static inline std::atomic<std::int64_t> first{0};                  // time of the first one that ends a process; 0: never
  static inline std::atomic<bool> asked{false};
};

}  // namespace detail
}  // namespace parallax
