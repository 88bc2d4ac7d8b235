// The process in which an object was made. Whatever owns something outside of its process's own memory asks it: a forked child
// has a copy of the object, and the thing owned is the parent's.
#pragma once

#include <string_view>

#include "parallax/core/error.hpp"
#include "parallax/detail/core/config.hpp"

#ifdef __GLIBC__
extern "C" int pthread_atfork(void (*)(), void (*)(), void (*)()) noexcept;  // as <pthread.h> has it, which is long
#elif __has_include(<pthread.h>)
#include <pthread.h>
#endif

namespace parallax::inline v0_2::detail {

// The number of forks between the start of the program and this process. Raised in each child, before `fork` returns there.
inline int forks = 0;

// Returns that number, and counts from the first call on.
int watched_forks();

// The process in which an object was made. If it says `in_child()`, a destructor does nothing to what others see, and lets go
// of memory and descriptors, which are copies. A plain value: a copy is of the same process. An object that is taken over from
// another process is assigned a new one.
class Birth {
 public:
  Birth() : forks_{watched_forks()} {}

  // Returns whether this process is a child, or a child's child, of the one that made the object: by a load and a comparison.
  bool in_child() const noexcept { return forks != forks_; }
  // Throws Error (misuse) in a child. `rank`: the object's.
  void check(int rank, std::string_view operation) const {
    if (in_child()) refuse(rank, operation);
  }

 private:
  [[noreturn]] PARALLAX_COLD void refuse(int rank, std::string_view operation) const;

  int forks_;
};

}  // namespace parallax::detail

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/core/birth-inl.hpp"
#endif
