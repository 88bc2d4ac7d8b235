// A thread that only its own process waits for. Leaves with threads include it.
#pragma once

#include <system_error>
#include <thread>
#include <utility>

#include "parallax/core/birth.hpp"

namespace parallax::detail {

// A std::jthread that a forked child does not have: there, the destructor lets it be. Move-only.
class OwnThread {
 public:
  // Begins the thread. Throws Error (out_of_memory) where the system makes none.
  template <class... Arguments>
  explicit OwnThread(Arguments&&... arguments) : thread_{made(std::forward<Arguments>(arguments)...)} {}
  // Takes the thread over.
  OwnThread(OwnThread&& other) noexcept : birth_{other.birth_}, thread_{std::move(other.thread_)} {}
  OwnThread& operator=(OwnThread&&) = delete;
  // Asks the thread to stop, and waits for its end.
  ~OwnThread() {
    if (!birth_.in_child()) thread_.~jthread();
  }

 private:
  template <class... Arguments>
  static std::jthread made(Arguments&&... arguments) {
    try {
      return std::jthread{std::forward<Arguments>(arguments)...};
    } catch (std::system_error const& error) {
      refuse(error);
    }
  }
  [[noreturn]] PARALLAX_COLD static void refuse(std::system_error const& why) {
    throw Error{Errc::out_of_memory, -1, "", "",
                joined({"no thread can be made: ", why.code().message(), " (limits: ulimit -u, pids.max)"})};
  }

  Birth birth_;
  union {
    std::jthread thread_;  // whose destructor would wait for ever in a child, or end it
  };
};

}  // namespace parallax::detail
