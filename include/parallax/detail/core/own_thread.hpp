// A thread that only its own process waits for. Included by leaves with threads.
#pragma once

#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>

#include "parallax/detail/core/birth.hpp"
#include "parallax/detail/core/pointer.hpp"
#include "parallax/detail/core/published.hpp"

namespace parallax::inline v0_2::detail {

// A request to stop, seen by the thread. Without an OwnThread it is never made. Refers to the OwnThread's memory.
class StopToken {
 public:
  StopToken() = default;
  // Refers to `requested`, the OwnThread's.
  explicit StopToken(Published<bool> const& requested) : requested_{&requested} {}
  // Returns true if the thread is to stop.
  bool stop_requested() const noexcept { return requested_ && requested_->seen(); }

 private:
  Published<bool> const* requested_ = nullptr;
};

// A thread that is asked to stop, and waited for, at the end of its life: as std::jthread, which not every standard library
// has. A forked child does not have it: there, the destructor lets it be. Move-only.
class OwnThread {
 public:
  // Begins the thread, which calls body(StopToken, arguments…), or body(arguments…) for a body without a token. Throws Error
  // (out_of_memory) if the system makes none.
  template <class... Arguments>
  explicit OwnThread(Arguments&&... arguments)
      : stop_{make_owned<Published<bool>>()}, thread_{made(StopToken{*stop_}, std::forward<Arguments>(arguments)...)} {}
  // Takes the thread over.
  OwnThread(OwnThread&& other) noexcept
      : birth_{other.birth_}, stop_{std::move(other.stop_)}, thread_{std::move(other.thread_)} {}
  OwnThread& operator=(OwnThread&&) = delete;
  // Asks the thread to stop, and waits for its end.
  ~OwnThread() {
    if (birth_.in_child()) return;
    if (thread_.joinable()) {
      stop_->publish(true);
      thread_.join();
    }
    thread_.~thread();
  }

 private:
  template <class Body, class... Arguments>
  static std::thread made(StopToken stop, Body&& body, Arguments&&... arguments) {
    try {
      if constexpr (std::is_invocable_v<std::decay_t<Body>, StopToken, std::decay_t<Arguments>...>)
        return std::thread{std::forward<Body>(body), stop, std::forward<Arguments>(arguments)...};
      else return std::thread{std::forward<Body>(body), std::forward<Arguments>(arguments)...};
    } catch (std::system_error const& error) {
      refuse(error);
    }
  }
  [[noreturn]] PARALLAX_COLD static void refuse(std::system_error const& why) {
    throw Error{Errc::out_of_memory, -1, "", "",
                joined({"no thread can be made: ", why.code().message(), " (limits: ulimit -u, pids.max)"})};
  }

  Birth birth_;
  Owned<Published<bool>> stop_;
  union {
    std::thread thread_;  // its destructor would end a child
  };
};

}  // namespace parallax::detail
