// The process in which an object was made. An owner of something outside of its process's own memory asks it: a forked child
// has a copy of the object, but the thing owned is the parent's.
#pragma once

#include <string_view>

#include "parallax/core/error.hpp"
#include "parallax/detail/core/config.hpp"

#ifdef __GLIBC__
extern "C" int pthread_atfork(void (*)(), void (*)(), void (*)()) noexcept;  // as in <pthread.h>, which is long
#elif __has_include(<pthread.h>)
#include <pthread.h>
#endif

namespace parallax::inline v0_2::detail {

// Number of forks between the start of the program and this process. Raised in each child, before `fork` returns there.
inline int forks = 0;

// Returns `forks`, and counts from the first call on. Processes made by `vfork` or `posix_spawn` are not counted: they only
// become another program.
inline int watched_forks() {
#if defined(__GLIBC__) || __has_include(<pthread.h>)
  [[maybe_unused]] static int const watched = pthread_atfork(nullptr, nullptr, [] { ++forks; });
#endif
  return forks;
}

// The process in which an object was made. If it says `in_child()`, a destructor does nothing that others see, and lets go of
// memory and descriptors, which are copies. A plain value: a copy is of the same process. An object taken over from another
// process is assigned a new one.
class Birth {
 public:
  Birth() : forks_{watched_forks()} {}

  // Returns true if this process is a child, or a child's child, of the object's: by a load and a comparison.
  bool in_child() const noexcept { return forks != forks_; }
  // Throws Error (misuse) in a child. `rank`: the object's.
  void check(int rank, std::string_view operation) const {
    if (in_child()) refuse(rank, operation);
  }

 private:
  [[noreturn]] PARALLAX_COLD void refuse(int rank, std::string_view operation) const {
    throw Error{Errc::misuse, rank, operation, "",
                joined({"this process is a child that rank ", rank,
                        " has forked: it has no part in the training, and what it calls here does nothing"})};
  }

  int forks_;
};

}  // namespace parallax::detail
