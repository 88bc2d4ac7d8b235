// A thread that is waited for by the process that made it, and by no other. Leaves that have threads include it.
#pragma once

#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "parallax/core/birth.hpp"

namespace parallax::detail {

// Error (out_of_memory): the system has refused to make a thread.
PARALLAX_COLD inline Error no_thread(std::system_error const& why, int rank, std::string_view operation) {
  return {Errc::out_of_memory, rank, operation, "",
          joined({"no thread can be made: ", why.code().message(), " (limits: ulimit -u, pids.max)"})};
}

// A std::jthread, of which a forked child has none: there, the destructor lets it be. Move-only.
class OwnThread {
 public:
  // Begins the thread. Throws std::system_error where none can be had.
  template <class... Arguments>
  explicit OwnThread(Arguments&&... arguments) : thread_{std::forward<Arguments>(arguments)...} {}
  // Takes the thread over.
  OwnThread(OwnThread&& other) noexcept : birth_{other.birth_}, thread_{std::move(other.thread_)} {}
  OwnThread& operator=(OwnThread&&) = delete;
  // Asks the thread to stop, and waits for its end.
  ~OwnThread() {
    if (!birth_.in_child()) thread_.~jthread();
  }

 private:
  Birth birth_;
  union {
    std::jthread thread_;  // whose destructor would wait for ever in a child, or end it
  };
};

}  // namespace parallax::detail
