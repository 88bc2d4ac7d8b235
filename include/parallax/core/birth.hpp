// The process in which an object was made, asked by whatever owns something outside of its process's own memory: a forked child has a
// copy of the object, and what it owns is the parent's.
#pragma once

#if __has_include(<pthread.h>)
#include <pthread.h>
#endif

#include <string_view>

#include "parallax/core/config.hpp"
#include "parallax/core/error.hpp"

namespace parallax::detail {

// How many forks lie between the start of the program and this process. Raised in each child, before `fork` returns there.
inline int forks = 0;

// Returns that number, and counts from the first call on.
int watched_forks();

// The process in which an object was made. A destructor does nothing to what others see where `in_child()`, and lets memory and
// descriptors go, which are copies. A plain value: a copy is of the same process, and whoever takes over what another process has
// made assigns a new one.
class Birth {
 public:
  Birth() : forks_{watched_forks()} {}

  // Whether this process is a child, or a child's child, of the one that made the object: a load and a comparison.
  bool in_child() const noexcept { return forks != forks_; }
  // Throws Error (misuse) in a child. `rank`: the object's.
  void check(int rank, std::string_view operation) const {
    if (in_child()) refuse(rank, operation);
  }

 private:
  [[noreturn]] PARALLAX_COLD void refuse(int rank, std::string_view operation) const;

  int forks_;
};

#if PARALLAX_BODIES
// Processes made by `vfork` or `posix_spawn` are not counted: all that they do is to become another program.
PARALLAX_INLINE int watched_forks() {
#if __has_include(<pthread.h>)
  static int const watched = pthread_atfork(nullptr, nullptr, [] { ++forks; });
  static_cast<void>(watched);
#endif
  return forks;
}

PARALLAX_INLINE void Birth::refuse(int rank, std::string_view operation) const {
  throw Error{Errc::misuse, rank, operation, "",
              joined({"this process is a child that rank ", rank,
                      " has forked: it has no part in the training, and what it calls here does nothing"})};
}
#endif

}  // namespace parallax::detail
